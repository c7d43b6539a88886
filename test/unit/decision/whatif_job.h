// A job whose operations a test writes down: when each of its GPUs called what, as its probes would report it.
#pragma once

#include <catch2/catch.hpp>

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "decision/whatif/causes.h"
#include "decision/whatif/passages.h"

namespace ccld::decision::whatif {
inline constexpr double ms = 1e6;

// How long the mean step of a transfer waits for each of these.
struct Waits {
  double sender_proxy_ms = 0, device_ms = 0, wire_ms = 0, receiver_proxy_ms = 0;
};

// GPUs whose clocks begin anywhere and which call as the test says; every operation ends everywhere at once.
struct Job {
  explicit Job(int gpus) : now_ms(static_cast<size_t>(gpus)), gpus(gpus) {
    for (int g = 0; g < gpus; ++g) facts.push_back({.host = g / 4, .process = g, .machine = g / 4});
  }
  uint64_t clock_ns(int gpu, double at_ms) const {
    return static_cast<uint64_t>((1000.0 * (gpu + 1) + at_ms) * ms);  // a second apart from each other
  }
  // All of `members` work for `own_ms(gpu)` and then reduce for `transfer_ms`.
  template <class Own>
  void collective(uint64_t comm, const std::vector<int>& members, double transfer_ms, Own own_ms) {
    operation(abi::Function::all_reduce, comm, members, transfer_ms, own_ms);
  }
  // Likewise, but the others wait for the first of `members` only, and it for nobody.
  template <class Own>
  void broadcast(uint64_t comm, const std::vector<int>& members, double transfer_ms, Own own_ms) {
    operation(abi::Function::broadcast, comm, members, transfer_ms, own_ms);
  }
  template <class Own>
  void operation(abi::Function function, uint64_t comm, const std::vector<int>& members, double transfer_ms,
                 Own own_ms) {
    double last_ms = 0;
    std::vector<double> begins;
    for (int g : members) {
      begins.push_back(now_ms[static_cast<size_t>(g)] + own_ms(g));
      last_ms = std::max(last_ms, begins.back());
    }
    const OpSeq op{++ops[comm]};
    for (size_t i = 0; i < members.size(); ++i) {
      const bool rooted = function == abi::Function::broadcast;
      const double end_ms = (rooted ? std::max(begins[0], begins[i]) : last_ms) + transfer_ms +
                            (leaves_later_ms ? leaves_later_ms(members[i]) : 0);
      now_ms[static_cast<size_t>(members[i])] = end_ms;
      if (loses && loses(members[i])) continue;
      Rounds m;
      m.comm = CommUid{comm};
      m.rank = Rank{static_cast<int32_t>(i)};
      Round r;
      r.op = op;
      r.replay = replay;
      r.signature.function = function;
      r.signature.count = count;
      r.signature.datatype = abi::Datatype::float32;
      r.begin_device_ns = clock_ns(members[i], begins[i]);
      r.end_device_ns = clock_ns(members[i], end_ms);
      // The host launches early, but for a late one, which launches when its GPU has long been idle.
      const double early_ms = late_host == members[i] ? 0 : queues_ms ? queues_ms(members[i]) : own_ms(members[i]);
      r.launch_monotonic_ns = static_cast<uint64_t>((5000 + begins[i] - early_ms) * ms);
      m.rounds = {r};
      timeline.add({&keys[static_cast<size_t>(members[i])], 0}, m);
    }
  }
  uint32_t replay = 0;                             // of a graph
  std::function<bool(int gpu)> loses;              // a report of it
  std::function<double(int gpu)> leaves_later_ms;  // than the other ranks of an operation
  std::function<double(int gpu)> queues_ms;        // from a launch to its kernel's begin, instead of the own time
  std::function<double(int gpu)> clock_error_ms;   // of what is known of its host's clock
  void transfer(uint64_t comm, int sender, int receiver, bool up, double own_ms, double transfer_ms,
                double slots_ms = 0.1, const Waits* waits = nullptr, uint32_t receiver_away_us = 0) {
    const double send_ms = now_ms[static_cast<size_t>(sender)] + own_ms,
                 recv_ms = now_ms[static_cast<size_t>(receiver)];
    const double end_ms = std::max(send_ms, recv_ms) + transfer_ms;
    const uint64_t seq = ++pairs[{comm, up}];
    // A Send that its slots take ends before its Recv.
    std::optional<LinkStages> out, in;
    if (waits) {
      const double posted_ms = std::max(send_ms, recv_ms), handed_ms = posted_ms + waits->sender_proxy_ms,
                   sent_ms = handed_ms + waits->device_ms, arrived_ms = sent_ms + waits->wire_ms,
                   given_ms = arrived_ms + waits->receiver_proxy_ms;
      out = stages(sender, seq, up ? 1 : 0, {posted_ms, posted_ms, handed_ms, sent_ms});
      out->direction = abi::Direction::send;
      in = stages(receiver, seq, up ? 0 : 1, {given_ms, posted_ms, arrived_ms, given_ms});
      in->proxy_away_us = receiver_away_us;
    }
    add_call(comm, sender, up ? 0 : 1, abi::Direction::send, up ? 1 : 0, seq, send_ms, send_ms + slots_ms, out);
    add_call(comm, receiver, up ? 1 : 0, abi::Direction::recv, up ? 0 : 1, seq, recv_ms, end_ms, in);
    now_ms[static_cast<size_t>(sender)] = send_ms + slots_ms;
    now_ms[static_cast<size_t>(receiver)] = end_ms;
  }
  // Clocks of hosts are hours apart.
  static int64_t realtime_ns(int gpu, double at_ms) {
    return 1'700'000'000'000'000'000 + static_cast<int64_t>((3'600'000.0 * (gpu / 4) + at_ms) * ms);
  }
  static LinkStages stages(int gpu, uint64_t seq, int peer, std::vector<double> means_ms) {
    LinkStages l;
    l.op = OpSeq{seq};
    l.peer = peer;
    l.net_device = 0;
    l.steps = 20;
    l.gpu_mean_realtime_ns = realtime_ns(gpu, means_ms[0]);
    l.ready_mean_realtime_ns = realtime_ns(gpu, means_ms[1]);
    l.wire_mean_realtime_ns = realtime_ns(gpu, means_ms[2]);
    l.done_mean_realtime_ns = realtime_ns(gpu, means_ms[3]);
    return l;
  }
  void add_call(uint64_t comm, int gpu, int rank, abi::Direction direction, int peer, uint64_t seq, double begin_ms,
                double end_ms, const std::optional<LinkStages>& link, std::optional<double> launch_ms = {}) {
    if (loses && loses(gpu)) return;
    P2pRounds m;
    m.comm = CommUid{comm};
    m.rank = Rank{rank};
    P2pRound r;
    r.peer = Rank{peer};
    r.direction = direction;
    r.pair_seq = seq;
    r.bytes = bytes_of_call;
    r.begin_device_ns = clock_ns(gpu, begin_ms);
    r.end_device_ns = clock_ns(gpu, end_ms);
    if (launch_ms) r.launch_monotonic_ns = static_cast<uint64_t>((5000 + *launch_ms) * ms);
    m.rounds = {r};
    if (link) m.links = {*link};
    timeline.add({&keys[static_cast<size_t>(gpu)], 0}, m);
  }
  // All of `members` work for `own_ms(gpu)` and then exchange `bytes(from, to)` with each other in one kernel.
  template <class Own, class Bytes>
  void exchange(uint64_t comm, const std::vector<int>& members, double transfer_ms, Own own_ms, Bytes bytes) {
    std::vector<double> begins;
    for (int g : members) begins.push_back(now_ms[static_cast<size_t>(g)] + own_ms(g));
    const double end_ms = *std::max_element(begins.begin(), begins.end()) + transfer_ms;
    const uint64_t seq = ++pairs[{comm, true}];
    for (size_t i = 0; i < members.size(); ++i) {
      now_ms[static_cast<size_t>(members[i])] = end_ms;
      for (size_t peer = 0; peer < members.size(); ++peer)
        if (peer != i)
          for (const abi::Direction direction : {abi::Direction::send, abi::Direction::recv}) {
            bytes_of_call =
                direction == abi::Direction::send ? bytes(members[i], members[peer]) : bytes(members[peer], members[i]);
            add_call(comm, members[i], static_cast<int>(i), direction, static_cast<int>(peer), seq, begins[i], end_ms,
                     {});
          }
    }
    bytes_of_call = 1 << 16;
  }
  uint64_t bytes_of_call = 1 << 16, count = 1 << 20;
  double turn_wait_ms = 0;
  std::optional<Graph> graph() {
    const Matches matches = match_kernels(timeline);
    std::vector<HostClock> hosts;  // all launches are told by one clock
    for (const Gpu& g : timeline.gpus()) {
      const int number = static_cast<int>(hosts.size());
      hosts.push_back({g.launch_least_ns != INT64_MAX,
                       -static_cast<double>(g.launch_least_ns) + (clock_error_ms ? clock_error_ms(number) * ms : 0),
                       facts[hosts.size()].machine});
    }
    auto g = build_graph(timeline, matches, compare_clocks(timeline, matches, hosts, settings), settings);
    if (g) g->turn_wait_ns = turn_wait_ms * ms;
    return g;
  }
  Explanation explain() {
    const std::optional<Graph> g = graph();
    REQUIRE(g);
    return explain(*g, find_late(*g, timeline, past, settings));
  }
  Explanation explain(const Graph& g, const Lateness& late, const std::vector<SlowCollectives>& slow = {}) {
    return whatif::explain(g, timeline, past, late, facts, passages_of_transfers(g, timeline, facts, clocks), slow,
                           settings);
  }
  // The past learns what there was, and a new window begins.
  Explanation end_window() {
    const std::optional<Graph> g = graph();
    REQUIRE(g);
    const Lateness late = find_late(*g, timeline, past, settings);
    Explanation e = explain(*g, late);
    past.learn(*g, timeline, late.kinds, late.late, e.transfer_less_ns, late.seldom);
    timeline.clear(5 * ns_per_s, match_kernels(timeline).open_ends);
    return e;
  }

  Settings settings;
  size_t gpus_in_all = 0;
  Timeline timeline{settings, gpus_in_all};
  Past past{settings};
  MachineClocks clocks{{100e-6}};
  std::vector<double> now_ms;
  int gpus;
  int late_host = -1;
  std::vector<GpuFacts> facts;
  char keys[16] = {};
  std::map<uint64_t, uint64_t> ops;
  std::map<std::pair<uint64_t, bool>, uint64_t> pairs;
};

inline const std::vector<int> all_8{0, 1, 2, 3, 4, 5, 6, 7};

}  // namespace ccld::decision::whatif
