#include "test/sim/telemetry/agent.h"

#include <algorithm>

#include "schemas/abi/frame_reader.h"
#include "schemas/wire/link_steps.h"

namespace ccld::sim {

using namespace decision;

namespace {

constexpr Nanoseconds late_ns = ns_per_s, late_report_ns = 100 * ns_per_ms, beat_ns = ns_per_s,
                      up_repeat_ns_min = 4 * ns_per_s, up_repeat_ns_max = 30 * ns_per_s, sample_ns = ns_per_ms;
constexpr uint32_t link_samples_min = 2;
constexpr size_t links_max = 1024, operations_max = 16, calls_max = 64;

uint32_t age_ms(Instant now, Instant since) {
  return static_cast<uint32_t>(std::max<Nanoseconds>(0, now - since) / ns_per_ms);
}

// Of a thread that polls, as samples see it on a machine that is also busy with other things.
uint32_t poll_age_ms(Instant now, int group) {
  return 1 + static_cast<uint32_t>((now / ns_per_ms * 7 + group * 13) % 60);
}

uint32_t samples_of(Instant begin, Instant end) { return static_cast<uint32_t>((end - begin) / sample_ns) + 1; }

// What is at the other end of a connection, as NCCL numbers it: behind the ranks and the network of CollNet the switch.
int32_t peer_in(const StepPlan& plan, const Connection& c, bool sends) {
  if (c.head >= 0) return static_cast<int32_t>(plan.by_rank.size()) + 1 + c.head;
  return sends ? c.receiver : c.sender;
}

// The connections of each endpoint. To a switch, those of all ranks are one, and heads beyond the peers that the frame tells
// apart share endpoints.
std::vector<std::vector<int>> by_endpoint(const StepPlan& plan, const Group& group, abi::Direction direction) {
  std::vector<std::vector<int>> out;
  const bool sends = direction == abi::Direction::send;
  for (int c : sends ? group.sends : group.receives) {
    const Connection& connection = plan.connections[c];
    const auto place = connection.head < 0
                           ? out.size()
                           : static_cast<size_t>(sends ? connection.sender_index : connection.receiver_index) % abi::lane_peers;
    out.resize(std::max(out.size(), place + 1));
    out[place].push_back(c);
  }
  return out;
}

bool announces_receives(const OpShape* s) { return s && s->signature.protocol == abi::Protocol::simple; }

}  // namespace

Agent::Agent(const Job& job, const AgentPlace& place) : job_(job), place_(place) {
  for (CommKind kind : {CommKind::world, CommKind::tensor, CommKind::pipeline, CommKind::data, CommKind::expert}) {
    const int comm = job.layout().comm_of(place.process, kind);
    if (comm >= 0) memberships_.push_back({comm, job.layout().rank_in(comm, place.process)});
  }
}

Instant Agent::sampled(Instant t) const { return t + sample_ns - (t + place_.phase_ns) % sample_ns; }

std::vector<Payload> Agent::collect(Instant now, const std::vector<SiblingState>& siblings) {
  std::vector<Payload> out;
  if (next_beat_ == 0) next_beat_ = now - now % beat_ns + place_.phase_ns;
  const bool beat = now >= next_beat_;
  if (beat) next_beat_ += beat_ns * (1 + (now - next_beat_) / beat_ns);
  for (Membership& m : memberships_) {
    if (!m.told || now >= m.next_up) {
      out.push_back(comm_up(m));
      m.up_repeat = std::min(m.told ? 2 * m.up_repeat : up_repeat_ns_min, up_repeat_ns_max);
      m.next_up = now + m.up_repeat;
    }
    add_rounds(m, now, out);
    add_calls(m, now, out);
    const bool in_flight = busy(m, now);
    const Instant moved = beat || in_flight ? movement_of(m, now) : m.moved;
    if (moved > m.moved) ++m.movement;
    m.moved = std::max(m.moved, moved);
    const bool late = in_flight && now - m.moved >= late_ns && now >= m.next_late;
    if (beat || !m.told || late) {
      out.push_back(snapshot(m, now));
      m.next_late = now + late_report_ns;
    }
    m.told = true;
  }
  if (!beat && siblings.empty()) return out;
  AgentHealth health;
  for (const SiblingState& s : siblings)
    health.siblings.push_back({s.id.pid, s.id.pid_start_ticks, s.state, age_ms(now, s.since),
                               s.lost ? s.lost->last_operations(now) : std::vector<LastOperations>()});
  out.push_back(std::move(health));
  return out;
}

// Whoever is gone has called, launched and begun nothing since.
std::vector<LastOperations> Agent::last_operations(Instant now) const {
  std::vector<LastOperations> out;
  for (const Membership& m : memberships_) {
    LastOperations last;
    last.comm = CommUid{job_.layout().comms()[m.comm].uid};
    last.rank = Rank{m.rank};
    for (const OpRecord& op : job_.timeline(m.comm, m.rank).ops) {
      if (op.enter <= now) last.entered = OpSeq{op.op};
      if (op.launch <= now) last.launched = OpSeq{op.op};
      if (op.begin <= now) last.begun = OpSeq{op.op};
    }
    out.push_back(last);
  }
  return out;
}

void Agent::announce_again() {
  for (Membership& m : memberships_) m.told = false;
}

CommUp Agent::comm_up(const Membership& m) const {
  const CommSpec& spec = job_.layout().comms()[m.comm];
  const Topology& topology = job_.topology(m.comm);
  CommUp up;
  up.comm = CommUid{spec.uid};
  up.comm_hash = spec.uid * 7919;
  up.name = spec.name;
  up.rank = Rank{m.rank};
  up.rank_count = spec.ranks();
  up.node = topology.node_of(m.rank);
  up.node_count = topology.nodes();
  up.local_rank = topology.local_of(m.rank);
  up.cuda_device = job_.layout().gpu_of(place_.process);
  up.gpu_bus_id = "0000:" + std::to_string(10 + up.cuda_device) + ":00.0";
  up.host = place_.id.host;
  for (int c = 0; c < topology.channels(); ++c) {
    const ChannelGraph& g = topology.graph(c);
    const TreePlace& tree = g.tree[m.rank];
    up.channels.push_back({c, g.prev(m.rank), g.next(m.rank), tree.up, tree.down, tree.depth});
    const auto add = [&](int peer, abi::Direction direction) {
      if (peer >= 0 && topology.over_network(m.rank, peer))
        up.connections.push_back({c, direction, peer, 0, "net" + std::to_string(up.cuda_device)});
    };
    add(g.next(m.rank), abi::Direction::send);
    add(g.prev(m.rank), abi::Direction::recv);
    std::vector<int> neighbours = tree.down;
    neighbours.push_back(tree.up);
    for (int peer : neighbours)
      for (auto d : {abi::Direction::send, abi::Direction::recv}) add(peer, d);
  }
  return up;
}

// ---- what has finished ---------------------------------------------------------------------------------------------

void Agent::add_rounds(Membership& m, Instant now, std::vector<Payload>& out) const {
  Rounds message;
  const Topology& topology = job_.topology(m.comm);
  const int ranks = job_.layout().comms()[m.comm].ranks();
  for (const OpRecord& op : job_.timeline(m.comm, m.rank).ops) {
    if (op.op <= m.rounds_told) continue;
    if (op.end > now) break;
    m.rounds_told = op.op;
    decision::Round r;
    r.op = OpSeq{op.op};
    r.signature = op.shape->signature;
    r.signature.flags |= abi::op_launched;
    r.enter_monotonic_ns = place_.clocks.monotonic(op.enter);
    r.launch_monotonic_ns = place_.clocks.monotonic(op.launch);
    r.begin_device_ns = place_.clocks.device(op.begin);
    r.end_device_ns = place_.clocks.device(op.end);
    r.flags = round_counts_valid;
    const auto steps = static_cast<uint32_t>(op.shape->steps * op.shape->step_size);
    for (int c = 0; c < topology.channels(); ++c) {
      const TreePlace& tree = topology.graph(c).tree[m.rank];
      const auto lanes = op.shape->way == Way::tree   ? static_cast<uint32_t>(tree.down.size() + (tree.up >= 0 ? 1 : 0))
                         : op.shape->way == Way::nvls ? static_cast<uint32_t>(ranks + 1)
                                                      : 1u;
      r.send_steps += lanes * steps;
      r.recv_steps += lanes * steps;
    }
    r.samples = samples_of(op.begin, op.end);
    r.send_changes = r.recv_changes = std::min(r.samples, steps / static_cast<uint32_t>(op.shape->step_size));
    message.rounds.push_back(r);
    if (r.samples >= link_samples_min && op.round->steps)
      add_links(*op.round->steps, m.rank, {op.op, op.begin, op.end, op.shape->step_size}, message.links);
  }
  if (message.rounds.empty()) return;
  message.comm = CommUid{job_.layout().comms()[m.comm].uid};
  message.rank = Rank{m.rank};
  out.push_back(std::move(message));
}

void Agent::add_links(const StepRun& run, int side, const Stages& of, std::vector<LinkStages>& links) const {
  using At = StepRun::At;
  const StepPlan& plan = run.plan();
  for (int g : plan.by_rank[side]) {
    const Group& group = plan.groups[g];
    const auto add = [&](int c, abi::Direction direction) {
      const Connection& connection = plan.connections[c];
      const bool sends = direction == abi::Direction::send;
      const int steps = std::min(run.steps_of(side), run.count(c, sends ? At::posted : At::consumed, of.end));
      if (steps == 0 || links.size() >= links_max || (of.peer_of_pair >= 0 && !connection.network)) return;
      const auto step_size = static_cast<uint32_t>(of.step_size);
      const int first_step =
          static_cast<int>(wire::first_counted_step(static_cast<uint32_t>(steps) * step_size) / step_size);
      const auto mean = [&](At stage) {
        double sum = 0;
        const Instant origin = of.begin;
        for (int k = first_step; k < steps; ++k)
          sum += static_cast<double>(std::min(sampled(run.at(c, stage, k)), sampled(of.end) + 50 * ns_per_ms) - origin);
        return place_.clocks.realtime(origin + static_cast<Nanoseconds>(sum / (steps - first_step)));
      };
      LinkStages l;
      l.op = OpSeq{of.number};
      l.peer = of.peer_of_pair >= 0 ? of.peer_of_pair : sends ? connection.receiver : connection.sender;
      l.net_device = connection.network ? 0 : -1;
      l.steps = static_cast<uint32_t>(steps) * step_size;
      l.channel = static_cast<uint16_t>(connection.channel);
      l.direction = direction;
      l.first_step = static_cast<uint32_t>(first_step) * step_size;
      l.group = static_cast<uint8_t>(group.number % static_cast<int>(abi::lane_groups));
      l.gpu_mean_realtime_ns = mean(sends ? At::posted : At::consumed);
      if (sends) l.ready_mean_realtime_ns = l.gpu_mean_realtime_ns;
      if (connection.network) {
        if (!sends) l.ready_mean_realtime_ns = mean(At::receive_posted);
        l.wire_mean_realtime_ns = mean(sends ? At::handed : At::arrived);
        l.done_mean_realtime_ns = mean(sends ? At::sent : At::given);
        // A pause is known but for the sample after its begin and the one before its end.
        const Instant first = sends ? run.at(c, At::posted, 0) : of.begin,
                      last = std::min(of.end, run.at(c, sends ? At::sent : At::given, steps - 1));
        l.proxy_away_us = static_cast<uint32_t>(run.away_ns(c, sends, first, last, 2 * sample_ns) / 1000);
      }
      links.push_back(l);
    };
    for (int c : group.receives) add(c, abi::Direction::recv);
    for (int c : group.sends) add(c, abi::Direction::send);
  }
}

void Agent::add_calls(Membership& m, Instant now, std::vector<Payload>& out) const {
  P2pRounds message;
  for (const CallRecord& call : job_.timeline(m.comm, m.rank).calls) {
    if (call.call <= m.calls_told) continue;
    if (call.end > now) break;
    m.calls_told = call.call;
    P2pRound r;
    r.peer = Rank{call.peer};
    r.direction = call.direction;
    r.pair_seq = call.pair_seq;
    r.bytes = call.bytes;
    r.enter_monotonic_ns = place_.clocks.monotonic(call.enter);
    r.launch_monotonic_ns = place_.clocks.monotonic(call.launch);
    r.begin_device_ns = place_.clocks.device(call.begin);
    r.end_device_ns = place_.clocks.device(call.end);
    r.flags = round_counts_valid;
    r.plan = call.token;
    const int side = call.direction == abi::Direction::send ? 0 : 1;
    (side == 0 ? r.send_steps : r.recv_steps) = static_cast<uint32_t>(call.pair->steps->steps_of(side));
    message.rounds.push_back(r);
    if (samples_of(call.begin, call.end) >= link_samples_min)
      add_links(*call.pair->steps, side, {call.pair_seq, call.begin, call.end, 1, call.peer}, message.links);
  }
  if (message.rounds.empty()) return;
  message.comm = CommUid{job_.layout().comms()[m.comm].uid};
  message.rank = Rank{m.rank};
  out.push_back(std::move(message));
}

// ---- where everything stands ---------------------------------------------------------------------------------------

bool Agent::busy(const Membership& m, Instant now) const {
  const Timeline& line = job_.timeline(m.comm, m.rank);
  for (auto op = line.ops.rbegin(); op != line.ops.rend(); ++op) {
    if (op->enter > now) continue;
    if (op->end > now) return true;
    break;
  }
  for (auto call = line.calls.rbegin(); call != line.calls.rend(); ++call) {
    if (call->enter > now) continue;
    return call->end > now;
  }
  return false;
}

Instant Agent::steps_moved(const StepRun& run, int side, Instant now) const {
  using At = StepRun::At;
  const StepPlan& plan = run.plan();
  Instant moved = 0;
  for (int g : plan.by_rank[side]) {
    const int done = run.done(g, now);
    if (done > 0) moved = std::max(moved, run.iteration(g, done - 1));
    for (int c : plan.groups[g].sends)
      if (plan.connections[c].network)
        for (At stage : {At::handed, At::sent}) moved = std::max(moved, run.last(c, stage, now));
    for (int c : plan.groups[g].receives)
      if (plan.connections[c].network)
        for (At stage : {At::receive_posted, At::arrived, At::given}) moved = std::max(moved, run.last(c, stage, now));
  }
  return moved;
}

Instant Agent::movement_of(const Membership& m, Instant now) const {
  Instant moved = 0;
  const auto look = [&](Instant t) {
    if (t <= now) moved = std::max(moved, t);
  };
  const Timeline& line = job_.timeline(m.comm, m.rank);
  for (const OpRecord& op : line.ops) {
    if (op.enter > now) break;
    for (Instant t : {op.enter, op.launch, op.begin, op.end}) look(t);
    if (op.launch <= now && op.end > now) look(steps_moved(job_.steps_of(*op.round), m.rank, now));
  }
  for (const CallRecord& call : line.calls) {
    if (call.enter > now) break;
    for (Instant t : {call.enter, call.launch, call.begin, call.end}) look(t);
    if (call.launch <= now && call.end > now)
      look(steps_moved(job_.steps_of(*call.pair), call.direction == abi::Direction::send ? 0 : 1, now));
  }
  return moved;
}

InFlight Agent::snapshot(Membership& m, Instant now) const {
  const Timeline& line = job_.timeline(m.comm, m.rank);
  InFlight s;
  s.comm = CommUid{job_.layout().comms()[m.comm].uid};
  s.rank = Rank{m.rank};
  s.sample_monotonic_ns = place_.clocks.monotonic(now);
  s.moved_age_ms = age_ms(now, m.moved);
  s.movement = m.movement;
  s.state = abi::CommState::ready;

  const OpRecord* kernel = nullptr;
  const CallRecord* call_kernel = nullptr;
  uint64_t entered = m.ops_completed, launched = entered;
  for (const OpRecord& op : line.ops) {
    if (op.enter > now) break;
    entered = op.op;
    if (op.launch <= now) launched = op.op;
    if (op.end <= now) {
      m.ops_completed = op.op;
      continue;
    }
    if (!kernel && op.launch <= now) kernel = &op;
  }
  uint64_t calls_entered = 0, calls_launched = 0;
  for (const CallRecord& call : line.calls) {
    if (call.enter > now) break;
    calls_entered = call.call;
    if (call.launch <= now) calls_launched = call.call;
    if (!call_kernel && call.launch <= now && call.end > now) call_kernel = &call;
  }
  s.entered = OpSeq{entered};
  s.launched = OpSeq{launched};
  s.completed = OpSeq{m.ops_completed};
  s.entered_p2p = calls_entered;
  s.launched_p2p = calls_launched;
  s.late = busy(m, now) && now - m.moved >= late_ns;

  for (const OpRecord& op : line.ops) {
    if (op.enter > now || op.end <= now) continue;
    ++s.operations_total;
    if (s.operations.size() < operations_max) describe(m, op, now, &op == kernel, s);
  }
  for (const CallRecord& call : line.calls) {
    if (call.enter > now || call.end <= now) continue;
    ++s.p2p_total;
    if (s.p2p.size() == calls_max) continue;
    P2pCall c;
    c.call = call.call;
    c.pair_seq = call.pair_seq;
    c.bytes = call.bytes;
    c.peer = Rank{call.peer};
    c.direction = call.direction;
    c.enter_age_ms = age_ms(now, call.enter);
    c.launched = call.launch <= now;
    if (c.launched) {
      c.plan = call.token;
      c.launch_age_ms = age_ms(now, call.launch);
      c.flags = abi::op_launched;
      c.signals = abi::signal_times | abi::signal_steps | abi::signal_waits | abi::signal_proxy;
      c.begun = call.begin <= now;
    }
    s.p2p.push_back(c);
  }
  if (kernel) {
    s.kernel_plan = kernel->token;
    const StepRun& run = job_.steps_of(*kernel->round);
    const uint32_t first_step = job_.first_step(m.comm, m.rank, *kernel);
    if (kernel->begin <= now)
      add_lanes(run, m.rank, kernel->shape, kernel->token, kernel->begin, first_step, -1, now, s);
    add_proxies(run, m.rank, kernel->shape->step_size, first_step, -1, now, s);
  } else if (call_kernel) {
    s.kernel_plan = call_kernel->token;
    for (const CallRecord& call : line.calls) {
      if (call.token != call_kernel->token || call.launch > now) continue;
      const StepRun& run = job_.steps_of(*call.pair);
      const int side = call.direction == abi::Direction::send ? 0 : 1;
      if (call.begin <= now) add_lanes(run, side, nullptr, call.token, call.begin, call.first_step, call.peer, now, s);
      add_proxies(run, side, 1, call.first_step, call.peer, now, s);
    }
  }
  // A kernel ends when it has posted its steps: its proxies may still have them in hand.
  for (const OpRecord& op : line.ops)
    if (op.end <= now && job_.sends_pending(op, m.rank, now))
      add_proxies(job_.steps_of(*op.round), m.rank, op.shape->step_size, job_.first_step(m.comm, m.rank, op), -1, now,
                  s);
  return s;
}

void Agent::describe(const Membership& m, const OpRecord& op, Instant now, bool tells, InFlight& s) const {
  InFlightOp o;
  o.op = OpSeq{op.op};
  o.signature = op.shape->signature;
  o.enter_age_ms = age_ms(now, op.enter);
  o.launched = op.launch <= now;
  o.begun = op.begin <= now;
  if (o.launched) {
    o.plan = op.token;
    o.launch_age_ms = age_ms(now, op.launch);
    o.signals = signals_default;
    if (job_.topology(m.comm).nodes() > 1) o.signals |= abi::signal_proxy;
    o.signature.flags |= abi::op_launched;
  } else {
    o.signature.algorithm = abi::Algorithm::unknown;
    o.signature.protocol = abi::Protocol::unknown;
    o.signature.channels = 0;
  }
  if (tells) {
    const StepRun& run = job_.steps_of(*op.round);
    const StepPlan& plan = run.plan();
    for (int c = 0; c < plan.channels; ++c) {
      ChannelState state;
      state.token = op.token;
      state.channel = static_cast<uint16_t>(c);
      state.begun = o.begun;
      state.ended = o.begun && run.channel_end(m.rank, c) <= now;
      if (state.begun) state.running_age_ms = age_ms(now, op.begin);
      for (int g : plan.by_rank[m.rank]) {
        const Group& group = plan.groups[g];
        if (group.channel != c || !o.begun) continue;
        const int done = run.done(g, now), size = op.shape->step_size;
        state.recv_steps +=
            static_cast<uint32_t>(plan.endpoints(group.receives, false) * std::max(0, done - group.lag) * size);
        state.send_steps += static_cast<uint32_t>(plan.endpoints(group.sends, true)) *
                            static_cast<uint32_t>(std::min(done, run.steps_of(m.rank)) * size);
        if (state.ended || done >= run.iterations(g)) continue;
        const bool polls = run.frozen_at(g) > now;
        state.polling_age_ms =
            std::min(state.polling_age_ms, polls ? poll_age_ms(now, g) : age_ms(now, run.frozen_at(g)));
      }
      o.channels.push_back(state);
    }
  }
  s.operations.push_back(std::move(o));
}

void Agent::add_lanes(const StepRun& run, int side, const OpShape* shape, uint32_t token, Instant begin,
                      uint32_t first_step, int peer_of_pair, Instant now, InFlight& s) const {
  using At = StepRun::At;
  const StepPlan& plan = run.plan();
  const int size = shape ? shape->step_size : 1;
  const bool simple = announces_receives(shape);
  for (int channel = 0; channel < plan.channels; ++channel) {
    std::vector<abi::LaneObservation> seen;
    std::vector<LaneState> lanes;
    for (int g : plan.by_rank[side]) {
      const Group& group = plan.groups[g];
      if (group.channel != channel) continue;
      const int done = run.done(g, now), mine = run.steps_of(side);
      const bool over = done >= run.iterations(g), runs = !over && run.frozen_at(g) > now;
      const Instant turned = done > 0 ? run.iteration(g, done - 1) : begin;  // since when it is in this iteration
      const int warp = 4 * (group.number % static_cast<int>(abi::lane_groups));
      bool needs_credit = false, needs_data = false;
      if (runs && done < mine)
        for (int c : group.sends) needs_credit |= run.freed(c, done) > now;
      if (runs && done >= group.lag)
        for (int c : group.receives) needs_data |= run.at(c, At::given, std::min(done - group.lag, mine - 1)) > now;
      // Of an endpoint's connections the last has written it.
      const auto add = [&](const std::vector<int>& connections, abi::Direction direction, int index) {
        const Connection& connection = plan.connections[connections.back()];
        const bool sends = direction == abi::Direction::send;
        const int steps = sends ? std::min(done, mine) : std::max(0, done - group.lag);
        LaneState l;
        l.token = token;
        l.base_step = first_step;
        l.current_step = first_step + static_cast<uint32_t>(steps * size);
        l.peer = peer_of_pair >= 0 ? peer_of_pair : peer_in(plan, connection, sends);
        l.channel = static_cast<uint16_t>(channel);
        l.direction = direction;
        l.group = static_cast<uint8_t>(group.number % static_cast<int>(abi::lane_groups));
        l.peer_index = static_cast<uint8_t>(index % static_cast<int>(abi::lane_peers));
        l.moved_age_ms = age_ms(now, turned);
        abi::LaneObservation o;
        o.direction = direction;
        o.index =
            static_cast<uint8_t>(abi::lane_index(static_cast<unsigned>(group.number), static_cast<unsigned>(index)));
        o.lane.current_step = l.current_step;
        o.lane.base_step = l.base_step;
        o.lane.peer_and_warps = abi::pack_peer_and_warps(static_cast<uint32_t>(l.peer), static_cast<uint32_t>(warp), 4);
        const bool waits = runs && std::any_of(connections.begin(), connections.end(), [&](int c) {
          return sends ? done < mine && run.freed(c, done) > now
                       : done >= group.lag && done - group.lag < mine && run.at(c, At::given, done - group.lag) > now;
        });
        // LL and LL128 look for credit first, and announce nothing while they poll for data.
        const bool announces = simple ? waits : sends && waits;
        if (announces) {
          o.lane.wait_kind = static_cast<uint32_t>(sends ? abi::WaitKind::credit : abi::WaitKind::data);
          o.lane.want_step = l.current_step + static_cast<uint32_t>(size);
          o.lane_polls = true;
        }
        o.warps_poll = !simple && runs && needs_data && !needs_credit;
        if (runs && (announces || o.warps_poll))
          l.poll_age_ms = poll_age_ms(now, g);
        else if (done > 0 || run.frozen_at(g) <= now)
          l.poll_age_ms = age_ms(now, std::min(turned, run.frozen_at(g)));
        else
          l.poll_age_ms = age_never;
        seen.push_back(o);
        lanes.push_back(l);
      };
      for (const auto direction : {abi::Direction::recv, abi::Direction::send}) {
        const auto endpoints = by_endpoint(plan, group, direction);
        for (size_t i = 0; i < endpoints.size(); ++i) add(endpoints[i], direction, static_cast<int>(i));
      }
    }
    abi::derive_waits(seen.data(), seen.size(), simple);
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (seen[i].wait != abi::WaitKind::none) {
        lanes[i].wait = seen[i].wait;
        lanes[i].want_step = seen[i].want_step;
        lanes[i].seen_step = seen[i].seen_step;
        lanes[i].wait_certain = seen[i].certain;
        lanes[i].wait_age_ms = lanes[i].moved_age_ms;
      }
      s.lanes.push_back(lanes[i]);
    }
  }
}

