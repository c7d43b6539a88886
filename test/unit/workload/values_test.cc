#include "test/support/workload/values.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace ccld::workload;

namespace {

constexpr int ranks = 4;

Call call_of(Operation operation, ncclDataType_t type, ncclRedOp_t reduction, uint64_t count) {
  Call call;
  call.operation = operation;
  call.datatype = type;
  call.reduction = reduction;
  call.count = count;
  call.root = 1;
  return call;
}

float as_float(const std::vector<unsigned char>& bytes, size_t index) {
  float value;
  memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

// What an AllReduce of floats gives, computed in the plainest way.
std::vector<float> sums(uint64_t count) {
  std::vector<float> result(count, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto input = input_of(rank, ncclFloat32, ncclSum, count);
    for (uint64_t i = 0; i < count; ++i) result[i] += as_float(input, i);
  }
  return result;
}

}  // namespace

TEST_CASE("A right sum passes and one wrong element is named") {
  const Call call = call_of(Operation::all_reduce, ncclFloat32, ncclSum, 100);
  std::vector<float> output = sums(100);
  CHECK(check_output(call, 0, ranks, output.data()).empty());
  output[42] += 1;
  CHECK_THAT(check_output(call, 0, ranks, output.data()), Catch::Contains("element 42 of 100"));
}

TEST_CASE("ReduceScatter gives each rank its own part, AllGather gives the parts in order") {
  const std::vector<float> all = sums(40);
  CHECK(check_output(call_of(Operation::reduce_scatter, ncclFloat32, ncclSum, 10), 2, ranks, all.data() + 20).empty());
  CHECK_FALSE(
      check_output(call_of(Operation::reduce_scatter, ncclFloat32, ncclMax, 10), 2, ranks, all.data() + 20).empty());

  std::vector<unsigned char> gathered;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto input = input_of(rank, ncclFloat32, ncclSum, 10);
    gathered.insert(gathered.end(), input.begin(), input.end());
  }
  CHECK(check_output(call_of(Operation::all_gather, ncclFloat32, ncclSum, 10), 3, ranks, gathered.data()).empty());
}

TEST_CASE("Only the root gets the result of a Reduce") {
  const Call call = call_of(Operation::reduce, ncclFloat32, ncclSum, 10);
  CHECK(output_count(call, 1, ranks) == 10);
  CHECK(output_count(call, 0, ranks) == 0);
}

TEST_CASE("Every data type holds the inputs exactly: what a Broadcast delivers is what the root sent") {
  const ncclDataType_t type = GENERATE(ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64, ncclFloat16,
                                       ncclFloat32, ncclFloat64, ncclBfloat16);
  const Call call = call_of(Operation::broadcast, type, ncclSum, 50);
  const auto sent = input_of(1, type, ncclSum, 50);
  CHECK(sent.size() == 50 * bytes_of(type));
  CHECK(check_output(call, 0, ranks, sent.data()).empty());
  const auto other = input_of(2, type, ncclSum, 50);
  CHECK_FALSE(check_output(call, 0, ranks, other.data()).empty());
}

TEST_CASE("Half precision numbers have the standard's bits") {
  // 1.0 is 0x3c00 and 2.0 is 0x4000; the first inputs of rank 0 are 1, 2, ...
  const auto input = input_of(0, ncclFloat16, ncclSum, 2);
  uint16_t bits[2];
  memcpy(bits, input.data(), sizeof bits);
  CHECK(bits[0] == 0x3c00);
  CHECK(bits[1] == 0x4000);
}
