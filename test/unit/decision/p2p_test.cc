#include "decision/detect/p2p.h"

#include <catch2/catch.hpp>

#include "test/unit/decision/pipeline.h"

namespace ccld::decision {

using abi::Direction;

namespace {

Incident only_open_after_s(int seconds, Pipeline& p) {
  p.run_s(seconds);
  const auto open = p.open();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  return open[0];
}

}  // namespace

TEST_CASE("A peer that never makes the matching call is named, and those behind it are victims") {
  Pipeline p(4);
  p.call(1, Direction::recv, 0, 1);  // 0 is idle
  p.call(2, Direction::recv, 1, 1);
  p.call(3, Direction::recv, 2, 1);
  p.run_s(55);
  CHECK(p.reported.empty());
  p.run_s(15);
  const auto open = p.open();
  REQUIRE(open.size() == 1);
  INFO(text(open));
  CHECK(open[0].fault == FaultClass::h1_not_entered);
  CHECK(open[0].state == VerdictState::suspected);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{0});
  CHECK(open[0].culprits[0].reason == "did not call Send 1 to rank 1");
  CHECK(open[0].victim_count == 3);
  p.run_s(260);
  CHECK(p.open()[0].state == VerdictState::confirmed);
  p.finish_all();
  p.run_s(3);
  CHECK(p.open().empty());
}

TEST_CASE("Who waits in a communicator that nobody has announced yet is known to wait") {
  Pipeline p(3, {}, false, {0, 1, 2});
  p.call(1, Direction::recv, 0, 1);
  p.call(2, Direction::recv, 1, 1);
  const Incident i = only_open_after_s(70, p);
  CHECK(ranks_of(i.culprits) == std::set<int>{0});
  CHECK(i.culprits[0].reason == "did not call Send 1 to rank 1");
}

TEST_CASE("A peer of which nobody has said that it is a rank is nobody to wait for") {
  Pipeline p(3, {}, false, {0, 1, 2});
  p.call(1, Direction::recv, 0, 1);
  p.call(2, Direction::recv, 5'000'000, 1);
  const Incident i = only_open_after_s(70, p);
  CHECK(ranks_of(i.culprits) == std::set<int>{0});
  for (const Wait& w : i.waits) CHECK(w.waits_for == Rank{0});
}

TEST_CASE("A peer that never spoke is named where others wait for its call") {
  Pipeline p(3, {}, false, {0});
  p.silent = {0};
  p.call(1, Direction::recv, 0, 1);
  p.call(2, Direction::recv, 1, 1);
  const Incident i = only_open_after_s(70, p);
  REQUIRE(ranks_of(i.culprits) == std::set<int>{0});
  CHECK(i.culprits[0].condition == Condition::never_heard);
}

TEST_CASE("Two ranks whose earlier calls nobody heard of may have made the calls that the other waits for: no circle") {
  const uint64_t first = GENERATE(1u, 7u);
  Pipeline p(2);
  p.call(0, Direction::recv, 1, first);
  p.call(1, Direction::recv, 0, first);
  p.run_s(70);
  CAPTURE(first);
  INFO(text(p.open()));
  CHECK(p.open().size() == (first == 1 ? 1 : 0));
}

TEST_CASE("A Recv that stands still and is seen to wait for nothing is stuck, whatever its peer did before") {
  Pipeline p(2);
  p.kernel(0, Direction::recv, 1, 7, false);
  p.kernel(1, Direction::recv, 0, 7, true);
  const Incident i = only_open_after_s(70, p);
  CHECK(i.fault == FaultClass::h3_hardware);
  CHECK(ranks_of(i.culprits) == std::set<int>{0});
}

TEST_CASE("Bubbles of a pipeline are silent, however regular") {
  Pipeline p(4);
  for (uint64_t step = 1; step <= 20; ++step) {
    for (int stage = 1; stage < 4; ++stage) p.call(stage, Direction::recv, stage - 1, step);
    p.run_s(40);  // the first stage computes
    for (int stage = 0; stage < 3; ++stage) p.call(stage, Direction::send, stage + 1, step);
    p.finish_all();
  }
  CHECK(p.reported.empty());
}

