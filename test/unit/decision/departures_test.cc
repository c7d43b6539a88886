// Processes that leave a job: who is to blame, and what becomes of its incidents.
#include "decision/model/departures.h"

#include <set>
#include <utility>

#include <catch2/catch.hpp>

#include "decision/model/processes.h"
#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Cluster;
using fake::Comm;
using fake::HangPlan;
using Why = Departures::Why;

namespace {

constexpr Nanoseconds apart_ns = ns_per_s / 4;
constexpr CommUid comm{1}, other{2};

ProcessModel left_at(double seconds, std::vector<CommUid> comms = {comm}) {
  ProcessModel p;
  p.state = 'X';
  p.state_since_ns = seconds_to_ns(seconds);
  for (CommUid c : comms) p.memberships.push_back({c, Rank{0}});
  return p;
}

Why why(const Departures& d, const ProcessModel& p) { return d.why(p, {p.state_since_ns, p.state_since_ns}, apart_ns); }

HangPlan missing(std::set<int> ranks) {
  HangPlan plan;
  plan.not_called = std::move(ranks);
  return plan;
}

Comm& running_job(Cluster& cluster) {
  Comm& all = cluster.add_comm_of_all(abi::Algorithm::ring);
  all.rounds(30);
  return all;
}

Incident only_incident(const Cluster& cluster) {
  INFO(text(cluster.incidents()));
  REQUIRE(cluster.incidents().size() == 1);
  return cluster.incidents()[0];
}

}  // namespace

TEST_CASE("Who leaves just after another process of his communicator was lost leaves because of that") {
  Departures d;
  const ProcessModel first = left_at(100), same = left_at(100.2), next = left_at(100.5), late = left_at(200),
                     elsewhere = left_at(100.5, {other});
  for (const ProcessModel* p : {&next, &first, &same}) d.lost(*p);  // told in any order
  CHECK(why(d, first) == Why::itself);
  CHECK(why(d, same) == Why::itself);
  CHECK(why(d, next) == Why::after_loss);
  CHECK(why(d, late) == Why::itself);  // the others went on without the first one
  CHECK(why(d, elsewhere) == Why::itself);
}

TEST_CASE("Who has ended a communicator has no part in what becomes of it") {
  Departures d;
  d.lost(left_at(100));
  ProcessModel p = left_at(101);
  p.memberships[0].ended = true;
  CHECK(why(d, p) == Why::itself);
}

TEST_CASE("Whoever leaves while his communicator hangs, as was said, leaves because of that") {
  Departures d;
  d.hangs(comm, seconds_to_ns(50));
  CHECK(why(d, left_at(49)) == Why::itself);
  CHECK(why(d, left_at(3000)) == Why::after_a_hang);
  d.hangs(comm, std::nullopt);
  CHECK(why(d, left_at(3000)) == Why::itself);
  CHECK_FALSE(d.is_broken(comm));
}

TEST_CASE("A hang that nobody listened to counts from when it would have been said") {
  Departures d;
  CHECK(d.hung_before(comm, seconds_to_ns(50)));
  CHECK_FALSE(d.hung_before(comm, seconds_to_ns(50)));
  CHECK(why(d, left_at(49)) == Why::itself);
  CHECK(why(d, left_at(51)) == Why::after_a_hang);
  CHECK(d.hung_before(comm, std::nullopt));
  CHECK(why(d, left_at(51)) == Why::itself);
  CHECK_FALSE(d.is_broken(comm));
}

TEST_CASE("Who fell silent may have left later than who was seen to leave") {
  Departures d;
  d.lost(left_at(100));
  ProcessModel p;
  p.memberships.push_back({comm, Rank{1}});
  CHECK(d.why(p, {seconds_to_ns(99.8), seconds_to_ns(100.9)}, apart_ns) == Why::after_loss);
  CHECK(d.why(p, {seconds_to_ns(98), seconds_to_ns(99.1)}, apart_ns) == Why::itself);
  CHECK(d.silent(comm, seconds_to_ns(99.1)));
  CHECK_FALSE(d.silent(comm, seconds_to_ns(99.1)));
  CHECK(why(d, left_at(100)) == Why::after_loss);
}

TEST_CASE("Processes that end because a rank was killed are not named") {
  Cluster cluster;
  Comm& all = running_job(cluster);
  cluster.kill_process(2);
  all.hang(missing({2, 6}));
  cluster.run_s(0.4);
  cluster.kill_process(6);  // it had not called either
  cluster.kill_process(3);
  cluster.run_s(8);
  const Incident i = only_incident(cluster);
  CHECK(ranks_of(i.culprits) == std::set<int>{2});
  CHECK(i.state == VerdictState::confirmed);
}

TEST_CASE("Two ranks that are killed at the same moment are both named") {
  Cluster cluster;
  Comm& all = running_job(cluster);
  cluster.kill_process(2);
  cluster.run_s(0.1);
  cluster.kill_process(6);
  all.hang(missing({2, 6}));
  cluster.run_s(8);
  CHECK(ranks_of(only_incident(cluster).culprits) == std::set<int>{2, 6});
}

