#include "test/support/telemetry/fake_cluster.h"

#include <algorithm>

namespace ccld::fake {
namespace {

constexpr Nanoseconds tick_ns = 100 * ns_per_ms;
constexpr Nanoseconds heartbeat_ns = ns_per_s;
constexpr Nanoseconds late_ns = 500 * ns_per_ms;
constexpr Nanoseconds usual_gap_ns = 10 * ns_per_ms;
constexpr Nanoseconds usual_stage_ns = 100'000;

uint32_t ms(Nanoseconds ns) { return static_cast<uint32_t>(std::max<Nanoseconds>(0, ns) / ns_per_ms); }

}  // namespace

Signature all_reduce(uint64_t count, abi::Algorithm algorithm) {
  Signature s;
  s.count = count;
  s.function = abi::Function::all_reduce;
  s.datatype = abi::Datatype::float32;
  s.reduction = abi::Reduction::sum;
  s.algorithm = algorithm;
  s.protocol = abi::Protocol::simple;
  s.channels = 2;
  return s;
}

// ---- communicator ------------------------------------------------------------------------------------------------

Comm::Comm(Cluster& cluster, uint64_t uid, std::vector<int> processes, abi::Algorithm algorithm, int channels)
    : cluster_(cluster),
      uid_(uid),
      processes_(std::move(processes)),
      algorithm_(algorithm),
      channels_(channels),
      ranks_(processes_.size()) {
  for (size_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r].device_offset_ns = (processes_[r] + 1) * 1'000'000'000'000u;  // GPUs do not agree on the time
    ranks_[r].moved_ns = cluster.now_ns();
  }
}

Topology Comm::topology() const {
  Topology t;
  t.ranks = ranks();
  t.tree = algorithm_ == abi::Algorithm::tree;
  t.nvls = algorithm_ == abi::Algorithm::nvls;
  t.collnet = algorithm_ == abi::Algorithm::collnet_chain;
  t.ranks_per_node = std::max(1, cluster_.options_.processes_per_node);
  return t;
}

void Comm::announce() {
  const Topology t = topology();
  for (int r = 0; r < ranks(); ++r) {
    CommUp up;
    up.comm = uid_;
    up.name = "comm";
    up.rank = Rank{r};
    up.rank_count = ranks();
    up.node = processes_[r] / t.ranks_per_node;
    up.local_rank = processes_[r] % t.ranks_per_node;
    up.cuda_device = up.local_rank;
    up.host = cluster_.processes_[processes_[r]].id.host;
    for (int c = 0; c < channels_; ++c) {
      ChannelTopology topo;
      topo.channel = c;
      topo.ring_prev = (r + ranks() - 1) % ranks();
      topo.ring_next = (r + 1) % ranks();
      topo.tree_up = t.parent(r);
      topo.tree_down = t.children(r);
      topo.tree_depth = t.depth(r);
      up.channels.push_back(topo);
      up.connections.push_back({c, abi::Direction::send, (r + 1) % ranks(), 0, "net0"});
    }
    cluster_.processes_[processes_[r]].outbox.push_back(up);
  }
}

void Comm::add_links(uint64_t op, const RoundShape& shape, Nanoseconds duration_ns) {
  const Topology t = topology();
  const int64_t middle = cluster_.now_ns() - duration_ns / 2;
  for (int s = 0; s < ranks(); ++s) {
    const int r = (s + 1) % ranks();
    const bool net = processes_[s] / t.ranks_per_node != processes_[r] / t.ranks_per_node;
    const auto stage = [&](Stage which) {
      auto it = shape.stage_ns.find({Edge{s, r, 0}, which});
      return it != shape.stage_ns.end() ? it->second : usual_stage_ns + cluster_.jitter(usual_stage_ns / 5);
    };
    LinkStages send, recv;
    send.op = recv.op = OpSeq{op};
    send.peer = r;
    recv.peer = s;
    send.direction = abi::Direction::send;
    recv.direction = abi::Direction::recv;
    send.steps = recv.steps = 28;
    send.net_device = recv.net_device = net ? 0 : -1;
    const int64_t here = cluster_.processes_[processes_[s]].realtime_offset_ns,
                  there = cluster_.processes_[processes_[r]].realtime_offset_ns;
    send.gpu_mean_realtime_ns = middle + here;
    if (net) {
      const int64_t handed = middle + stage(Stage::sender_proxy), sent = handed + stage(Stage::sender_nic);
      const int64_t arrived_at = sent + stage(Stage::wire), given = arrived_at + stage(Stage::receiver_proxy);
      send.ready_mean_realtime_ns = send.gpu_mean_realtime_ns;
      send.wire_mean_realtime_ns = handed + here;
      send.done_mean_realtime_ns = sent + here;
      recv.ready_mean_realtime_ns = middle - usual_stage_ns + there;
      recv.wire_mean_realtime_ns = arrived_at + there;
      recv.done_mean_realtime_ns = given + there;
      recv.gpu_mean_realtime_ns = given + stage(Stage::receiver_gpu) + there;
      const auto away = [&](LinkStages& l) {
        const auto it = shape.away_ns.find({Edge{s, r, 0}, l.direction});
        if (it != shape.away_ns.end()) l.proxy_away_us = static_cast<uint32_t>(it->second / 1000);
      };
      away(send);
      away(recv);
    } else {
      recv.gpu_mean_realtime_ns = middle + stage(Stage::gpu_to_gpu) + there;
    }
    ranks_[s].links.push_back(send);
    ranks_[r].links.push_back(recv);
  }
}

