#include "decision/analysis/incident_book.h"

#include <catch2/catch.hpp>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ccld::decision {

TEST_CASE("An incident is handed out when it is new or changed, once each time") {
  Settings s;
  IncidentBook book(s);
  const uint64_t id = book.open({}).id;
  CHECK(book.take_changed(9).size() == 1);
  CHECK(book.take_changed(9).empty());
  book.confirm(id, 5);
  book.confirm(id, 6);
  const auto changed = book.take_changed(9);
  REQUIRE(changed.size() == 1);
  CHECK(changed[0].state == VerdictState::confirmed);
  CHECK(changed[0].confirmed_ns == 5);
  book.resolve(id, 7);
  CHECK(book.take_changed(9)[0].state == VerdictState::resolved);
  book.confirm(id, 8);
  CHECK(book.find(id)->state == VerdictState::resolved);
}

TEST_CASE("Every time that an incident is handed out it has a new revision, and the run that numbered it") {
  Settings s;
  IncidentBook book(s, {"run-a", 41});
  const uint64_t id = book.open({}).id;
  CHECK(id == 42);
  const auto first = book.take_changed(1);
  REQUIRE(first.size() == 1);
  CHECK(first[0].run == "run-a");
  CHECK(first[0].revision == 1);
  book.end(id, 2);
  const auto last = book.take_changed(3);
  REQUIRE(last.size() == 1);
  CHECK(last[0].revision == 2);
  CHECK(last[0].state == VerdictState::ended);
  book.resolve(id, 4);
  CHECK(book.find(id)->state == VerdictState::ended);
}

TEST_CASE("Which culprit costs more, and what the incident is called while one is named, make no revision") {
  Settings s;
  IncidentBook book(s);
  Incident i;
  i.title = "host A is short of processors, host B too";
  i.culprits.resize(2);
  i.culprits[1].rank = Rank{5};
  i.culprits[0].lost_time_share = 0.51, i.culprits[1].lost_time_share = 0.49;
  const uint64_t id = book.open(i).id;
  CHECK(book.take_changed(ns_per_s).size() == 1);
  Incident& known = *book.find(id);
  std::swap(known.culprits[0], known.culprits[1]);
  known.title = "host B is short of processors, host A too";
  book.changed(id);
  CHECK(book.take_changed(600 * ns_per_s).empty());
  known.culprits.pop_back();
  book.changed(id);
  CHECK(book.take_changed(601 * ns_per_s).size() == 1);
}

TEST_CASE("An incident that has to be forgotten before a reader was told of it is told of all the same") {
  Settings s;
  s.incidents_max = 2;
  IncidentBook book(s);
  const auto ids = [](const std::vector<Incident>& incidents) {
    std::vector<uint64_t> out;
    for (const Incident& i : incidents) out.push_back(i.id);
    return out;
  };
  const uint64_t first = book.open({}).id, second = book.open({}).id;
  CHECK(book.take_changed(1).size() == 2);
  book.resolve(second, 2);
  CHECK(book.take_changed(2).size() == 1);
  book.resolve(first, 3);
  const uint64_t third = book.open({}).id;  // in place of the second: the end of the first is news
  CHECK(book.find(second) == nullptr);
  CHECK(ids(book.take_changed(3)) == std::vector<uint64_t>{first, third});

  const uint64_t fourth = book.open({}).id;  // in place of the first
  CHECK(book.find(first) == nullptr);
  CHECK(ids(book.take_changed(4)) == std::vector<uint64_t>{fourth});
  const uint64_t fifth = book.open({}).id;  // all are open
  const std::vector<Incident> told = book.take_changed(5);
  CHECK(ids(told) == std::vector<uint64_t>{third, fifth});
  CHECK(told[0].state == VerdictState::ended);
  CHECK(told[0].revision == 2);
}

TEST_CASE("Numbers that wander make no revision; a share that moves by ten points makes one after a minute") {
  Settings s;
  IncidentBook book(s);
  Incident i;
  i.culprits.resize(1);
  i.culprits[0].lost_time_share = 0.8;
  i.culprits[0].reason = "its GPU needs 5.1 ms";
  const uint64_t id = book.open(i).id;
  Nanoseconds now_ns = ns_per_s;
  CHECK(book.take_changed(now_ns).size() == 1);
  const auto looks_again = [&](double share, Nanoseconds later_ns) {
    now_ns += later_ns;
    book.find(id)->culprits[0].lost_time_share = share;
    book.find(id)->culprits[0].reason = absl::StrCat("its GPU needs ", share, " ms");
    book.changed(id);
    return book.take_changed(now_ns).size();
  };
  CHECK(looks_again(0.74, 90 * ns_per_s) == 0);
  CHECK(looks_again(0.6, ns_per_s) == 1);
  CHECK(looks_again(0.8, 90 * ns_per_s) == 0);  // the pauses grow
  // What is due later comes without a further change.
  CHECK(book.take_changed(now_ns + 200 * ns_per_s).size() == 1);
  CHECK(book.take_changed(now_ns + 300 * ns_per_s).empty());
  book.find(id)->culprits[0].rank = Rank(3);
  book.changed(id);
  CHECK(book.take_changed(now_ns + 301 * ns_per_s).size() == 1);
}

