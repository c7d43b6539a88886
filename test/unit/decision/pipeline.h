// A communicator that only sends and receives, whose calls the test writes down.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "decision/analyzer.h"
#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

// A pipeline of ranks whose Send and Recv calls the test writes down; everybody reports once a second.
struct Pipeline {
  static constexpr uint64_t comm_uid = 0x77;
  // `unannounced`: the service began too late to hear their announcements.
  explicit Pipeline(int ranks, Settings s = {}, bool hosts = false, const std::set<int>& unannounced = {})
      : settings(s), analyzer(s), calls(ranks), movement(ranks), entered(ranks), own_hosts(hosts) {
    for (int r = 0; r < ranks; ++r) {
      if (unannounced.contains(r)) continue;
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
  // As a kernel that a graph has launched shows it.
  void replayed_kernel(int rank, abi::Direction d, int peer, uint64_t pair_seq, uint32_t replay, bool waiting) {
    kernel(rank, d, peer, pair_seq, waiting);
    P2pCall& c = calls[rank].back().second;
    c.replay = replay;
    c.flags = abi::op_captured | abi::op_launched;
  }
  void end_call(int rank, abi::Direction d, int peer, uint64_t pair_seq, uint64_t bytes = 4096, uint32_t replay = 0) {
    P2pRounds m;
    m.comm = CommUid{comm_uid};
    m.rank = Rank{rank};
    P2pRound round;
    round.peer = Rank{peer};
    round.direction = d;
    round.pair_seq = pair_seq;
    round.bytes = bytes;
    round.replay = replay;
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
        round.bytes = c.bytes;
        round.replay = c.replay;
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
    m.late = !calls[rank].empty() && now_ns - calls[rank].back().first > ns_per_s;
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
    for (int other : killed) health.siblings.push_back({4711u + other, 1, 'X', killed_age_ms});
    send(rank, {m, health});
  }
  void send(int rank, std::vector<Payload> payloads) {
    Batch b;
    b.process = {own_hosts ? "node" + std::to_string(rank) : "node", "boot", 4711u + rank, 0, 1};
    b.job = "job";
    b.batch_seq = ++batch_seq[rank];
    b.sent_monotonic_ns = now_ns;
    b.payloads = std::move(payloads);
    analyzer.apply(b, now_ns);
  }
  std::vector<Incident> open() const {
    std::vector<Incident> out;
    for (Incident& i : analyzer.incidents())
      if (is_open(i.state)) out.push_back(i);
    return out;
  }

  Settings settings;
  Analyzer analyzer;
  Nanoseconds now_ns = 1000 * ns_per_s;
  std::vector<std::vector<std::pair<Nanoseconds, P2pCall>>> calls;
  std::vector<uint64_t> movement, entered;
  std::set<int> silent, stopped, killed, cut_off;
  uint32_t killed_age_ms = 1000;
  static constexpr uint32_t kernel_plan = 7;
  std::map<int, std::vector<LaneState>> lanes;
  bool own_hosts = false;
  std::map<int, uint64_t> batch_seq;  // by rank; a gap is a loss
  std::vector<Incident> reported;
};

}  // namespace ccld::decision