void Comm::rounds(int count, const RoundShape& shape) {
  for (int i = 0; i < count; ++i) {
    const uint64_t op = ++op_;
    std::vector<Nanoseconds> gap(ranks()), free(ranks());
    Nanoseconds last = 0;  // begin
    for (int r = 0; r < ranks(); ++r) {
      gap[r] = (shape.gap_ns ? shape.gap_ns(r, op) : usual_gap_ns) + cluster_.jitter(shape.jitter_ns);
      free[r] = std::max(cluster_.processes_[processes_[r]].free_ns, cluster_.idle_ns_);
      last = r == 0 ? free[r] + gap[r] : std::max(last, free[r] + gap[r]);
    }
    const Nanoseconds comm = shape.comm_ns + cluster_.jitter(shape.jitter_ns), end = last + comm;
    cluster_.pass(std::max<Nanoseconds>(0, end - cluster_.now_ns()));
    for (int r = 0; r < ranks(); ++r) {
      RankState& s = ranks_[r];
      if (s.left) continue;
      Round round;
      round.op = OpSeq{op};
      round.signature = shape.signature_of ? shape.signature_of(r, op) : shape.signature;
      round.begin_device_ns = s.device_offset_ns + free[r] + gap[r];
      const Nanoseconds early = shape.early_ns ? shape.early_ns(r, op) : 0;
      round.end_device_ns = s.device_offset_ns + end - early;
      Cluster::Process& process = cluster_.processes_[processes_[r]];
      process.free_ns = end;
      const Nanoseconds launched = free[r] - shape.ahead_ns + (shape.host_late.contains(r) ? gap[r] : 0);
      round.enter_monotonic_ns = round.launch_monotonic_ns =
          static_cast<uint64_t>(launched) + process.monotonic_offset_ns;
      round.flags = round_counts_valid;
      round.send_steps = round.recv_steps = 28;
      round.send_changes = round.recv_changes = 7;
      round.samples = static_cast<uint32_t>((end - free[r] - gap[r]) / ns_per_ms);
      s.rounds.push_back(round);
      s.entered = s.launched = s.completed = op;
      ++s.movement;
      s.moved_ns = cluster_.now_ns();
    }
    if (shape.links && algorithm_ == abi::Algorithm::ring) add_links(op, shape, comm);
  }
}

void Comm::hang(const HangPlan& plan) {
  plan_ = plan;
  if (plan.replay == 0) ++op_;  // otherwise the newest operation was recorded, and is replayed
  hung_ns_ = cluster_.now_ns();
  const Topology t = topology();
  steps_.clear();
  for (int c = 0; c < channels_; ++c) {
    Breakage b;
    if (auto it = plan.channels.find(c); it != plan.channels.end()) b = it->second;
    for (const auto& group : {plan.not_called, plan.called_only, plan.launched_only})
      b.absent.insert(group.begin(), group.end());
    for (int r = 0; r < ranks(); ++r)
      if (ranks_[r].left) b.absent.insert(r);
    steps_[c] = run_steps(t, b, plan.loops);
  }
  for (int r = 0; r < ranks(); ++r) {
    RankState& s = ranks_[r];
    if (plan.not_called.contains(r) || s.left) continue;
    if (plan.replay == 0) s.entered = op_;
    s.entered_ns = hung_ns_;
    ++s.movement;
    s.moved_ns = hung_ns_;
    s.begun = false;
    if (plan.called_only.contains(r)) continue;
    if (plan.replay == 0) s.launched = op_;
    if (plan.launched_only.contains(r)) continue;
    s.begun = true;
    bool ended = true;
    for (const auto& [c, ranks] : steps_) ended &= ranks[r].ended;
    if (!ended) continue;
    if (plan.replay == 0) s.completed = op_;
    s.begun = false;
  }
}

