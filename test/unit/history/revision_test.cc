#include "decision/history/revision.h"

#include <catch2/catch.hpp>

#include "test/unit/history/verdicts.h"

namespace ccld::test {

TEST_CASE("What incidents are looked up by is taken from the verdict line") {
  const Json v = verdict(7, 3, {.state = "confirmed", .job = "j"});
  const Revision r = revision_of(v).value();
  CHECK(r.incident == 7);
  CHECK(r.number == 3);
  CHECK(r.time_ms == start_ms);
  CHECK(r.run == "first");
  CHECK(r.job == "j");
  CHECK(r.fault_class == "H1");
  CHECK(r.open);
  CHECK(r.line == report::to_line(v));
  CHECK_FALSE(revision(7, 3, {.state = "resolved"}).open);
  CHECK_FALSE(revision(7, 3, {.state = "ended"}).open);
}

TEST_CASE("What is no verdict is no revision") {
  CHECK_FALSE(revision_of(Json()).has_value());
  CHECK_FALSE(revision_of(Json::array()).has_value());
  for (const char* key : {"incident", "revision", "time"}) {
    Json v = verdict(1, 1);
    v.erase(key);
    CHECK_FALSE(revision_of(v).has_value());
    v[key] = "nonsense";
    CHECK_FALSE(revision_of(v).has_value());
  }
}

TEST_CASE("The last revision of an incident whose service is gone says so, and when") {
  const Json last = ended_verdict(verdict(7, 3, {.state = "confirmed"}), start_ms + 1000);
  CHECK(last["state"] == "ended");
  CHECK(last["revision"] == 4);
  CHECK(last["incident"] == 7);
  CHECK(last["run"] == "first");
  CHECK(last["time"] == time_at(start_ms + 1000));
  CHECK(last["next_step"] == ended_reason);
}

TEST_CASE("An incident left open keeps its onset on the clock of the next run") {
  const report::WallClock clock{start_ms * ns_per_ms};  // the next run's clock is at 0 where the first suspected
  const LeftOpen left = left_open_of(verdict(7, 3, {.fault_class = "S2"}), clock).value();
  CHECK(left.id == 7);
  CHECK(left.revision == 3);
  CHECK(left.run == "first");
  CHECK(left.fault == FaultClass::s2_communication_slow);
  CHECK(left.comm.value == 0xabc);
  CHECK(left.op.value == 17);
  CHECK(left.onset_ns == -5 * ns_per_s + ns_per_ms / 2);  // what was cut off is not known
  CHECK(left.suspected_ns == ns_per_ms / 2);
  // The same is told of it, though the next run compares the calendar with its clock a little differently.
  for (const Nanoseconds off_ns : {-300'000, 0, 300'000})
    CHECK(report::WallClock{clock.realtime_minus_clock_ns + off_ns}.text(left.onset_ns) == time_at(start_ms - 5000));
  CHECK(left.victims.empty());
  Json several = verdict(7, 3, {.fault_class = "H1"});
  several["victim_communicators"] = {{{"communicator", "00000000000000de"}, {"op_seq", 5}}, {{"communicator", "00000000000000df"}, {"op_seq", nullptr}}};
  const std::vector<LeftOpen::Victim> victims = left_open_of(several, clock).value().victims;
  REQUIRE(victims.size() == 2);
  CHECK(victims[0].comm.value == 0xde);
  CHECK(victims[0].op.value == 5);
  CHECK(victims[1].op.value == 0);
  Json unknown = verdict(7, 3, {.fault_class = "X9"});
  CHECK_FALSE(left_open_of(unknown, clock).has_value());
}

}  // namespace ccld::test