TEST_CASE("A wait whose both sides are in their calls says nothing about who is absent") {
  Pipeline p(2);
  p.call(0, Direction::send, 1, 1);
  p.call(1, Direction::recv, 0, 1);
  p.run_s(400);
  CHECK(p.reported.empty());
}

TEST_CASE("A call that was made and not launched is named as that") {
  Pipeline p(2);
  p.call(1, Direction::recv, 0, 1);
  p.call(0, Direction::send, 1, 1, false);
  p.run_s(70);
  const auto open = p.open();
  REQUIRE(open.size() == 1);
  CHECK(open[0].culprits[0].reason == "called Send 1 with rank 1 but did not launch it");
}

TEST_CASE("A rank that sits in another call is named for that one") {
  Pipeline p(3);
  p.call(1, Direction::recv, 0, 1);
  p.call(0, Direction::recv, 2, 4, false);
  p.run_s(70);
  const auto open = p.open();
  REQUIRE(open.size() == 1);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{0});
  CHECK(open[0].culprits[0].component == Component::process);
  CHECK(open[0].culprits[0].reason == "called Recv 4 with rank 2 but did not launch it");
}

TEST_CASE("A kernel that does not end although its peer has everything is stuck on its GPU") {
  Pipeline p(3);
  p.kernel(0, Direction::send, 1, 9, false);
  p.end_call(1, Direction::recv, 0, 9);
  p.kernel(1, Direction::recv, 0, 10, true);
  p.kernel(2, Direction::recv, 1, 10, true);
  p.run_s(20);
  const auto open = p.open();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h3_hardware);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{0});
  CHECK(open[0].culprits[0].component == Component::gpu);
}

TEST_CASE("What a peer sent before its call ended and what does not arrive is lost between the two") {
  Pipeline p(3, {}, true);
  p.kernel(1, Direction::recv, 0, 9, true);
  p.end_call(0, Direction::send, 1, 9);
  p.kernel(2, Direction::recv, 1, 10, true);
  p.run_s(20);
  const auto open = p.open();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h3_hardware);
  REQUIRE(open[0].culprits.size() == 1);
  CHECK(open[0].culprits[0].rank == Rank{0});
  CHECK(open[0].culprits[0].peer == Rank{1});
  CHECK(open[0].culprits[0].component == Component::link);
}

TEST_CASE("Two ranks that both receive first have called in the wrong order") {
  Pipeline p(2);
  p.call(0, Direction::recv, 1, 1);
  p.call(1, Direction::recv, 0, 1);
  p.run_s(70);
  const auto open = p.open();
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h2_inconsistent);
  CHECK(ranks_of(open[0].candidates) == std::set<int>{0, 1});
}

TEST_CASE("A rank that fell silent when all others came to rest is named as silent, and not with certainty") {
  Pipeline p(3);
  p.call(1, Direction::recv, 0, 9);
  p.silent = {0};
  p.run_s(4);
  CHECK(p.reported.empty());
  p.run_s(8);
  const auto open = p.open();
  REQUIRE(open.size() == 1);
  INFO(text(open));
  CHECK(open[0].state == VerdictState::suspected);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{0});
}

TEST_CASE("A rank that fell silent while the others went on is named as silent, not before its time") {
  Pipeline p(3);
  p.silent = {0};
  for (uint64_t k = 1; k <= 15; ++k) {
    p.call(1, Direction::send, 2, k);
    p.call(2, Direction::recv, 1, k);
    p.run_s(1);
    p.finish_all();
  }
  p.call(1, Direction::recv, 0, 9);
  p.run_s(55);
  CHECK(p.reported.empty());
  p.run_s(15);
  const auto open = p.open();
  REQUIRE(open.size() == 1);
  INFO(text(open));
  CHECK(open[0].state == VerdictState::suspected);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{0});
  CHECK(open[0].culprits[0].reason.find("silent") != std::string::npos);
}

TEST_CASE("A stopped probe and a snapshot that is cut off say nothing") {
  Pipeline p(3);
  p.call(1, Direction::recv, 0, 1);
  SECTION("stopped probe") { p.stopped = {0}; }
  SECTION("its list of calls is cut off") { p.cut_off = {0}; }
  p.run_s(100);
  CHECK(p.reported.empty());
}

