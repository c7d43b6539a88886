#include "test/sim/cluster/job.h"

#include <algorithm>

namespace ccld::sim {
namespace {

constexpr Nanoseconds call_ns = 4'000;    // a call of NCCL until it is entered and launched, half each
constexpr Nanoseconds to_gpu_ns = 6'000;  // from the launch to the begin of the kernel on an idle GPU
constexpr size_t queue_max = 200;         // kernels that the host may be ahead
constexpr Nanoseconds links_from_ns =
    3 * ns_per_ms;                        // shorter rounds are not sampled often enough for their steps to matter
constexpr size_t step_cost_max = 30'000;  // of a healthy round; beyond, its steps are not followed

bool needs_everybody(const OpShape& s) { return s.way != Way::broadcast; }

int steps_taken(const OpShape& s, int ranks) {
  const int round = 2 * (ranks - 1);
  return s.way == Way::ring ? round * std::max(1, (s.steps + round - 1) / round) : s.steps;
}

}  // namespace

struct Job::Item {
  enum class Kind { compute, collective, calls } kind;
  Instant ready;
  Nanoseconds time_ns = 0;
  OpRecord* op = nullptr;
  std::vector<CallRecord*> calls;
  int rank = 0;
  bool registered = false;
};

struct Job::Process {
  Instant host = 0, gpu = 0;
  std::deque<Item> queue;
  std::vector<Action> actions;
  size_t next = 0;
  uint64_t iteration = 0;
  uint64_t operations = 0;
  uint64_t edited_op = 0;
  bool started = false, stuck = false;  // the host
};

Job::Job(const Layout& layout, const Traffic& traffic, const Conditions& conditions, uint64_t seed, Instant start)
    : layout_(layout),
      traffic_(traffic),
      conditions_(conditions),
      seed_(seed),
      processes_(layout.processes()),
      rounds_(layout.comms().size()),
      next_step_(layout.comms().size()),
      mismatches_(layout.comms().size()),
      queued_(layout.processes(), false),
      topologies_(layout.comms().size()),
      plans_(layout.comms().size()) {
  for (const CommSpec& c : layout.comms()) timelines_.emplace_back(c.members.size());
  Stream s(seed, "start");
  for (Process& p : processes_) p.host = p.gpu = start + s.range(0, 20 * ns_per_ms);
  for (size_t c = 0; c < next_step_.size(); ++c)
    next_step_[c] = static_cast<uint32_t>(Stream(seed_, "first step", c).next());
}

Job::~Job() = default;

uint64_t Job::iteration_of_process(int process) const { return processes_[process].iteration; }

const Topology& Job::topology(int comm) const {
  auto& t = topologies_[comm];
  if (!t) t = std::make_unique<Topology>(layout_, layout_.comms()[comm], traffic_.channels);
  return *t;
}

void Job::run_until(Instant horizon) {
  for (int p = 0; p < layout_.processes(); ++p) advance(p, horizon);
  while (!work_.empty()) {
    const int p = work_.back();
    work_.pop_back();
    queued_[p] = false;
    advance(p, horizon);
  }
}

void Job::advance(int p, Instant horizon) {
  bool moved = true;
  while (moved) {
    moved = gpu_step(p);
    moved |= host_step(p, horizon);
  }
}

// ---- host ----------------------------------------------------------------------------------------------------------

void Job::next_iteration(int index) {
  Process& p = processes_[index];
  if (p.started) ++p.iteration;
  p.started = true;
  p.next = 0;
  p.actions = iteration_of(layout_, traffic_, seed_, index, p.iteration);
  const ProgramEdit& edit = conditions_.processes[index].edit;
  if (edit.kind == EditKind::none || edit.iteration != p.iteration) return;
  if (edit.kind == EditKind::other_bytes) {
    int calls = 0;
    for (Action& a : p.actions)
      if (a.kind == Action::Kind::calls && calls++ == edit.action)
        a.calls[0].bytes = edit.bytes, a.calls[0].steps = edit.steps;
    return;
  }
  std::vector<size_t> collectives;
  for (size_t i = 0; i < p.actions.size(); ++i)
    if (p.actions[i].kind == Action::Kind::collective) collectives.push_back(i);
  if (collectives.empty()) return;
  const size_t which = std::min<size_t>(edit.action, collectives.size() - 1), at = collectives[which];
  switch (edit.kind) {
    case EditKind::none:
    case EditKind::other_bytes: break;
    case EditKind::other_signature: p.actions[at].shape = edit.shape; break;
    case EditKind::skip: p.actions.erase(p.actions.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case EditKind::additional: {
      Action a;
      a.kind = Action::Kind::collective;
      a.shape = edit.shape;
      p.actions.insert(p.actions.begin() + static_cast<std::ptrdiff_t>(at), a);
      break;
    }
    case EditKind::swap_with_next:
      if (which + 1 < collectives.size()) std::swap(p.actions[at].shape, p.actions[collectives[which + 1]].shape);
      break;
  }
}

// False: nothing to do before the horizon, or it waits for the GPU.
bool Job::host_step(int index, Instant horizon) {
  Process& p = processes_[index];
  const ProcessConditions& c = conditions_.processes[index];
  if (p.stuck || p.host > horizon || p.queue.size() >= queue_max) return false;
  if (p.host >= c.host_stops) return false;
  if (p.next >= p.actions.size()) next_iteration(index);
  const Action& a = p.actions[p.next];
  switch (a.kind) {
    case Action::Kind::sync:
      if (!p.queue.empty()) return false;
      p.host = std::max(p.host, p.gpu) + call_ns;
      break;
    case Action::Kind::pause: p.host += a.time_ns; break;
    case Action::Kind::compute:
      p.queue.push_back({Item::Kind::compute, p.host, a.time_ns, nullptr, {}, 0, false});
      p.host += call_ns;
      break;
    case Action::Kind::collective:
    case Action::Kind::calls: {
      if (p.host >= c.late_at && ++p.operations % static_cast<uint64_t>(c.late_every) == 0) p.host += c.late_ns;
      if (p.host >= c.host_stops) return p.stuck = true, false;
      if (a.kind == Action::Kind::collective)
        enter_collective(index, a);
      else
        enter_calls(index, a);
      p.host += call_ns;
      break;
    }
  }
  ++p.next;
  return true;
}

Round& Job::round_of(int comm, uint64_t op, const OpShape& shape) {
  auto& slot = rounds_[comm][op];
  if (!slot) {
    slot = std::make_shared<Round>();
    slot->comm = comm;
    slot->op = op;
    slot->shape = &shape;
    slot->members = layout_.comms()[comm].members;
    slot->starts.resize(slot->members.size());
    slot->ends.assign(slot->members.size(), never);
    slot->first_step = next_step_[comm];
    next_step_[comm] +=
        static_cast<uint32_t>(steps_taken(shape, static_cast<int>(slot->members.size())) * shape.step_size);
    Stream s(seed_, "round", static_cast<uint64_t>(comm), op);
    slot->pace = 1 + traffic_.jitter * (s.uniform() * 2 - 1);
  }
  return *slot;
}

void Job::enter_collective(int index, const Action& a) {
  Process& p = processes_[index];
  const ProcessConditions& c = conditions_.processes[index];
  const OpShape& shape = traffic_.shapes[a.shape];
  const int comm = layout_.comm_of(index, shape.comm), rank = layout_.rank_in(comm, index);
  Timeline& line = timelines_[comm][rank];
  round_of(comm, line.ops_called + 1, shape);
  OpRecord r;
  r.op = ++line.ops_called;
  if (a.shape == c.edit.shape) p.edited_op = r.op;
  r.shape = &shape;
  r.round = rounds_[comm][r.op];
  r.enter = p.host;
  if (p.host >= c.launches_stop) {
    p.stuck = true;
  } else {
    r.token = ++line.token;
    r.launch = p.host + call_ns / 2;
    RankStart& start = r.round->starts[rank];
    start.launch = r.launch;
    // Of another operation than the one that was called first: then as many steps as its own takes.
    if (r.round->shape != &shape) {
      start.steps = steps_taken(shape, layout_.comms()[comm].ranks());
      note_mismatch(r.round, rank, shape);
    }
    ++r.round->version;
  }
  r.first_step = r.round->first_step;
  line.ops.push_back(std::move(r));
  if (p.stuck) return;
  Item item{Item::Kind::collective, line.ops.back().launch, 0, &line.ops.back(), {}, rank, false};
  p.queue.push_back(std::move(item));
}

void Job::note_mismatch(const std::shared_ptr<Round>& round, int rank, const OpShape& shape) {
  std::vector<Mismatch>& known = mismatches_[round->comm];
  if (known.empty() || known.back().round != round)
    known.push_back({round, std::vector<uint32_t>(round->members.size())});
  const auto steps = [&](const OpShape& s) {
    return static_cast<uint32_t>(steps_taken(s, static_cast<int>(round->members.size())) * s.step_size);
  };
  known.back().beyond[rank] = steps(shape) - steps(*round->shape);
}

uint32_t Job::first_step(int comm, int rank, const OpRecord& op) const {
  uint32_t step = op.first_step;
  for (const Mismatch& m : mismatches_[comm])
    if (m.round->op < op.op &&
        std::any_of(m.round->ends.begin(), m.round->ends.end(), [](Instant end) { return end >= never; }))
      step += m.beyond[rank];
  return step;
}

void Job::enter_calls(int index, const Action& a) {
  Process& p = processes_[index];
  const ProcessConditions& c = conditions_.processes[index];
  const int comm = layout_.comm_of(index, CommKind::pipeline), rank = layout_.rank_in(comm, index);
  Timeline& line = timelines_[comm][rank];
  Item item{Item::Kind::calls, p.host + call_ns / 2, 0, nullptr, {}, rank, false};
  const bool launches = p.host < c.launches_stop;
  if (launches) ++line.token;
  for (const Call& call : a.calls) {
    const bool sends = call.direction == abi::Direction::send;
    const uint64_t seq = ++line.pair_seq[{call.peer, static_cast<int>(call.direction)}];
    const int from = sends ? rank : call.peer, to = sends ? call.peer : rank;
    auto& pair = pairs_[{comm, from, to, seq}];
    if (!pair) {
      pair = std::make_shared<Round>();
      pair->comm = comm;
      pair->op = seq;
      pair->members = {layout_.comms()[comm].members[from], layout_.comms()[comm].members[to]};
      pair->starts.resize(2);
      pair->ends.assign(2, never);
      Stream s(seed_, "pair", static_cast<uint64_t>(comm * 4096 + from), seq);
      pair->pace = 1 + traffic_.jitter * (s.uniform() * 2 - 1);
    }
    CallRecord r;
    r.call = ++line.calls_called;
    r.pair_seq = seq;
    r.peer = call.peer;
    r.direction = call.direction;
    r.enter = p.host;
    r.pair = pair;
    r.first_step = static_cast<uint32_t>(seq * pair_steps);
    r.bytes = call.bytes != 0 ? call.bytes : traffic_.transfer_bytes;
    pair->starts[sends ? 0 : 1].steps = call.steps;
    if (launches) {
      r.token = line.token;
      r.launch = item.ready;
      pair->starts[sends ? 0 : 1].launch = r.launch;
      ++pair->version;
    }
    line.calls.push_back(std::move(r));
    if (launches) item.calls.push_back(&line.calls.back());
  }
  if (launches)
    p.queue.push_back(std::move(item));
  else
    p.stuck = true;
}

// ---- GPU -----------------------------------------------------------------------------------------------------------

// False: nothing to do, or the kernel waits for others.
bool Job::gpu_step(int index) {
  Process& p = processes_[index];
  const ProcessConditions& c = conditions_.processes[index];
  if (p.queue.empty() || p.gpu >= never) return false;
  Item& item = p.queue.front();
  if (!item.registered) {
    const Instant begin = std::max(p.gpu, item.ready) + to_gpu_ns;
    if (begin > std::min(c.gpu_dies, c.gpu_blocked)) return p.gpu = never, false;
    if (item.kind == Item::Kind::compute) {
      const double slow = begin >= c.slow_clock_at ? c.slow_clock_factor : 1;
      p.gpu = begin + static_cast<Nanoseconds>(static_cast<double>(item.time_ns) * slow);
      if (p.gpu > c.gpu_dies) p.gpu = never;
      p.queue.pop_front();
      return true;
    }
    item.registered = true;
    if (item.kind == Item::Kind::collective) {
      item.op->begin = begin;
      const std::shared_ptr<Round> round = item.op->round;
      RankStart& start = round->starts[item.rank];
      start.begin = begin;
      start.after = timelines_[round->comm][item.rank].ended;
      ++round->begun;
      ++round->version;
      if (round->begun == static_cast<int>(round->members.size()) || !needs_everybody(*round->shape)) resolve(round);
    } else {
      for (CallRecord* call : item.calls) {
        call->begin = begin;
        call->pair->starts[call->direction == abi::Direction::send ? 0 : 1].begin = begin;
        ++call->pair->begun;
        ++call->pair->version;
        if (call->pair->begun == 2) resolve_pair(call->pair);
      }
    }
  }
  Instant end = 0;
  if (item.kind == Item::Kind::collective) {
    end = item.op->round->ends[item.rank];
    if (end >= never) return false;
    item.op->end = timelines_[item.op->round->comm][item.rank].ended = end;
  } else {
    for (const CallRecord* call : item.calls)
      end = std::max(end, call->pair->ends[call->direction == abi::Direction::send ? 0 : 1]);
    if (end >= never) return false;
    for (CallRecord* call : item.calls) call->end = end;
  }
  p.gpu = end;
  p.queue.pop_front();
  return true;
}

void Job::resolve(const std::shared_ptr<Round>& round) {
  const size_t n = round->members.size();
  const bool all = round->begun == static_cast<int>(n);
  if (!all || wants_steps(*round)) {
    const StepRun& run = steps_of(*round);
    for (size_t r = 0; r < n; ++r) round->ends[r] = run.end(static_cast<int>(r));
  } else {
    Instant last = 0;
    for (const RankStart& s : round->starts) last = std::max(last, s.begin);
    const auto ns = static_cast<double>(round->shape->duration_ns) * round->pace;
    Stream spread(seed_, "end", static_cast<uint64_t>(round->comm), round->op);
    for (Instant& end : round->ends) end = last + static_cast<Nanoseconds>(ns * (1 + 0.01 * spread.uniform()));
  }
  round->resolved = all;
  for (size_t r = 0; r < n; ++r) {
    const int p = round->members[r];
    if (round->ends[r] >= never || queued_[p]) continue;
    queued_[p] = true;
    work_.push_back(p);
  }
  if (all) rounds_[round->comm].erase(round->op);
}

void Job::resolve_pair(const std::shared_ptr<Round>& pair) {
  const StepRun& run = steps_of(*pair);
  for (int side = 0; side < 2; ++side) {
    pair->ends[side] = run.end(side);
    const int p = pair->members[side];
    if (queued_[p]) continue;
    queued_[p] = true;
    work_.push_back(p);
  }
  pair->resolved = true;
}

// ---- steps ---------------------------------------------------------------------------------------------------------

std::shared_ptr<const StepPlan> Job::plan_of(const Round& round) const {
  if (!round.shape) {
    const bool network = !layout_.same_host(round.members[0], round.members[1]);
    auto& plan = pair_plans_[network];
    if (!plan) plan = std::make_shared<const StepPlan>(pair_plan(network, pair_steps));
    return plan;
  }
  auto& of_comm = plans_[round.comm];
  of_comm.resize(traffic_.shapes.size());
  auto& plan = of_comm[round.shape->index];
  if (plan) return plan;
  const Topology& t = topology(round.comm);
  const int n = static_cast<int>(round.members.size()), steps = round.shape->steps;
  StepPlan made;
  switch (round.shape->way) {
    case Way::ring: made = ring_plan(t, n, steps); break;
    case Way::tree: made = tree_plan(t, n, steps); break;
    case Way::nvls: made = nvls_plan(t, n, steps); break;
    case Way::broadcast: made = broadcast_plan(t, n, 0, steps); break;
    case Way::all_to_all: made = all_to_all_plan(t, n, steps); break;
  }
  made.slots = slots_in_steps / round.shape->step_size;
  plan = std::make_shared<const StepPlan>(std::move(made));
  return plan;
}

// Times of a step such that a healthy operation takes as long as its shape says.
StepTimes Job::cost_of(const Round& round) const {
  const bool network = !round.shape && !layout_.same_host(round.members[0], round.members[1]);
  const auto [known, added] = costs_.try_emplace({round.shape ? round.shape->index : -1, network});
  StepTimes& cost = known->second;
  if (added) {
    const Conditions healthy{std::vector<ProcessConditions>(layout_.processes()), {}, {}, {}};
    cost.buffered = traffic_.buffered_network;
    cost.buffer_steps = 4;
    const std::vector<RankStart> together(round.members.size(), RankStart{0, 0, -1});
    const StepRun run(plan_of(round), cost, healthy, round.comm, round.members, together);
    Instant end = 1;
    for (size_t r = 0; r < round.members.size(); ++r) end = std::max(end, run.end(static_cast<int>(r)));
    const Nanoseconds wanted = round.shape ? round.shape->duration_ns : traffic_.transfer_ns;
    const double scale = static_cast<double>(wanted) / static_cast<double>(end);
    for (Nanoseconds* ns : {&cost.gpu_ns, &cost.proxy_ns, &cost.wire_ns, &cost.latency_ns})
      *ns = std::max<Nanoseconds>(100, static_cast<Nanoseconds>(static_cast<double>(*ns) * scale));
  }
  StepTimes paced = cost;
  for (Nanoseconds* ns : {&paced.gpu_ns, &paced.wire_ns})
    *ns = static_cast<Nanoseconds>(static_cast<double>(*ns) * round.pace);
  return paced;
}

const StepRun& Job::steps_of(Round& round) const {
  if (!round.steps || round.steps_version != round.version) {
    round.steps = std::make_shared<const StepRun>(plan_of(round), cost_of(round), conditions_, round.comm,
                                                  round.members, round.starts);
    round.steps_version = round.version;
  }
  return *round.steps;
}

bool Job::wants_steps(const Round& round) const {
  Instant first = never, last = 0;
  bool touched = false;
  for (size_t r = 0; r < round.starts.size(); ++r) {
    const RankStart& s = round.starts[r];
    first = std::min(first, s.begin);
    last = std::max(last, s.begin);
    touched |= s.steps >= 0;
  }
  const Instant end = last + 2 * round.shape->duration_ns;
  for (size_t r = 0; r < round.members.size() && !touched; ++r)
    touched = conditions_.touches_steps(round.members[r], round.comm, end);
  if (touched) return true;
  if (last - first + round.shape->duration_ns < links_from_ns) return false;
  const auto n = static_cast<size_t>(round.members.size());
  const size_t steps = round.shape->way == Way::ring ? std::max<size_t>(2 * (n - 1), round.shape->steps)
                                                     : static_cast<size_t>(round.shape->steps);
  return n * steps * static_cast<size_t>(traffic_.channels) <= step_cost_max;
}

Instant Job::last_event(Instant now) const {
  Instant last = 0;
  const auto look = [&](Instant t) {
    if (t <= now) last = std::max(last, t);
  };
  const auto look_at_steps = [&](Round& round) {
    const StepRun& run = steps_of(round);
    for (size_t g = 0; g < run.plan().groups.size(); ++g) {
      const int done = run.done(static_cast<int>(g), now);
      if (done > 0) look(run.iteration(static_cast<int>(g), done - 1));
    }
  };
  for (const auto& lines : timelines_)
    for (const Timeline& line : lines) {
      for (const OpRecord& op : line.ops)
        for (Instant t : {op.enter, op.launch, op.begin, op.end}) look(t);
      for (const CallRecord& call : line.calls)
        for (Instant t : {call.enter, call.launch, call.begin, call.end}) look(t);
    }
  for (const auto& lines : timelines_) {
    const Round* looked = nullptr;
    for (const Timeline& line : lines)
      for (const OpRecord& op : line.ops)
        if (op.begin <= now && op.end > now && op.round.get() != looked)
          look_at_steps(*op.round), looked = op.round.get();
  }
  return last;
}

bool Job::sends_pending(const OpRecord& op, int rank, Instant now) const {
  if (!op.round->steps) return false;  // nothing of it was unusual
  const StepRun& run = *op.round->steps;
  for (int g : run.plan().by_rank[rank])
    for (int c : run.plan().groups[g].sends)
      if (run.plan().connections[c].network && run.count(c, StepRun::At::sent, now) < run.steps_of(rank)) return true;
  return false;
}

bool Job::called(int comm, int rank, uint64_t op) const {
  const Timeline& line = timelines_[comm][rank];
  if (op != 0) return op <= line.ops_called;
  return std::any_of(line.calls.begin(), line.calls.end(), [](const CallRecord& c) { return c.end >= never; });
}

uint64_t Job::edited_op(int process) const { return processes_[process].edited_op; }

bool Job::began(int comm, int rank, uint64_t op) const {
  const Timeline& line = timelines_[comm][rank];
  if (op > line.ops_called) return false;
  for (const OpRecord& r : line.ops)
    if (r.op == op) return r.begin < never;
  return true;  // forgotten because it has ended
}

void Job::ended_between(int comm, Instant from, Instant to,
                        const std::function<void(const OpShape&, Nanoseconds)>& tell) const {
  for (const OpRecord& op : timelines_[comm][0].ops) {
    if (op.end < from || op.end >= to || !op.round->resolved) continue;
    Nanoseconds longest = 0;
    for (size_t r = 0; r < op.round->ends.size(); ++r)
      longest = std::max(longest, op.round->ends[r] - op.round->starts[r].begin);
    tell(*op.shape, longest);
  }
}

void Job::forget(Instant before) {
  for (auto& lines : timelines_)
    for (Timeline& line : lines) {
      const int rank = static_cast<int>(&line - lines.data());
      while (line.ops.size() > 1 && line.ops.front().end < before && !sends_pending(line.ops.front(), rank, before))
        line.ops.pop_front();
      while (line.calls.size() > 1 && line.calls.front().end < before) line.calls.pop_front();
    }
  for (auto it = pairs_.begin(); it != pairs_.end();)
    it = it->second->resolved && it->second->ends[0] < before && it->second->ends[1] < before ? pairs_.erase(it)
                                                                                              : std::next(it);
}

}  // namespace ccld::sim