void Comm::hang_further(const HangPlan& plan) {
  if (plan.replay == 0) --op_;
  hang(plan);
}

void Comm::recover() {
  plan_.reset();
  for (RankState& s : ranks_) {
    if (s.left) continue;
    s.entered = s.launched = s.completed = op_;
    s.begun = false;
    ++s.movement;
    s.moved_ns = cluster_.now_ns();
  }
}

void Comm::leave(int rank, abi::CommState state) {
  ranks_[rank].left = true;
  CommDown down;
  down.comm = uid_;
  down.rank = Rank{rank};
  down.state = state;
  down.last_entered = OpSeq{ranks_[rank].entered};
  cluster_.processes_[processes_[rank]].outbox.push_back(down);
}

LastOperations Comm::last_operations(int rank) const {
  const RankState& s = ranks_[rank];
  return {CommUid{uid_}, Rank{rank}, OpSeq{s.entered}, OpSeq{s.launched}, OpSeq{s.begun ? op_ : s.completed}};
}

InFlight Comm::snapshot(int rank) const {
  const RankState& s = ranks_[rank];
  const Cluster::Process& process = cluster_.processes_[processes_[rank]];
  const Nanoseconds now = cluster_.now_ns();
  InFlight m;
  m.comm = uid_;
  m.rank = Rank{rank};
  m.sample_monotonic_ns = now + process.monotonic_offset_ns;
  m.entered = OpSeq{s.entered};
  m.launched = OpSeq{s.launched};
  m.completed = OpSeq{s.completed};
  m.moved_age_ms = ms(now - s.moved_ns);
  m.movement = s.movement;
  m.state = abi::CommState::ready;
  m.stopped = plan_ && plan_->stopped_probes.contains(rank);
  if (!plan_ || (plan_->replay == 0 ? s.entered == s.completed : !s.begun)) return m;
  const uint32_t age = ms(now - hung_ns_);
  m.late = age >= ms(late_ns);
  InFlightOp op;
  op.op = OpSeq{op_};
  op.signature = signature_at(rank);
  op.launched = s.launched >= op_ || plan_->replay != 0;
  op.begun = s.begun;
  op.plan = op.launched ? static_cast<uint32_t>(op_) : 0;
  op.signals = op.launched ? plan_->signals : 0;
  op.replay = plan_->replay;
  op.enter_age_ms = age;
  op.launch_age_ms = op.launched ? age : 0;
  if (!op.launched)
    op.signature.algorithm = abi::Algorithm::unknown, op.signature.protocol = abi::Protocol::unknown,
    op.signature.channels = 0;
  if (s.begun) {
    for (const auto& [c, ranks] : steps_) {
      const FakeChannel& ch = ranks[rank];
      ChannelState state;
      state.token = op.plan;
      state.channel = static_cast<uint16_t>(c);
      state.begun = ch.begun;
      state.ended = ch.ended;
      state.running_age_ms = age;
      state.polling_age_ms = ch.frozen || ch.ended ? age : 1;
      for (const FakeLane& l : ch.lanes) {
        (l.direction == abi::Direction::send ? state.send_steps : state.recv_steps) += l.steps;
        LaneState lane;
        lane.token = op.plan;
        lane.base_step = first_step_;
        lane.current_step = first_step_ + l.steps;
        lane.peer = l.peer;
        lane.channel = state.channel;
        lane.direction = l.direction;
        lane.group = static_cast<uint8_t>(l.group);
        lane.peer_index = static_cast<uint8_t>(l.peer_index);
        lane.moved_age_ms = age;
        lane.poll_age_ms = ch.frozen ? age : age_never;
        if (l.wait != abi::WaitKind::none && !ch.frozen) {
          lane.wait = l.wait;
          lane.want_step = first_step_ + l.want;
          lane.wait_age_ms = age;
          lane.poll_age_ms = 1;
          lane.wait_certain = !plan_->vague_waits || l.wait == abi::WaitKind::credit;
        }
        m.lanes.push_back(lane);
      }
      if (plan_->vague_waits) {
        // The group polls: any receive lane of it may be the one.
        for (LaneState& lane : m.lanes) {
          const bool group_waits = std::any_of(ch.lanes.begin(), ch.lanes.end(), [&](const FakeLane& l) {
            return l.group == lane.group && l.wait == abi::WaitKind::data;
          });
          if (lane.channel != c || lane.direction != abi::Direction::recv || !group_waits || ch.frozen) continue;
          lane.wait = abi::WaitKind::data;
          lane.want_step = lane.current_step + 1;
          lane.poll_age_ms = 1;
          lane.wait_certain = false;
        }
      }
      op.channels.push_back(state);
    }
    const int per_node = std::max(1, cluster_.options_.processes_per_node);
    for (const LaneState& lane : std::vector<LaneState>(m.lanes)) {
      if (lane.peer >= ranks()) continue;  // a switch, or the collective network
      if (processes_[rank] / per_node == processes_[lane.peer] / per_node) continue;
      Breakage b;
      if (auto it = plan_->channels.find(lane.channel); it != plan_->channels.end()) b = it->second;
      ProxyState p;
      p.base = lane.base_step;
      p.peer = lane.peer;
      p.net_device = 0;
      p.channel = lane.channel;
      p.direction = lane.direction;
      p.step_count = plan_->loops;
      const bool proxy_stuck = plan_->proxy_stuck.contains(rank), stuck = proxy_stuck || plan_->nic_stuck.contains(rank);
      p.tick_age_ms = proxy_stuck ? age : 1;
      p.moved_age_ms = age;
      const uint64_t stuck_at = lane.base_step + 2;
      if (lane.direction == abi::Direction::send) {
        p.posted = lane.current_step + 8;
        p.transmitted = p.done = stuck ? std::min<uint64_t>(stuck_at, lane.current_step) : lane.current_step;
      } else {
        uint32_t posted_there = 0;
        for (const FakeLane& l : steps_.at(lane.channel)[lane.peer].lanes)
          if (l.peer == rank && l.direction == abi::Direction::send) posted_there = l.steps;
        p.posted = lane.current_step + 8;
        uint64_t in = first_step_ + arrived(b, lane.peer, rank, posted_there);
        if (plan_->proxy_stuck.contains(lane.peer) || plan_->nic_stuck.contains(lane.peer)) in = std::min<uint64_t>(in, first_step_ + 2);
        p.received = p.transmitted = in;
        p.done = lane.current_step;
      }
      m.proxies.push_back(p);
    }
    m.proxy_tick_age_ms = 1;
  }
  m.operations.push_back(op);
  m.operations_total = 1;
  return m;
}

