#include "decision/model/processes.h"

#include <catch2/catch.hpp>

namespace ccld::decision {

namespace {

Batch from(uint32_t pid, uint64_t seq = 1, const char* boot = "a", uint64_t mono = 0) {
  Batch b;
  b.process = {std::string("host-") + boot, boot, pid, 1, pid};
  b.batch_seq = seq;
  b.sent_monotonic_ns = mono;
  return b;
}

AgentHealth says(uint32_t pid, char state, uint32_t age_ms = 0) {
  AgentHealth h;
  h.siblings.push_back({pid, pid, state, age_ms});
  return h;
}

}  // namespace

TEST_CASE("A stopped process is known from its sibling until it speaks again") {
  Settings s;
  ProcessTable table(s);
  ProcessModel& a = *table.heard(from(1), 1 * ns_per_s);
  ProcessModel& b = *table.heard(from(2), 1 * ns_per_s);
  table.health(a, says(2, 'T', 500), 3 * ns_per_s);
  CHECK(b.stopped());
  CHECK(b.state_since_ns == 3 * ns_per_s - ns_per_s / 2);
  table.heard(from(2, 2), 4 * ns_per_s);
  CHECK_FALSE(b.stopped());
}

TEST_CASE("Siblings speak only of processes of their own machine") {
  Settings s;
  ProcessTable table(s);
  ProcessModel& a = *table.heard(from(1, 1, "a"), ns_per_s);
  ProcessModel& same_pid_elsewhere = *table.heard(from(2, 1, "b"), ns_per_s);
  table.health(a, says(2, 'X'), 3 * ns_per_s);
  CHECK_FALSE(same_pid_elsewhere.gone());
}

TEST_CASE("Containers of one machine have processes with equal ids that began together") {
  Settings s;
  ProcessTable table(s);
  Batch other = from(7);
  other.process.pid_namespace = 2;
  Batch witness = from(8);
  witness.process.pid_namespace = 2;
  ProcessModel& a = *table.heard(from(7), ns_per_s);
  ProcessModel& b = *table.heard(other, ns_per_s);
  CHECK(&a != &b);
  table.health(*table.heard(witness, ns_per_s), says(7, 'X'), 3 * ns_per_s);
  CHECK(b.gone());
  CHECK_FALSE(a.gone());
}

TEST_CASE("An old report of a stop does not count against a process that has just spoken") {
  Settings s;
  ProcessTable table(s);
  ProcessModel& a = *table.heard(from(1), ns_per_s);
  ProcessModel& b = *table.heard(from(2), 5 * ns_per_s);
  table.health(a, says(2, 'T', 1000), 5 * ns_per_s + 1);
  CHECK_FALSE(b.stopped());
}

TEST_CASE("Silence is measured against the newest telemetry of anybody") {
  Settings s;
  ProcessTable table(s);
  ProcessModel& a = *table.heard(from(1), ns_per_s);
  CHECK_FALSE(table.silent(a));
  table.heard(from(2), 20 * ns_per_s);
  CHECK(table.silent(a));
  CHECK_FALSE(table.host_silent(a));  // its host talks through process 2
  ProcessModel& c = *table.heard(from(3, 1, "c"), 20 * ns_per_s);
  table.heard(from(1, 2), 40 * ns_per_s);
  CHECK(table.host_silent(c));
}

TEST_CASE("A container that falls silent is no silent host while its machine speaks") {
  Settings s;
  ProcessTable table(s);
  Batch contained = from(1);
  contained.process.host = "pod-7";
  ProcessModel& a = *table.heard(contained, ns_per_s);
  table.heard(from(2), 20 * ns_per_s);
  CHECK(table.silent(a));
  CHECK_FALSE(table.host_silent(a));
  table.heard(from(3, 1, "elsewhere"), 40 * ns_per_s);
  CHECK(table.host_silent(a));
}

TEST_CASE("Lost, repeated and reordered batches are told apart") {
  Settings s;
  ProcessTable table(s);
  for (uint64_t seq : {1, 2, 4, 3, 4, 4, 7}) table.heard(from(1, seq), ns_per_s);
  CHECK(table.all().begin()->second->lost_batches() == 2);  // 5 and 6
}

TEST_CASE("After exec a process numbers its batches anew: none is lost by that") {
  Settings s;
  ProcessTable table(s);
  for (uint64_t seq : {1, 2, 5}) table.heard(from(1, seq, "a", 100 * seq), ns_per_s);
  const ProcessModel& process = *table.all().begin()->second;
  CHECK(process.lost_batches() == 2);
  for (uint64_t seq : {1, 2, 3}) table.heard(from(1, seq, "a", 1000 + 100 * seq), ns_per_s);
  CHECK(process.lost_batches() == 0);
  table.heard(from(1, 6, "a", 600), ns_per_s);  // of the image before, and late
  table.heard(from(1, 5, "a", 1500), ns_per_s);
  CHECK(process.lost_batches() == 1);
}

TEST_CASE("A sender's clock is mapped by the batch with the least delay") {
  ClockMap clock;
  clock.observe(1'000, 5'500);
  clock.observe(2'000, 6'100);  // 400 less delay
  clock.observe(3'000, 9'000);
  CHECK(clock.to_local(3'000, 9'000) == 7'100);
  CHECK(clock.to_local(9'000, 9'000) == 9'000);  // never in the future
}

TEST_CASE("A clock that jumps ahead is believed once it stays there, and not for what others say in between") {
  const Nanoseconds second = ns_per_s;
  ClockMap clock;
  const auto says = [&](Nanoseconds remote, Nanoseconds now) {
    return clock.observe(static_cast<uint64_t>(remote), now);
  };
  CHECK(says(100 * second, second));
  for (int i = 1; i <= 20; ++i) {
    CHECK(says((100 + i) * second, (1 + i) * second));
    for (int forged = 0; forged < 4; ++forged) CHECK_FALSE(says(int64_t{1} << 61, (1 + i) * second));
  }
  CHECK(clock.to_local(static_cast<uint64_t>(120 * second), 22 * second) == 21 * second);
  // The machine of the service was suspended for an hour: its clock stood still.
  for (int i = 0; i < 4; ++i) CHECK_FALSE(says((3800 + i) * second, (30 + i) * second));
  CHECK(says(3804 * second, 34 * second));
  CHECK(clock.to_local(static_cast<uint64_t>(3804 * second), 40 * second) == 34 * second);
}

TEST_CASE("Communicators are told in the order in which their kernels began on a GPU, however they were reported") {
  KernelLog log;
  constexpr uint64_t hour_ns = 3600 * uint64_t{ns_per_s}, us = 1000;
  log.add(CommUid{3}, 0, hour_ns + 15 * us);
  log.add(CommUid{2}, 0, hour_ns + 10 * us);
  log.add(CommUid{2}, 1, hour_ns);  // another GPU
  log.add(CommUid{1}, 0, hour_ns + 12 * us);
  CHECK(log.order(0) == std::vector{CommUid{2}, CommUid{1}, CommUid{3}});
  log.add(CommUid{4}, 0, hour_ns + 1000 * uint64_t{ns_per_s});
  CHECK(log.order(0) == std::vector{CommUid{2}, CommUid{1}, CommUid{3}, CommUid{4}});
}

TEST_CASE("Processes without communicator are forgotten, and their number is bounded") {
  Settings s;
  s.processes_max = 2;
  ProcessTable table(s);
  CHECK(table.heard(from(1), ns_per_s));
  CHECK(table.heard(from(2), ns_per_s));
  CHECK_FALSE(table.heard(from(3), ns_per_s));
  table.forget(ns_per_s + seconds_to_ns(s.forget_s) + 1);
  CHECK(table.all().empty());
}

TEST_CASE("A process is forgotten when its own time is over, however often the table was swept before") {
  Settings s;
  ProcessTable table(s);
  const Nanoseconds kept = seconds_to_ns(s.forget_s);
  table.heard(from(1), ns_per_s);
  table.heard(from(2), ns_per_s + kept / 2);
  for (Nanoseconds at = ns_per_s; at <= ns_per_s + kept; at += kept / 8) table.forget(at);
  CHECK(table.all().size() == 2);
  table.forget(ns_per_s + kept + 1);
  REQUIRE(table.all().size() == 1);
  CHECK(table.all().begin()->first.pid == 2);
  table.forget(ns_per_s + kept / 2 + kept);
  CHECK(table.all().size() == 1);
  table.forget(ns_per_s + kept / 2 + kept + 1);
  CHECK(table.all().empty());
}

TEST_CASE("A process with a communicator stays, and goes at the next sweep after it has left") {
  Settings s;
  ProcessTable table(s);
  const Nanoseconds kept = seconds_to_ns(s.forget_s);
  ProcessModel& member = *table.heard(from(1), ns_per_s);
  member.memberships.push_back({CommUid{7}, Rank{0}});
  table.heard(from(2), ns_per_s);
  table.forget(ns_per_s + 2 * kept);
  REQUIRE(table.all().size() == 1);
  CHECK(table.all().begin()->second.get() == &member);
  member.memberships.clear();
  table.forget(ns_per_s + 2 * kept + 1);
  CHECK(table.all().empty());
}

TEST_CASE("A process that was forgotten comes back as a new one, and its host with it") {
  Settings s;
  ProcessTable table(s);
  const Nanoseconds later = ns_per_s + seconds_to_ns(s.forget_s) + 1;
  ProcessModel& other = *table.heard(from(1), ns_per_s);
  table.heard(from(2, 40), ns_per_s);
  table.heard(from(1, 2), later);
  table.forget(later);
  REQUIRE(table.all().size() == 1);
  table.health(other, says(2, 'X'), later);  // speaks of nobody
  const ProcessModel& again = *table.heard(from(2, 41), later);
  CHECK_FALSE(again.gone());
  CHECK(again.lost_batches() == 40);  // nothing is left of what was known
  CHECK(again.host == other.host);
  CHECK(again.host->processes == 2);
}

TEST_CASE("A process that speaks before it knows the name of its host stays one process") {
  Settings settings;
  ProcessTable table(settings);
  const auto heard = [&](const std::string& host, Nanoseconds at_ns) {
    Batch b;
    b.process = {host, "boot", 1, 0, 1};
    b.sent_monotonic_ns = at_ns;
    return table.heard(b, at_ns);
  };
  ProcessModel* first = heard("", 1);
  CHECK(heard("node7", 2) == first);
  CHECK(first->id.host == "node7");
  CHECK(heard("", 3) == first);
  CHECK(heard("node7", 4) == first);
  CHECK(table.all().size() == 1);
  CHECK(table.all().begin()->first.host == "node7");
  CHECK(heard("node8", 5) != first);  // another machine that looks alike
}

}  // namespace ccld::decision