TEST_CASE("A job that is ended while all wait for long, as they may, has no culprit; a rank that is lost then is one") {
  Cluster cluster;
  Comm& all = running_job(cluster);
  HangPlan busy;  // with what comes before
  busy.launched_only = {0, 1, 2, 3, 4, 5, 6, 7};
  all.hang(busy);
  cluster.run_s(6);
  REQUIRE(cluster.incidents().empty());
  SECTION("all are ended") {
    for (int process : {4, 0, 5, 3, 1, 7, 2, 6}) {
      cluster.kill_process(process);
      cluster.run_s(0.05);
    }
    cluster.run_s(30);
    CHECK(cluster.incidents().empty());
  }
  SECTION("one is lost") {
    cluster.kill_process(4);
    cluster.run_s(3);
    CHECK(ranks_of(only_incident(cluster).culprits) == std::set<int>{4});
  }
}

TEST_CASE("A rank that was suspected and is gone by now is certain, and why it was suspected stays") {
  Cluster cluster;
  Comm& all = running_job(cluster);
  all.hang(missing({5}));
  cluster.run_s(8);
  REQUIRE(cluster.open_incidents().size() == 1);
  CHECK(cluster.open_incidents()[0].state == VerdictState::suspected);
  cluster.kill_process(5);
  cluster.run_s(4);
  const Incident i = only_incident(cluster);
  CHECK(i.state == VerdictState::confirmed);
  REQUIRE(ranks_of(i.culprits) == std::set<int>{5});
  CHECK(i.culprits[0].component == Component::application);
  CHECK(i.culprits[0].reason.find("did not call") != std::string::npos);
  CHECK(i.culprits[0].reason.find("its process has gone") != std::string::npos);
}

TEST_CASE("While a job that hangs is ended its incident stays as it is, ends with it, and no other one follows") {
  Cluster cluster;
  Comm& all = running_job(cluster);
  all.hang(missing({5}));
  cluster.run_s(8);
  REQUIRE(cluster.open_incidents().size() == 1);
  for (int process : {0, 5, 3, 1, 7, 4, 2, 6}) {
    cluster.kill_process(process);
    cluster.run_s(0.4);
  }
  cluster.run_s(40);
  const Incident ended = only_incident(cluster);
  CHECK(ended.state == VerdictState::ended);
  CHECK(ranks_of(ended.culprits) == std::set<int>{5});
  CHECK(ended.culprits[0].component == Component::application);
  cluster.run_s(900);
  CHECK(cluster.incidents().size() == 1);
}

// Nobody listened while the job hung for this rank, then rank 2 was killed, and then a service comes.
Incident heard_late(int missing_rank, double hangs_s) {
  Cluster cluster;
  for (int process = 0; process < 8; ++process) cluster.lose_telemetry(process, true);
  Comm& all = running_job(cluster);
  all.hang(missing({missing_rank}));
  cluster.run_s(hangs_s);
  cluster.kill_process(2);
  cluster.run_s(1);
  for (int process = 0; process < 8; ++process) cluster.lose_telemetry(process, false);
  all.announce();
  cluster.run_s(20);
  return only_incident(cluster);
}

TEST_CASE(
    "A rank whose snapshots say that it has aborted because of a hang has left, before that is announced or without "
    "it") {
  Settings settings;
  ProcessTable processes(settings);
  Communicator all(comm, settings);
  const auto snapshot = [&](double seconds, abi::CommState state) {
    Batch b;
    b.process = {"host", "boot", 1, 0, 1};
    b.sent_monotonic_ns = static_cast<uint64_t>(seconds_to_ns(seconds));
    ProcessModel& p = *processes.heard(b, seconds_to_ns(seconds));
    InFlight m;
    m.comm = comm;
    m.sample_monotonic_ns = b.sent_monotonic_ns;
    m.entered = OpSeq{5};
    m.completed = OpSeq{4};
    m.state = state;
    all.in_flight(m, p, seconds_to_ns(seconds));
  };
  snapshot(40, abi::CommState::ready);
  processes.departures().hangs(comm, seconds_to_ns(50));
  const RankModel& r = *all.rank(Rank{0});
  CHECK(life_of(r, processes) == Life::well);
  snapshot(60, abi::CommState::aborted);
  snapshot(61, abi::CommState::aborted);
  CHECK(life_of(r, processes) == Life::left);
  CHECK(left_a_hang(r, processes));
  processes.departures().hangs(comm, std::nullopt);
  CHECK(life_of(r, processes) == Life::aborted);
}

TEST_CASE("A service that comes into the middle of a hang takes nobody for its cause who left since") {
  CHECK(ranks_of(heard_late(5, 30).culprits) == std::set<int>{5});
  CHECK(ranks_of(heard_late(2, 0.2).culprits) == std::set<int>{2});
}

}  // namespace ccld::decision
