#include "decision/model/init_book.h"

#include <catch2/catch.hpp>

#include "decision/analyzer.h"
#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using abi::InitStage;

namespace {

// Ranks that make a communicator; those that `speak` report every second.
struct Start {
  explicit Start(int ranks, Settings settings = {}) : analyzer(settings), stage(ranks, InitStage::none), result(ranks), since(ranks) {}

  void reach(int rank, InitStage s, int32_t why = 0) {
    stage[rank] = s;
    since[rank] = now_ns;
    result[rank] = why;
  }
  void up(int rank) {
    reach(rank, InitStage::ready);
    CommUp m;
    m.comm = CommUid{5};
    m.comm_hash = 0xabc;
    m.rank = Rank{rank};
    m.rank_count = static_cast<int>(stage.size());
    send(rank, {m});
  }
  void run_s(int seconds) {
    for (int s = 0; s < seconds; ++s) {
      now_ns += ns_per_s;
      for (size_t r = 0; r < stage.size(); ++r) {
        if (stage[r] == InitStage::none || silent.contains(static_cast<int>(r))) continue;
        std::vector<Payload> payloads = {AgentHealth{}};
        if (stage[r] != InitStage::ready) {
          CommInit m;
          m.comm_hash = 0xabc;
          m.rank = Rank{static_cast<int>(r)};
          m.rank_count = static_cast<int>(stage.size());
          m.stage = stage[r];
          m.stage_age_ms = m.enter_age_ms = static_cast<uint32_t>((now_ns - since[r]) / ns_per_ms);
          m.result = result[r];
          m.number = 1;
          payloads.push_back(m);
        }
        send(static_cast<int>(r), std::move(payloads));
      }
      analyzer.advance(now_ns);
    }
  }
  void send(int rank, std::vector<Payload> payloads) {
    Batch b;
    b.process = {"node" + std::to_string(rank / 2), "boot" + std::to_string(rank / 2), 4711u + rank, 0, 1};
    b.job = "job";
    b.batch_seq = ++batch_seq;
    b.sent_monotonic_ns = now_ns;
    b.payloads = std::move(payloads);
    analyzer.apply(b, now_ns);
  }
  std::vector<InitStatus> status() { return analyzer.status(now_ns).inits; }
  std::vector<Incident> open() {
    std::vector<Incident> out;
    for (Incident& i : analyzer.incidents())
      if (is_open(i.state)) out.push_back(i);
    return out;
  }

  Analyzer analyzer;
  Nanoseconds now_ns = 1000 * ns_per_s;
  std::vector<InitStage> stage;
  std::vector<int32_t> result;
  std::vector<Nanoseconds> since;
  std::set<int> silent;
  uint64_t batch_seq = 0;
};

}  // namespace

TEST_CASE("A communicator being initialized shows who reached which stage and who was never heard of") {
  Start start(4);
  start.reach(0, InitStage::entered);
  start.reach(2, InitStage::bootstrapped);
  start.run_s(3);
  const auto status = start.status();
  REQUIRE(status.size() == 1);
  CHECK(status[0].comm_hash == 0xabc);
  CHECK(status[0].age_ns == 3 * ns_per_s);
  REQUIRE(status[0].ranks.size() == 2);
  CHECK(status[0].ranks[1].stage == InitStage::bootstrapped);
  CHECK(status[0].ranks[1].host == "node1");
  CHECK(status[0].never_heard_count == 2);
  CHECK(ranks_of(status[0].never_heard) == std::set<int>{1, 3});
}

TEST_CASE("A communicator that was made everywhere is no longer being initialized, in whatever order the ranks say so") {
  Start start(3);
  start.up(0);  // before anybody said that it begins
  start.reach(1, InitStage::entered);
  start.run_s(1);
  CHECK(start.status()[0].never_heard_count == 1);
  start.up(1);
  start.reach(2, InitStage::connected);
  start.run_s(1);
  CHECK(start.status()[0].never_heard_count == 0);
  start.up(2);
  start.run_s(1);
  CHECK(start.status().empty());
}