TEST_CASE("The time of an iteration that becomes known makes one revision") {
  const Settings s;
  IncidentBook book(s);
  const uint64_t id = book.open({}).id;
  const auto told_with = [&](Gain gain, Nanoseconds now_ns) {
    book.find(id)->gain = gain;
    book.changed(id);
    return book.take_changed(now_ns).size();
  };
  const Gain of_window{900, 600, false}, of_iteration{300, 200, true};
  CHECK(told_with(of_window, ns_per_s) == 1);
  CHECK(told_with(of_iteration, 2 * ns_per_s) == 1);
  CHECK(told_with(of_window, 3 * ns_per_s) == 0);
  CHECK(told_with(of_iteration, 4 * ns_per_s) == 0);
}

TEST_CASE("A fault that lasts makes at most four lines in ten minutes, however its shares wander") {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> share(0, 1);
    const Settings s;
    IncidentBook book(s);
    Incident i;
    i.culprits.resize(2);
    i.culprits[1].rank = Rank(7);
    const uint64_t id = book.open(i).id;
    size_t lines = 0;
    for (int second = 1; second <= 600; ++second) {
      Incident& open = *book.find(id);
      if (second == 3) open.state = VerdictState::confirmed;
      open.culprits[0].lost_time_share = share(random);
      open.culprits[1].lost_time_share = 1 - open.culprits[0].lost_time_share;
      if (random() % 2 == 0) std::swap(open.culprits[0], open.culprits[1]);
      book.changed(id);
      lines += book.take_changed(second * ns_per_s).size();
    }
    CHECK(lines >= 2);
    CHECK(lines <= 4);
  }
}

TEST_CASE("A communicator that is still being initialized after a restart keeps its incident") {
  Settings s;
  IncidentBook book(s, {.run = "second", .last_id = 7});
  LeftOpen left{.id = 3, .run = "first", .revision = 4, .fault = FaultClass::h1_not_entered, .job = "j"};
  left.comm_name = "initialization of 8 ranks";
  book.take_up({left});
  Incident i;
  i.fault = FaultClass::h1_not_entered;
  i.job = "j";
  i.comm_name = "initialization of 4 ranks";
  CHECK(book.open(i).id == 8);
  i.comm_name = left.comm_name;
  CHECK(book.open(i).id == 3);
}

TEST_CASE("Numbers go on after those of earlier runs, and what they left open is taken up once") {
  Settings s;
  IncidentBook book(s, {.run = "second", .last_id = 7});
  LeftOpen left{.id = 3, .run = "first", .revision = 4, .fault = FaultClass::h1_not_entered, .job = "j", .onset_ns = -5, .suspected_ns = -1};
  left.comm = CommUid(1);
  left.op = OpSeq(17);
  book.take_up({left});
  const auto hang = [](uint64_t comm, uint64_t op, FaultClass fault = FaultClass::h3_hardware) {
    Incident i;
    i.fault = fault;
    i.job = "j";
    i.comm = CommUid(comm);
    i.op = OpSeq(op);
    i.onset_ns = i.suspected_ns = 9;
    return i;
  };
  CHECK(book.open(hang(1, 18)).id == 8);
  CHECK(book.open(hang(2, 17)).id == 9);
  CHECK(book.open(hang(1, 17, FaultClass::h2_inconsistent)).id == 10);
  const Incident taken = book.open(hang(1, 17));
  CHECK(taken.id == 3);
  CHECK(taken.run == "first");
  CHECK(taken.onset_ns == -5);
  CHECK(taken.suspected_ns == -1);
  CHECK(book.open(hang(1, 17)).id == 11);
  REQUIRE(book.find(taken.handle) != nullptr);
  CHECK(book.find(taken.handle)->run == "first");
  CHECK(book.find(8)->run == "second");
  CHECK(book.all().front().id == 3);
  const auto changed = book.take_changed(10);
  REQUIRE(changed.size() == 5);
  CHECK(changed[0].revision == 1);
  CHECK(changed[3].revision == 5);
}

TEST_CASE("A hang of several communicators is the same after a restart at whichever of them it is reported") {
  LeftOpen left{.id = 3, .fault = FaultClass::h1_not_entered, .job = "j"};
  left.comm = CommUid(1), left.op = OpSeq(60);
  left.victims = {{CommUid(2), OpSeq(359)}};
  Incident i;
  i.fault = FaultClass::h3_hardware;
  i.job = "j";
  i.comm = CommUid(2), i.op = OpSeq(359);
  CHECK(is_same_incident(left, i));
  i.op = OpSeq(360);
  CHECK_FALSE(is_same_incident(left, i));
  i.victim_comms = {{.comm = CommUid(1), .op = OpSeq(60)}};
  CHECK(is_same_incident(left, i));
  i.fault = FaultClass::s1_computation_slow;
  CHECK_FALSE(is_same_incident(left, i));
}

TEST_CASE("Slowness that a restart interrupts is the same whichever rank is late, unlike a hang in another operation") {
  LeftOpen left{.id = 3, .fault = FaultClass::s1_computation_slow, .job = "j"};
  Incident i;
  i.fault = FaultClass::s3_mixed_slow;
  i.job = "j";
  i.op = OpSeq(5);
  CHECK(is_same_incident(left, i));
  i.job = "other";
  CHECK_FALSE(is_same_incident(left, i));
}

TEST_CASE("The oldest resolved incident gives way first") {
  Settings s;
  s.incidents_max = 3;
  IncidentBook book(s);
  for (int i = 0; i < 3; ++i) book.open({});
  book.resolve(2, 1);
  book.open({});
  CHECK(book.find(2) == nullptr);
  CHECK(book.find(1) != nullptr);
  book.open({});
  CHECK(book.find(1) == nullptr);
  CHECK(book.all().size() == 3);
  CHECK(book.open_count() == 3);
}

}  // namespace ccld::decision
