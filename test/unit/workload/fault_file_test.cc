#include "test/support/workload/fault_file.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <stdexcept>

using namespace ccld::workload;
using Catch::Contains;

namespace {

Traffic mixed_traffic() {
  Options options;
  options.operation = "mix";
  options.rank_count = 4;
  options.bytes_min = options.bytes_max = 4096;
  return Traffic(options);
}

// A fault file that is replaced as the launcher does it.
class TemporaryFile {
 public:
  TemporaryFile() : path_("/tmp/ccld-fault-file-test-" + std::to_string(getpid())) {}
  ~TemporaryFile() { unlink(path_.c_str()); }
  void replace(const std::string& text) {
    const std::string part = path_ + ".part";
    std::ofstream(part) << text;
    REQUIRE(rename(part.c_str(), path_.c_str()) == 0);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("Without a fault file every round is as the traffic says") {
  FaultFile faults("", 0);
  faults.refresh();
  const RoundPlan plan = faults.plan(7, mixed_traffic());
  REQUIRE(plan.calls.size() == 1);
  CHECK(plan.calls[0].operation == mixed_traffic().call(7).operation);
  CHECK_FALSE(plan.changed);
}

TEST_CASE("A fault that appears while running changes the rank it names, for as many rounds as it says") {
  TemporaryFile file;
  FaultFile named(file.path(), 3), other(file.path(), 2);
  named.refresh();
  CHECK_FALSE(named.plan(1, mixed_traffic()).changed);

  file.replace(R"({"faults": [{"rank": 3, "kind": "other_count", "factor": 0.5, "rounds": 2}]})");
  named.refresh();
  other.refresh();
  const uint64_t normal = mixed_traffic().call(2).count;
  CHECK(named.plan(2, mixed_traffic()).calls.at(0).count == normal / 2);
  CHECK(named.plan(3, mixed_traffic()).changed);
  CHECK_FALSE(named.plan(4, mixed_traffic()).changed);
  CHECK_FALSE(other.plan(2, mixed_traffic()).changed);
}

TEST_CASE("A fault waits for its round, and zero rounds means from then on") {
  TemporaryFile file;
  file.replace(R"({"faults": [{"rank": 0, "kind": "skip", "from_round": 10, "rounds": 0}]})");
  FaultFile faults(file.path(), 0);
  faults.refresh();
  CHECK(faults.plan(9, mixed_traffic()).calls.size() == 1);
  for (uint64_t round = 10; round < 20; ++round) CHECK(faults.plan(round, mixed_traffic()).calls.empty());
}

TEST_CASE("Another order calls the next round's operation first and each of the two once") {
  TemporaryFile file;
  file.replace(R"({"faults": [{"rank": 0, "kind": "other_order", "from_round": 5}]})");
  FaultFile faults(file.path(), 0);
  faults.refresh();
  const Traffic traffic = mixed_traffic();
  const RoundPlan swapped = faults.plan(5, traffic);
  REQUIRE(swapped.calls.size() == 2);
  CHECK(swapped.calls[0].operation == traffic.call(6).operation);
  CHECK(swapped.calls[1].operation == traffic.call(5).operation);
  CHECK(faults.plan(6, traffic).calls.empty());
  CHECK(faults.plan(7, traffic).calls.size() == 1);
}

TEST_CASE("A delay leaves the call as it is") {
  TemporaryFile file;
  file.replace(
      R"({"faults": [{"rank": 0, "kind": "delay", "ms": 25, "rounds": 0}, {"rank": 0, "kind": "delay", "ms": 5}]})");
  FaultFile faults(file.path(), 0);
  faults.refresh();
  const RoundPlan plan = faults.plan(1, mixed_traffic());
  CHECK(plan.delay_ms == Approx(30));
  CHECK(plan.calls.size() == 1);
  CHECK(faults.plan(2, mixed_traffic()).delay_ms == Approx(25));
}

TEST_CASE("A text that cannot be used names the field and leaves the previous one in force") {
  CHECK_THROWS_WITH(parse_faults("{"), Contains("is not JSON"));
  CHECK_THROWS_WITH(parse_faults("{}"), Contains("faults"));
  CHECK_THROWS_WITH(parse_faults(R"({"faults": [{"kind": "skip"}]})"), Contains("faults[0].rank"));
  CHECK_THROWS_WITH(parse_faults(R"({"faults": [{"rank": 1, "kind": "nap"}]})"),
                    Contains("faults[0].kind") && Contains("nap"));
  CHECK_THROWS_WITH(parse_faults(R"({"faults": [{"rank": 1, "kind": "delay"}]})"), Contains("faults[0].ms"));
  CHECK_THROWS_WITH(parse_faults(R"({"faults": [{"rank": 1, "kind": "other_type", "datatype": "quad"}]})"),
                    Contains("quad"));
  CHECK_THROWS_WITH(parse_faults(R"({"faults": [{"rank": 1, "kind": "skip", "rounds": "x"}]})"),
                    Contains("faults[0].rounds"));

  TemporaryFile file;
  FaultFile faults(file.path(), 1);
  file.replace(R"({"faults": [{"rank": 1, "kind": "skip", "rounds": 0}]})");
  faults.refresh();
  file.replace("not json");
  faults.refresh();
  CHECK(faults.version() == 1);
  CHECK(faults.plan(1, mixed_traffic()).calls.empty());
}

TEST_CASE("Pauses hit a share of the rounds of one rank, and not always for the same time") {
  TemporaryFile file;
  FaultFile faults(file.path(), 1);
  file.replace(R"({"faults": [{"rank": 1, "kind": "pauses", "ms": 100, "share": 0.5, "rounds": 0}]})");
  faults.refresh();
  int paused = 0;
  double shortest = 1e9, longest = 0;
  for (uint64_t round = 1; round <= 200; ++round) {
    const RoundPlan plan = faults.plan(round, mixed_traffic());
    CHECK(plan.changed == (plan.delay_ms > 0));
    if (!plan.changed) continue;
    ++paused;
    shortest = std::min(shortest, plan.delay_ms);
    longest = std::max(longest, plan.delay_ms);
  }
  CHECK(paused > 70);
  CHECK(paused < 130);
  CHECK(shortest >= 50);
  CHECK(longest <= 150);
  CHECK(longest > shortest + 50);
}

TEST_CASE("With a layout a fault changes the call it names, on the communicator it names") {
  TemporaryFile file;
  FaultFile faults(file.path(), 0);
  file.replace(R"({"faults": [{"rank": 0, "kind": "other_count", "factor": 0.5, "comm": "dp", "call": 1}]})");
  faults.refresh();
  Call call;
  call.count = 64;
  CHECK_FALSE(faults.plan_call(5, Group::tensor, 1, 2, call).changed);
  CHECK_FALSE(faults.plan_call(5, Group::data, 0, 2, call).changed);
  const RoundPlan plan = faults.plan_call(5, Group::data, 1, 2, call);
  CHECK(plan.changed);
  CHECK(plan.calls.at(0).count == 32);
  CHECK_FALSE(faults.plan_call(6, Group::data, 1, 2, call).changed);
}

TEST_CASE("Without a call a fault changes all calls of the round on its communicator") {
  TemporaryFile file;
  FaultFile faults(file.path(), 0);
  file.replace(R"({"faults": [{"rank": 0, "kind": "skip", "comm": "tp"}]})");
  faults.refresh();
  CHECK(faults.plan_call(5, Group::tensor, 0, 2, Call()).calls.empty());
  CHECK(faults.plan_call(5, Group::tensor, 1, 2, Call()).calls.empty());
  CHECK_FALSE(faults.plan_call(6, Group::tensor, 0, 2, Call()).calls.empty());
}

TEST_CASE("Communicators change places in the rounds the fault is in force") {
  TemporaryFile file;
  FaultFile faults(file.path(), 0);
  file.replace(R"({"faults": [{"rank": 0, "kind": "other_comm_order", "comm": "world", "with": "tp"}]})");
  faults.refresh();
  REQUIRE(faults.swaps(5).size() == 1);
  CHECK(faults.swaps(6).empty());
}

TEST_CASE("What a fault of a layout lacks is named") {
  CHECK_THROWS_WITH(parse_faults(R"({"faults": [{"rank": 0, "kind": "pauses", "ms": 5}]})"), Contains("share"));
  CHECK_THROWS_WITH(parse_faults(R"({"faults": [{"rank": 0, "kind": "skip", "comm": "xx"}]})"), Contains("xx"));
  CHECK_THROWS_WITH(parse_faults(R"({"faults": [{"rank": 0, "kind": "other_comm_order", "with": "tp"}]})"),
                    Contains("comm"));
}
