#include "test/support/workload/fault_file.h"

#include <unistd.h>

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