// ---- cluster -----------------------------------------------------------------------------------------------------

Cluster::Cluster(const Settings& settings, const ClusterOptions& options)
    : options_(options), analyzer_(settings), random_(options.seed) {
  for (int i = 0; i < options.processes; ++i) {
    Process p;
    const int node = i / std::max(1, options.processes_per_node);
    p.id.host = "node" + std::to_string(node);
    p.id.boot_id = "boot" + std::to_string(node);
    p.id.pid = 100 + i;
    p.id.pid_start_ticks = 1000 + i;
    p.monotonic_offset_ns = (node + 1) * 7'000'000'000u;
    p.realtime_offset_ns = 1'700'000'000'000'000'000 + node * 3'000'000;  // hosts disagree by milliseconds
    p.heartbeat_ns = now_ns_ + (i * 97 % 1000) * ns_per_ms;
    p.flush_ns = now_ns_;
    processes_.push_back(p);
  }
}

Comm& Cluster::add_comm(std::vector<int> processes, abi::Algorithm algorithm, int channels) {
  comms_.push_back(std::make_unique<Comm>(*this, 0x1000 + comms_.size(), std::move(processes), algorithm, channels));
  comms_.back()->announce();
  return *comms_.back();
}

Comm& Cluster::add_comm_of_all(abi::Algorithm algorithm, int channels) {
  std::vector<int> all;
  for (int i = 0; i < options_.processes; ++i) all.push_back(i);
  return add_comm(all, algorithm, channels);
}

void Cluster::state_of(int process, char state) {
  processes_[process].state = state;
  processes_[process].state_ns = now_ns_;
}

void Cluster::run_ns(Nanoseconds length) {
  pass(length);
  idle_ns_ = now_ns_;
}