TEST_CASE("A peer whose process is gone is certain at once after the threshold") {
  Pipeline p(3);
  p.call(1, Direction::recv, 0, 1);
  p.call(2, Direction::recv, 1, 1);
  p.run_s(2);
  p.silent = p.killed = {0};
  p.run_s(70);
  const auto open = p.open();
  REQUIRE(open.size() == 1);
  CHECK(open[0].state == VerdictState::confirmed);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{0});
  CHECK(open[0].culprits[0].component == Component::process);
}

TEST_CASE("A peer whose process has just gone is not certain yet: all of a job that is ended go one after the other") {
  Pipeline p(3);
  p.call(1, Direction::recv, 0, 1);
  p.call(2, Direction::recv, 1, 1);
  p.run_s(2);
  p.silent = p.killed = {0};
  p.killed_age_ms = 100;
  p.run_s(1);
  CHECK(p.open().empty());
  p.run_s(2);
  REQUIRE(p.open().size() == 1);
  CHECK(p.open()[0].state == VerdictState::confirmed);
}

TEST_CASE("What else was seen at the culprit's process is quoted in the evidence, and only there") {
  Pipeline p(2);
  for (int rank : {0, 1}) {
    Metrics m;
    m.metrics = {{abi::MetricId::process_threads_stopped, "", rank == 0 ? 3 : 0},
                 {abi::MetricId::port_state, "mlx5_0:1", 4}};
    NetQueues q;
    q.queues.resize(1);
    q.queues[0].device_name = "mlx5_0";
    q.queues[0].number = 9;
    q.queues[0].in_flight = rank == 0 ? 2 : 0;
    q.queues[0].post_age_ms = 9000;
    p.send(rank, {m, q});
  }
  p.call(1, Direction::recv, 0, 1);
  p.run_s(70);
  const auto open = p.open();
  REQUIRE(open.size() == 1);
  std::vector<std::string> quoted;
  for (const Evidence& e : open[0].evidence) {
    if (e.kind != EvidenceKind::also_seen) continue;
    CHECK(e.rank == 0);
    quoted.push_back(words(e));
  }
  REQUIRE(quoted.size() == 2);
  CHECK(quoted[0] == "also seen there: threads of the process that are stopped");
  CHECK(quoted[1].find("mlx5_0 queue pair 9 has 2 requests in flight") != std::string::npos);
}

TEST_CASE("A replayed Recv hangs for the peer whose GPU has not begun the replay") {
  Pipeline p(3);
  for (uint32_t replay = 1; replay <= 8; ++replay) {
    p.end_call(0, Direction::send, 1, 1, 4096, replay);
    p.end_call(1, Direction::recv, 0, 1, 4096, replay);
    p.end_call(1, Direction::send, 2, 1, 4096, replay);
    p.end_call(2, Direction::recv, 1, 1, 4096, replay);
  }
  p.replayed_kernel(1, Direction::recv, 0, 1, 9, true);
  p.replayed_kernel(2, Direction::recv, 1, 1, 9, true);
  SECTION("it has ended the one before") {}
  SECTION("and something that it said before was lost") { p.batch_seq[0] += 3; }
  p.run_s(100);
  const auto open = p.open();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h1_not_entered);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{0});
  CHECK(open[0].culprits[0].reason == "its GPU did not begin replay 9 of Send 1 to rank 1");
  CHECK(open[0].replay == 9);
  CHECK(open[0].victim_count == 2);
}

TEST_CASE("Of a peer whose replays were not all heard of nothing is said") {
  Pipeline p(2);
  for (uint32_t replay = 1; replay <= 7; ++replay) p.end_call(0, Direction::send, 1, 1, 4096, replay);
  p.batch_seq[0] += 2;  // and one or two more
  for (uint32_t replay = 1; replay <= 8; ++replay) p.end_call(1, Direction::recv, 0, 1, 4096, replay);
  p.replayed_kernel(1, Direction::recv, 0, 1, 9, true);
  p.run_s(400);
  CHECK(p.reported.empty());
}