void Agent::add_proxies(const StepRun& run, int side, int step_size, uint32_t first_step, int peer_of_pair, Instant now,
                        InFlight& s) const {
  using At = StepRun::At;
  const StepPlan& plan = run.plan();
  const ProcessConditions& condition = job_.conditions().processes[place_.process];
  for (int g : plan.by_rank[side]) {
    const Group& group = plan.groups[g];
    const auto add = [&](int c, abi::Direction direction) {
      const Connection& connection = plan.connections[c];
      if (!connection.network) return;
      const bool sends = direction == abi::Direction::send;
      const int steps = run.steps_of(side);
      ProxyState p;
      p.base = first_step;
      p.peer = peer_of_pair >= 0 ? peer_of_pair : sends ? connection.receiver : connection.sender;
      p.net_device = 0;
      p.channel = static_cast<uint16_t>(connection.channel);
      p.direction = direction;
      p.step_count = static_cast<uint64_t>(steps * step_size);
      p.operation = s.kernel_plan;
      const auto counter = [&](int n) { return p.base + static_cast<uint64_t>(std::min(n, steps) * step_size); };
      Instant moved = 0;
      const auto reached = [&](At stage) {
        moved = std::max(moved, run.last(c, stage, now));
        return run.count(c, stage, now);
      };
      bool works = true;
      if (sends) {
        const int sent = reached(At::sent);
        p.done = counter(sent);
        p.posted = counter(sent + plan.slots);
        p.transmitted = counter(reached(At::handed));
        works = sent < steps;
      } else {
        p.posted = counter(reached(At::receive_posted));
        p.received = counter(reached(At::arrived));
        p.transmitted = counter(reached(At::given));
        const int consumed = reached(At::consumed);
        p.done = counter(consumed);
        works = consumed < steps;
      }
      p.moved_age_ms = age_ms(now, moved);
      // It is visited as long as it has work and the thread runs.
      const Instant visited = std::min(works ? now - ns_per_ms : moved, condition.proxy_stops);
      p.tick_age_ms = age_ms(now, visited);
      s.proxy_tick_age_ms = std::min(s.proxy_tick_age_ms, p.tick_age_ms);
      s.proxies.push_back(p);
    };
    for (int c : group.receives) add(c, abi::Direction::recv);
    for (int c : group.sends) add(c, abi::Direction::send);
  }
}

}  // namespace ccld::sim
