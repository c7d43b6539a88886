#include "decision/detect/p2p.h"

#include <catch2/catch.hpp>

#include "decision/analyzer.h"
#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

namespace {

constexpr uint64_t comm_uid = 0x77;

// A pipeline of ranks whose Send and Recv calls the test writes down; everybody reports once a second.
struct Pipeline {
  explicit Pipeline(int ranks, Settings s = {}, bool hosts = false)
      : settings(s), analyzer(s), calls(ranks), movement(ranks), entered(ranks), own_hosts(hosts) {
    for (int r = 0; r < ranks; ++r) {
      CommUp up;
      up.comm = CommUid{comm_uid};
      up.rank = Rank{r};
      up.rank_count = ranks;
      up.node = own_hosts ? r : 0;
      send(r, {up});
    }
  }

  P2pCall& call(int rank, abi::Direction d, int peer, uint64_t pair_seq, bool launched = true) {
    P2pCall c;
    c.call = ++entered[rank];
    c.peer = Rank{peer};
    c.direction = d;
    c.pair_seq = pair_seq;
    c.bytes = 4096;
    c.launched = c.begun = launched;
    calls[rank].push_back({now_ns, c});
    ++movement[rank];
    return calls[rank].back().second;
  }
  // A call whose kernel's lane is seen. Waiting: it polls for data; otherwise it stands still.
  void kernel(int rank, abi::Direction d, int peer, uint64_t pair_seq, bool waiting) {
    P2pCall& c = call(rank, d, peer, pair_seq);
    c.plan = kernel_plan;
    c.signals = abi::signal_steps | abi::signal_waits | abi::signal_times;
    LaneState l;
    l.peer = peer;
    l.direction = d;
    l.want_step = 5;
    l.current_step = 4;
    l.moved_age_ms = 60'000;
    l.poll_age_ms = waiting ? 0 : age_never;
    l.wait = waiting ? abi::WaitKind::data : abi::WaitKind::none;
    l.wait_certain = true;
    lanes[rank] = {l};
  }
  void end_call(int rank, abi::Direction d, int peer, uint64_t pair_seq) {
    P2pRounds m;
    m.comm = CommUid{comm_uid};
    m.rank = Rank{rank};
    P2pRound round;
    round.peer = Rank{peer};
    round.direction = d;
    round.pair_seq = pair_seq;
    m.rounds.push_back(round);
    ++movement[rank];
    send(rank, {m});
  }
  void finish_all() {
    for (size_t r = 0; r < calls.size(); ++r) {
      if (silent.contains(static_cast<int>(r))) continue;
      P2pRounds m;
      m.comm = CommUid{comm_uid};
      m.rank = Rank{static_cast<int>(r)};
      for (const auto& [since, c] : calls[r]) {
        P2pRound round;
        round.peer = c.peer;
        round.direction = c.direction;
        round.pair_seq = c.pair_seq;
        m.rounds.push_back(round);
      }
      calls[r].clear();
      ++movement[r];
      send(static_cast<int>(r), {m});
    }
  }
  void run_s(int seconds) {
    for (int tick = 0; tick < seconds * 10; ++tick) {
      now_ns += 100 * ns_per_ms;
      if (tick % 10 == 0)
        for (size_t r = 0; r < calls.size(); ++r)
          if (!silent.contains(static_cast<int>(r))) snapshot(static_cast<int>(r));
      for (Incident& i : analyzer.advance(now_ns)) reported.push_back(std::move(i));
    }
  }
  void snapshot(int rank) {
    InFlight m;
    m.comm = CommUid{comm_uid};
    m.rank = Rank{rank};
    m.sample_monotonic_ns = now_ns;
    m.movement = movement[rank];
    m.stopped = stopped.contains(rank);
    m.entered_p2p = entered[rank];
    m.p2p_total = static_cast<uint32_t>(calls[rank].size()) + (cut_off.contains(rank) ? 64 : 0);
    for (auto [since, c] : calls[rank]) {
      c.enter_age_ms = c.launch_age_ms = static_cast<uint32_t>((now_ns - since) / ns_per_ms);
      m.p2p.push_back(c);
    }
    if (const auto it = lanes.find(rank); it != lanes.end()) {
      m.lanes = it->second;
      m.kernel_plan = kernel_plan;
      m.moved_age_ms = static_cast<uint32_t>((now_ns - calls[rank].back().first) / ns_per_ms);
    }
    AgentHealth health;
    for (int other : killed) health.siblings.push_back({4711u + other, 1, 'X', 1000});
    send(rank, {m, health});
  }
  void send(int rank, std::vector<Payload> payloads) {
    Batch b;
    b.process = {own_hosts ? "node" + std::to_string(rank) : "node", "boot", 4711u + rank, 1};
    b.job = "job";
    b.batch_seq = ++batch_seq;
    b.sent_monotonic_ns = now_ns;
    b.payloads = std::move(payloads);
    analyzer.apply(b, now_ns);
  }
  std::vector<Incident> open() const {
    std::vector<Incident> out;
    for (Incident& i : analyzer.incidents())
      if (i.state != VerdictState::resolved) out.push_back(i);
    return out;
  }

  Settings settings;
  Analyzer analyzer;
  Nanoseconds now_ns = 1000 * ns_per_s;
  std::vector<std::vector<std::pair<Nanoseconds, P2pCall>>> calls;
  std::vector<uint64_t> movement, entered;
  std::set<int> silent, stopped, killed, cut_off;
  static constexpr uint32_t kernel_plan = 7;
  std::map<int, std::vector<LaneState>> lanes;
  bool own_hosts = false;
  uint64_t batch_seq = 0;
  std::vector<Incident> reported;
};

using abi::Direction;

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
    if (e.what.find("also seen there: ") != 0) continue;
    CHECK(e.rank == 0);
    quoted.push_back(e.what);
  }
  REQUIRE(quoted.size() == 2);
  CHECK(quoted[0] == "also seen there: threads of the process that are stopped");
  CHECK(quoted[1].find("mlx5_0 queue pair 9 has 2 requests in flight") != std::string::npos);
}

}  // namespace ccld::decision
