#include "test/support/workload/traffic.h"

#include <catch2/catch.hpp>
#include <set>

using namespace ccld::workload;

namespace {

Options options_of(const char* operation) {
  Options options;
  options.operation = operation;
  options.rank_count = 8;
  options.bytes_min = 1024;
  options.bytes_max = 16384;
  options.factor = 4;
  options.iterations = 3;
  return options;
}

}  // namespace

TEST_CASE("Every size gets its iterations, then the next one, then the first again") {
  const Traffic traffic(options_of("allreduce"));
  CHECK(traffic.rounds_per_pass() == 9);
  CHECK(traffic.call(1).bytes == 1024);
  CHECK(traffic.call(3).bytes == 1024);
  CHECK(traffic.call(4).bytes == 4096);
  CHECK(traffic.call(9).bytes == 16384);
  CHECK(traffic.call(10).bytes == 1024);
}

TEST_CASE("Counts are elements of the call: per rank for AllGather and ReduceScatter") {
  CHECK(Traffic(options_of("allreduce")).call(1).count == 256);
  CHECK(Traffic(options_of("allgather")).call(1).count == 32);
  CHECK(Traffic(options_of("reducescatter")).call(1).count == 32);
  CHECK(Traffic(options_of("broadcast")).call(1).count == 256);
}

TEST_CASE("Mixed traffic has every operation, and every rank is a root in its turn") {
  const Traffic traffic(options_of("mix"));
  std::set<Operation> operations;
  std::set<int> roots;
  for (uint64_t round = 1; round <= 40; ++round) {
    operations.insert(traffic.call(round).operation);
    roots.insert(traffic.call(round).root);
  }
  CHECK(operations.size() == 5);
  CHECK(roots.size() == 8);
}

TEST_CASE("The buffers hold twice the count of the widest type") {
  const Traffic traffic(options_of("allreduce"));
  CHECK(traffic.buffer_bytes_max() >= 16384 * 2 * 2);
}

TEST_CASE("Irregular traffic calls what its phase says, within the buffers") {
  Options options = options_of("allreduce");
  options.irregular = true;
  options.seconds = 60;
  const Traffic traffic(options);
  CHECK_FALSE(Traffic(options_of("allreduce")).behaviour(1));
  for (uint64_t round = 1; round <= 5000; ++round) {
    const auto behaviour = traffic.behaviour(round);
    REQUIRE(behaviour);
    const Call call = traffic.call(round);
    REQUIRE(call.operation == behaviour->operation);
    REQUIRE(call.bytes == behaviour->bytes);
    REQUIRE(call.bytes <= options.bytes_max);
  }
}

TEST_CASE("With a layout a phase has fewer rounds, which are iterations") {
  Options options = options_of("allreduce");
  CHECK(phase_limits(options).rounds_divisor == 1);
  options.layout = Layout{2, 2, 2, 1};
  CHECK(phase_limits(options).rounds_divisor > 1);
}