TEST_CASE("Two replayed kernels that run are judged by their steps, as calls are") {
  Pipeline p(2);
  for (uint32_t replay = 1; replay <= 8; ++replay) {
    p.end_call(0, Direction::send, 1, 1, 4096, replay);
    p.end_call(1, Direction::recv, 0, 1, 4096, replay);
  }
  p.replayed_kernel(0, Direction::send, 1, 1, 9, false);
  p.replayed_kernel(1, Direction::recv, 0, 1, 9, true);
  p.run_s(20);
  const auto open = p.open();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h3_hardware);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{0});
  CHECK(open[0].culprits[0].component == Component::gpu);
}

TEST_CASE("A replay that a peer has ended is lost between the two, not absent") {
  Pipeline p(2, {}, true);
  for (uint32_t replay = 1; replay <= 9; ++replay) {
    p.end_call(0, Direction::send, 1, 1, 4096, replay);
    if (replay < 9) p.end_call(1, Direction::recv, 0, 1, 4096, replay);
  }
  p.replayed_kernel(1, Direction::recv, 0, 1, 9, true);
  p.run_s(20);
  const auto open = p.open();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h3_hardware);
  REQUIRE(open[0].culprits.size() == 1);
  CHECK(open[0].culprits[0].component == Component::link);
  CHECK(open[0].culprits[0].peer == Rank{1});
}

TEST_CASE("A step that has just been given is not overdue, however long the receiver had to wait for it") {
  Pipeline p(2, {}, true);
  p.kernel(1, Direction::recv, 0, 1, true);
  p.lanes[1][0].wait_age_ms = 60'000;
  p.run_s(30);
  p.end_call(0, Direction::send, 1, 1);
  p.run_s(8);
  CHECK(p.reported.empty());
  p.run_s(6);
  const auto open = p.open();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].state == VerdictState::confirmed);
  CHECK(open[0].culprits[0].component == Component::link);
}

TEST_CASE(
    "A connection that has not been given anything yet is no hard evidence, and the slot is the sender's proxy's") {
  Pipeline p(2, {}, true);
  p.kernel(0, Direction::send, 1, 1, true);
  p.kernel(1, Direction::recv, 0, 1, true);
  for (int r : {0, 1}) {
    p.lanes[r][0].current_step = 0;
    p.lanes[r][0].want_step = 1;
    p.lanes[r][0].wait_age_ms = 60'000;
  }
  p.lanes[0][0].wait = abi::WaitKind::credit;
  p.run_s(50);
  CHECK(p.reported.empty());
  p.run_s(20);
  const auto open = p.open();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].state == VerdictState::suspected);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{0});
  CHECK(open[0].culprits[0].component == Component::proxy);
}

// Calls of one group share a kernel, which serves them in any order: whoever has not made its call is named, and a wait
// that is over counts for nothing.
TEST_CASE(
    "Of several calls in one batch those that the kernel still waits for count, in whatever order they were made") {
  Pipeline p(3);
  const bool send_first = GENERATE(true, false);
  if (send_first) p.kernel(1, Direction::send, 2, 9, true);
  p.kernel(1, Direction::recv, 0, 9, true);
  if (!send_first) p.kernel(1, Direction::send, 2, 9, true);
  LaneState receives = p.lanes[1][0], sends = p.lanes[1][0];
  receives.peer = 0, receives.direction = Direction::recv, receives.wait = abi::WaitKind::data;
  sends.peer = 2, sends.direction = Direction::send, sends.wait = abi::WaitKind::none;
  p.lanes[1] = send_first ? std::vector<LaneState>{sends, receives} : std::vector<LaneState>{receives, sends};
  SECTION("both peers are absent, and it is through with one") {}
  SECTION("the peer that it is through with has ended its call") { p.end_call(2, Direction::recv, 1, 9); }
  p.run_s(20);
  const auto open = p.open();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h1_not_entered);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{0});
  CHECK(open[0].culprits[0].reason == "did not call Send 9 to rank 1");
}

TEST_CASE("Two ranks that exchange within one batch each wait for nobody else, whatever order they chose") {
  Pipeline p(2);
  p.kernel(0, Direction::send, 1, 9, true);
  p.kernel(0, Direction::recv, 1, 9, true);
  p.kernel(1, Direction::recv, 0, 9, true);
  p.kernel(1, Direction::send, 0, 9, true);
  p.run_s(2);
  CHECK(p.reported.empty());
  p.finish_all();
  p.lanes.clear();
  p.run_s(20);
  CHECK(p.reported.empty());
}

}  // namespace ccld::decision