TEST_CASE("An initialization that does not end becomes an incident that names the missing ranks") {
  Start start(4);
  for (int r : {0, 1, 2}) start.reach(r, InitStage::entered);
  start.run_s(290);
  CHECK(start.open().empty());
  start.run_s(20);
  auto open = start.open();
  REQUIRE(open.size() == 1);
  INFO(text(open));
  CHECK(open[0].title == "communicator initialization does not end");
  CHECK(open[0].fault == FaultClass::h1_not_entered);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{3});
  CHECK(open[0].culprits[0].component == Component::process);
  CHECK(open[0].rank_count == 4);
  CHECK(open[0].job == "job");
  CHECK(open[0].victim_count == 3);
  start.reach(3, InitStage::entered);
  for (int r : {0, 1, 2, 3}) start.up(r);
  start.run_s(1);
  CHECK(start.open().empty());
  CHECK(start.status().empty());
}

TEST_CASE("The initialization of communicators has a timeout of its own") {
  Settings settings;
  settings.hang_confirm_s = 5;
  settings.init_hang_s = 30;
  Start start(4, settings);
  for (int r : {0, 1, 2}) start.reach(r, InitStage::entered);
  start.run_s(29);
  CHECK(start.open().empty());
  start.run_s(2);
  CHECK(start.open().size() == 1);
}

TEST_CASE("When all have come, those that are behind the others are named") {
  Start start(3);
  start.reach(0, InitStage::bootstrapped);
  start.reach(1, InitStage::bootstrapped);
  start.reach(2, InitStage::connected);
  start.run_s(310);
  const auto open = start.open();
  REQUIRE(open.size() == 1);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{0, 1});
}

TEST_CASE("An initialization that failed on all ranks is shown with its results, and is no hang") {
  Start start(2);
  start.reach(0, InitStage::failed, 6);
  start.reach(1, InitStage::failed, 3);
  start.run_s(400);
  const auto status = start.status();
  REQUIRE(status.size() == 1);
  CHECK(status[0].failed);
  CHECK(status[0].ranks[1].result == 3);
  CHECK(start.open().empty());
}

TEST_CASE("A rank whose initialization failed is named soon if others wait for it, with its result") {
  Start start(4);
  for (int r : {0, 1, 2, 3}) start.reach(r, InitStage::entered);
  start.run_s(10);
  start.reach(2, InitStage::failed, 3);
  start.run_s(3);
  CHECK(start.open().empty());
  SECTION("and its process lives") { start.run_s(4); }
  SECTION("and others have failed because of it") {
    start.reach(0, InitStage::failed, 6);
    start.run_s(1);
    start.reach(3, InitStage::failed, 2);
    start.run_s(7);
  }
  const auto open = start.open();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h1_not_entered);
  CHECK(open[0].state == VerdictState::confirmed);
  REQUIRE(ranks_of(open[0].culprits) == std::set<int>{2});
  CHECK(open[0].culprits[0].condition == Condition::initialization_failed);
  CHECK(open[0].culprits[0].pid == 4713);
  CHECK(std::any_of(open[0].evidence.begin(), open[0].evidence.end(), [](const Evidence& e) {
    return e.kind == EvidenceKind::initialization_result && e.rank == 2 && e.value == 3;
  }));
  for (int r : {0, 1, 3}) start.reach(r, InitStage::failed, 6);
  start.run_s(2);
  CHECK(start.open().empty());
}

TEST_CASE("A failed initialization of which the others have left keeps nobody waiting") {
  Start start(4);
  for (int r : {0, 1, 2, 3}) start.reach(r, InitStage::entered);
  start.run_s(10);
  start.reach(2, InitStage::failed, 3);
  start.silent = {0, 1, 3};
  start.run_s(20);
  CHECK(start.open().empty());
}

TEST_CASE("A process that went silent while it made the communicator is named before those that never came") {
  Start start(4);
  for (int r : {0, 1, 2}) start.reach(r, InitStage::entered);
  start.run_s(5);
  start.silent = {1};
  start.run_s(310);
  const auto open = start.open();
  REQUIRE(open.size() == 1);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{1});
}

}  // namespace ccld::decision