void Cluster::pass(Nanoseconds length) {
  const Nanoseconds end = now_ns_ + length;
  while (ticked_ns_ + tick_ns <= end) {
    now_ns_ = std::max(now_ns_, ticked_ns_ + tick_ns);
    ticked_ns_ += tick_ns;
    tick();
  }
  now_ns_ = end;
}

void Cluster::tick() {
  for (size_t p = 0; p < processes_.size(); ++p) collect(static_cast<int>(p));
  std::stable_sort(pending_.begin(), pending_.end(),
                   [](const Pending& a, const Pending& b) { return a.at_ns < b.at_ns; });
  size_t done = 0;
  for (; done < pending_.size() && pending_[done].at_ns <= now_ns_; ++done)
    analyzer_.apply(pending_[done].batch, now_ns_);
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(done));
  for (Incident& i : analyzer_.advance(now_ns_)) reported_.push_back(std::move(i));
}

void Cluster::make(uint64_t comm_hash, int rank_count, std::map<int, int> processes) {
  initializations_[comm_hash] = {rank_count, std::move(processes), now_ns_};
}

void Cluster::collect(int index) {
  Process& p = processes_[index];
  if (p.state != 'S') return;
  std::vector<Payload> out = std::move(p.outbox);
  p.outbox.clear();
  const bool beat = now_ns_ >= p.heartbeat_ns;
  for (const auto& comm : comms_) {
    for (int r = 0; r < comm->ranks(); ++r) {
      if (comm->processes_[r] != index) continue;
      Comm::RankState& s = comm->ranks_[r];
      if (!s.rounds.empty()) {
        Rounds m;
        m.comm = comm->uid_;
        m.rank = Rank{r};
        m.rounds = std::move(s.rounds);
        m.links = std::move(s.links);
        s.rounds.clear();
        s.links.clear();
        out.push_back(std::move(m));
      }
      const bool late = s.entered > s.completed && now_ns_ - s.moved_ns >= late_ns;
      if (!s.left && (beat || late)) out.push_back(comm->snapshot(r));
    }
  }
  if (beat) {
    p.heartbeat_ns += heartbeat_ns;
    AgentHealth health;
    for (const Process& o : processes_) {
      if (&o == &p || o.id.boot_id != p.id.boot_id) continue;
      health.siblings.push_back({o.id.pid, o.id.pid_start_ticks, o.state, ms(now_ns_ - o.state_ns), {}});
      if (!options_.reads_frames || o.state == 'S') continue;
      for (const auto& comm : comms_)
        for (int r = 0; r < comm->ranks(); ++r)
          if (&processes_[comm->processes_[r]] == &o)
            health.siblings.back().last_operations.push_back(comm->last_operations(r));
    }
    out.push_back(std::move(health));
    for (const auto& [hash, makers] : initializations_)
      for (const auto& [rank, process] : makers.processes) {
        if (process != index) continue;
        CommInit m;
        m.comm_hash = hash;
        m.rank = Rank{rank};
        m.rank_count = makers.rank_count;
        m.stage = abi::InitStage::entered;
        m.stage_age_ms = m.enter_age_ms = ms(now_ns_ - makers.since_ns);
        m.cuda_device = process % options_.processes_per_node;
        m.number = 1;
        out.push_back(std::move(m));
      }
  }
  if (!out.empty()) send(index, std::move(out));
}

void Cluster::send(int index, std::vector<Payload> payloads) {
  Process& p = processes_[index];
  Batch b;
  b.process = p.id;
  b.job = options_.job;
  if (options_.processes_per_job != 0) b.job += std::to_string(index / options_.processes_per_job);
  b.batch_seq = ++p.batch_seq;
  b.sent_monotonic_ns = now_ns_ + p.monotonic_offset_ns;
  b.sent_realtime_ns = now_ns_ + p.realtime_offset_ns;
  b.nccl_version = 22907;
  b.payloads = std::move(payloads);
  if (p.silent || p.lost || chance(options_.loss)) return;
  const Nanoseconds at = now_ns_ + jitter(options_.delay_max_ns);
  if (chance(options_.duplicates)) pending_.push_back({at + jitter(options_.delay_max_ns), b});
  pending_.push_back({at, std::move(b)});
}

std::vector<Incident> Cluster::open_incidents() const {
  std::vector<Incident> open;
  for (Incident& i : analyzer_.incidents())
    if (is_open(i.state)) open.push_back(i);
  return open;
}

}  // namespace ccld::fake
