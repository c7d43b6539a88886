#include "test/sim/simulation.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <variant>

#include "decision/analyzer.h"
#include "decision/workers.h"
#include "test/sim/telemetry/agent.h"

namespace ccld::sim {

using namespace decision;

namespace {

constexpr Nanoseconds tick_ns = 100 * ns_per_ms;
// Processes of a host that wait look at each other so often.
constexpr Nanoseconds seen_after_ns = 500 * ns_per_ms;
// After the first word: further incidents would be too many, and hard evidence confirms.
constexpr Nanoseconds listen_on_ns = 7 * ns_per_s;
constexpr Nanoseconds goes_on_ns = 25 * ns_per_s;
// What telemetry may take on top of the settings' own times: heartbeats of a second, of which some are lost.
constexpr Nanoseconds slack_ns = 3 * ns_per_s;
// In which a job that is slow from its first iteration must be known, whichever is longer.
constexpr double from_start_s = 60, from_start_iterations = 30;

// One life of a job: from its start until it is killed, or to the end.
class Life {
 public:
  Life(const Scenario& sc, const Conditions& conditions, const LayoutSizes& sizes, uint64_t seed, Instant start,
       Instant end, uint32_t first_pid)
      : sc_(sc), layout_(sizes), job_(layout_, sc.traffic, conditions, seed, start), start_(start), end_(end) {
    Stream s(seed, "places"), of_hosts(sc.seed, "clocks");  // a job that starts again finds the same hosts
    std::vector<Clocks> hosts(layout_.hosts());
    for (Clocks& h : hosts) {
      h.monotonic_start = of_hosts.range(ns_per_s, 4'000'000 * ns_per_s);
      h.realtime_start = 1'700'000'000 * ns_per_s + static_cast<int64_t>(of_hosts.real(-1, 1) * sc.skew_ns);
      h.host_drift = of_hosts.real(-1, 1) * sc.drift;
    }
    for (int p = 0; p < layout_.processes(); ++p) {
      AgentPlace place;
      place.process = p;
      const int host = layout_.host_of(p);
      place.id.host = "node" + std::to_string(host);
      place.id.boot_id = "boot" + std::to_string(host);
      place.id.pid = first_pid + static_cast<uint32_t>(layout_.gpu_of(p));
      place.id.pid_start_ticks = static_cast<uint64_t>(start / 10'000'000) + 100;
      place.clocks = hosts[host];
      place.clocks.device_start = s.range(1, int64_t{1} << 52);
      place.clocks.device_drift = s.real(-1, 1) * sc.drift;
      place.phase_ns = s.range(1, ns_per_s - 1);
      agents_.emplace_back(job_, place);
      Instant leaves = end + s.range(0, 300 * ns_per_ms);
      char state = 'X';
      bool seen = true;
      for (const Passing& q : sc.passings)
        if (q.process == p && &conditions == &sc.conditions) leaves = q.at, state = q.state, seen = q.seen;
      passing_.push_back({p, leaves, state, seen});
    }
    sequence_.assign(agents_.size(), 0);
    announced_again_.assign(agents_.size(), false);
  }

  // Everything that agents send from `from` on, for one tick.
  void tick(Instant from, Channel& channel) {
    if (from + tick_ns <= start_) return;
    job_.run_until(from + tick_ns);
    for (size_t p = 0; p < agents_.size(); ++p) {
      Agent& agent = agents_[p];
      const Instant now = from + agent.place().phase_ns % tick_ns;
      if (now < start_ || now >= passing_[p].at) continue;
      if (sequence_[p] > 0 && !announced_again_[p] && now > sc_.disturbance.restart_to + tick_ns) {
        announced_again_[p] = true;
        agent.announce_again();
      }
      std::vector<Payload> payloads = agent.collect(now, siblings(static_cast<int>(p), now));
      if (payloads.empty()) continue;
      Batch b;
      b.process = agent.place().id;
      b.job = "job";
      b.batch_seq = ++sequence_[p];
      b.sent_monotonic_ns = agent.place().clocks.monotonic(now);
      b.sent_realtime_ns = agent.place().clocks.realtime(now);
      b.nccl_version = 22907;
      b.payloads = std::move(payloads);
      const auto muted = [&](const Mute& m) { return m.process == static_cast<int>(p) && now >= m.from && now < m.to; };
      if (std::none_of(sc_.mutes.begin(), sc_.mutes.end(), muted)) channel.send(std::move(b), now);
    }
    if (from - forgot_ >= 2 * ns_per_s) {
      forgot_ = from;
      job_.forget(from - ns_per_s);
    }
  }

  // `p` leaves, unless it has left before.
  void leave(int p, Instant at) {
    if (passing_[p].at > at) passing_[p] = {p, at, 'X', true};
  }
  bool has_left(int p, Instant now) const { return passing_[p].at <= now; }
  // It waits in an operation for somebody who has left, whose connections are closed.
  bool is_cut_off(int p, Instant now) const {
    for (size_t c = 0; c < layout_.comms().size(); ++c) {
      const int rank = layout_.rank_in(static_cast<int>(c), p);
      if (rank < 0) continue;
      const auto& members = layout_.comms()[c].members;
      const auto& ops = job_.timeline(static_cast<int>(c), rank).ops;
      if (std::any_of(members.begin(), members.end(), [&](int m) { return m != p && has_left(m, now); }) &&
          std::any_of(ops.begin(), ops.end(), [&](const OpRecord& o) { return o.enter <= now && o.end > now; }))
        return true;
    }
    return false;
  }

  // Somebody waits in vain who still can say so.
  bool is_waited(Instant now) const {
    for (size_t c = 0; c < layout_.comms().size(); ++c)
      for (int r = 0; r < layout_.comms()[c].ranks(); ++r) {
        const auto& ops = job_.timeline(static_cast<int>(c), r).ops;
        if (!has_left(layout_.comms()[c].members[r], now) &&
            std::any_of(ops.begin(), ops.end(), [&](const OpRecord& o) { return o.enter <= now && o.end > now; }))
          return true;
      }
    return false;
  }

  const Job& job() const { return job_; }
  const Layout& layout() const { return layout_; }
  bool over(Instant t) const { return t > end_ + ns_per_s; }

 private:
  std::vector<Agent::SiblingState> siblings(int p, Instant now) const {
    std::vector<Agent::SiblingState> out;
    const int first = layout_.host_of(p) * layout_.sizes().gpus_per_host;
    // The heartbeat tells them, and once they are seen to have left.
    bool news = now / tick_ns % 10 == agents_[p].place().phase_ns / tick_ns;
    for (int q = first; q < first + layout_.sizes().gpus_per_host && q < layout_.processes(); ++q)
      news |= q != p && passing_[q].seen && (now - passing_[q].at) / tick_ns == seen_after_ns / tick_ns;
    if (!news) return out;
    for (int q = first; q < first + layout_.sizes().gpus_per_host && q < layout_.processes(); ++q) {
      if (q == p) continue;
      const bool left = now >= passing_[q].at && passing_[q].seen;
      out.push_back({agents_[q].place().id, left ? passing_[q].state : 'S', left ? passing_[q].at : start_,
                     left ? &agents_[q] : nullptr});
    }
    return out;
  }

  const Scenario& sc_;
  const Layout layout_;
  Job job_;
  std::vector<Agent> agents_;
  std::vector<Passing> passing_;
  std::vector<uint64_t> sequence_;
  std::vector<bool> announced_again_;  // to the service that started again
  Instant start_, end_, forgot_ = 0;
};

// How long the settings allow until a standstill is suspected, given what hangs.
Nanoseconds suspicion_ns(const Job& job, const Scenario& sc, const Settings& s, Instant now) {
  double least = -1;
  const Layout& layout = job.layout();
  for (size_t c = 0; c < layout.comms().size(); ++c)
    for (int r = 0; r < layout.comms()[c].ranks(); ++r) {
      for (const OpRecord& op : job.timeline(static_cast<int>(c), r).ops) {
        if (op.enter > now || op.end <= now) continue;
        double seconds = s.hang_suspect_s;
        if (op.op <= s.warmup_rounds) seconds = s.hang_warmup_suspect_s;
        if (op.shape->signature.count <= s.barrier_bytes_max) seconds = s.barrier_hang_suspect_s;
        if (least < 0 || seconds < least) least = seconds;
        break;
      }
    }
  if (least < 0) least = std::max(s.p2p_hang_suspect_s, s.hang_suspect_s);
  // Timeouts are learnt from pauses that ended by themselves.
  const double slow_start_s = sc.traffic.slow_iterations > 0 ? sc.iteration_s * sc.traffic.slow_start : 0;
  const double pause_s = std::max({static_cast<double>(sc.longest_wait_ns) / 1e9, slow_start_s, sc.iteration_s * 2});
  // The longest of them may take longer than this estimate.
  const double learned = 1.3 * s.hang_gap_factor * pause_s;
  return seconds_to_ns(std::max(least, std::min(learned, s.hang_confirm_s)));
}

// Ranks that name their signature of the operation in which the culprit's program differs.
void note_signatures(const Batch& b, const Job& job, const Planted& planted, std::set<int>& told) {
  const uint64_t op = job.edited_op(planted.processes[0]);
  const CommUid comm{job.layout().comms()[planted.comm].uid};
  for (const Payload& payload : b.payloads) {
    if (const auto* rounds = std::get_if<Rounds>(&payload); rounds && rounds->comm == comm) {
      for (const decision::Round& r : rounds->rounds)
        if (r.op.value == op) told.insert(rounds->rank.value);
    } else if (const auto* snapshot = std::get_if<InFlight>(&payload); snapshot && snapshot->comm == comm) {
      for (const InFlightOp& o : snapshot->operations)
        if (o.op.value == op) told.insert(snapshot->rank.value);
    }
  }
}

// A job that is over must not be said to hang anew, however long what is known of it is kept.
constexpr Nanoseconds forgotten_ns = 700 * ns_per_s;
constexpr Nanoseconds unanswered_ns = 5 * ns_per_s;

// The job is over: its processes leave, those that got an error first.
class Ends {
 public:
  Ends(const Ending& e, uint64_t seed, const Planted& planted) : e_(e), random_(seed, "leaves"), planted_(planted) {}

  // `said`: when the hang was said, or was due; -1: not yet.
  void tick(Life& life, Instant now, Instant said) {
    // Nobody sees when the only process of a host leaves.
    const bool killed = planted_.kind == FaultKind::killed && !life.layout().alone_on_host(planted_.processes[0]),
               host_down = planted_.kind == FaultKind::host_down;
    // The kernel closes the connections of a process, and nobody those of a host: its peers run into a timeout.
    const Nanoseconds error_ns = host_down ? unanswered_ns + 5 * e_.error_ns : e_.error_ns;
    if ((killed || host_down) && !errors_ && now >= planted_.at + error_ns) {
      errors_ = true;
      for (int p = 0; p < life.layout().processes(); ++p)
        if (life.is_cut_off(p, now) && random_.chance(e_.share)) leave(life, p, now);
    }
    if (said >= 0 && !ended_ && now >= said + e_.ended_ns) {
      ended_ = true;
      for (int p = 0; p < life.layout().processes(); ++p) leave(life, p, now);
      last_ = now + e_.spread_ns;
    }
  }
  // All have left by then; never: not known yet.
  Instant last() const { return last_; }

 private:
  void leave(Life& life, int p, Instant now) { life.leave(p, now + random_.range(0, e_.spread_ns)); }
  const Ending e_;
  Stream random_;
  const Planted& planted_;
  bool errors_ = false, ended_ = false;
  Instant last_ = never;
};

void apply_canary(Canary canary, Scenario& sc) {
  switch (canary) {
    case Canary::none: break;
    case Canary::suppressed:
      sc.conditions = {};
      sc.conditions.processes.resize(sc.sizes.processes());
      sc.passings.clear();
      break;
    case Canary::unrecorded: sc.planted = {}; break;
    case Canary::other_rank:
      for (int& p : sc.planted.processes) p = (p + 1) % sc.sizes.processes();
      std::swap(sc.planted.sender, sc.planted.receiver);
      if (sc.planted.sender >= 0) sc.planted.sender = (sc.planted.sender + 1) % sc.sizes.processes();
      break;
  }
}

}  // namespace

Result run_seed(uint64_t seed, const RunOptions& options) {
  Result result;
  result.scenario = draw(seed, options.wishes);
  Scenario& sc = result.scenario;
  const Planted planted = sc.planted;  // when to stop is not the judge's business
  apply_canary(options.canary, sc);
  const Settings& s = options.settings;

  decision::Workers workers(std::max<size_t>(1, options.threads));
  auto analyzer = std::make_unique<Analyzer>(s, Numbering{}, &workers);
  Channel channel(sc.disturbance, seed);
  Conditions healthy;
  healthy.processes.resize(sc.sizes.processes());
  std::unique_ptr<Life> earlier;
  if (sc.earlier_start >= 0) {
    LayoutSizes sizes = sc.sizes;
    sizes.uid_base += 0x10000000;
    earlier = std::make_unique<Life>(sc, healthy, sizes, seed + 1, sc.earlier_start, sc.earlier_end, 50);
  }
  // A mismatch cannot be known before the process has come to the iteration in which it is planted.
  if (is_h2(sc.planted.kind)) sc.planted.at = never;
  auto life = std::make_shared<Life>(sc, sc.conditions, sc.sizes, seed, sc.start, never, 100);
  const Job& job = life->job();

  std::optional<Ends> ends;
  if (sc.ending) ends.emplace(*sc.ending, seed, planted);
  Instant first_word = -1, deadline = sc.end, left_iteration = -1;
  bool sure = false;  // the newest report is no mere suspicion
  Instant now = 0;
  struct Mean {
    double sum = 0;
    int count = 0;
    double value() const { return count > 0 ? sum / count : 0; }
  };
  std::set<int> told;                              // ranks whose signature of the operation that differs has arrived
  std::map<int, std::pair<Mean, Mean>> durations;  // by shape: before and after the onset
  // What the service says before it starts again is not judged: other seeds are about that.
  const Disturbance& d = sc.disturbance;
  const Instant listens_from = d.restart_to < never ? d.restart_to : 0;
  // A service that has just started waits for who may yet speak; and of who never does it cannot tell that he fell
  // silent when the others came to rest.
  const auto due = [&](Instant last, Nanoseconds allowed) {
    if (listens_from == 0) return last + allowed + slack_ns;
    if (sc.sizes.pipeline > 1) allowed = std::max(allowed, seconds_to_ns(s.p2p_hang_suspect_s));
    // What was sent while it was away looks newer than it is.
    return std::max(last + allowed + d.restart_to - d.restart_from, listens_from + seconds_to_ns(s.silent_s)) +
           slack_ns;
  };
  bool cut = false;
  while (now < deadline) {
    if (!cut && now >= d.restart_from) {
      cut = true;
      channel.cut();
      analyzer = std::make_unique<Analyzer>(s, Numbering{}, &workers);
    }
    if (earlier && !earlier->over(now)) earlier->tick(now, channel);
    life->tick(now, channel);
    if (is_h2(sc.planted.kind) && sc.planted.at == never &&
        job.iteration_of_process(planted.processes[0]) >= sc.conditions.processes[planted.processes[0]].edit.iteration)
      sc.planted.at = now;
    now += tick_ns;
    if (is_slow(planted.kind))
      job.ended_between(planted.comm, now - 2 * tick_ns, now - tick_ns, [&](const OpShape& shape, Nanoseconds ns) {
        auto& [before, after] = durations[shape.index];
        Mean& mean = now < planted.at ? before : after;
        mean.sum += static_cast<double>(ns);
        ++mean.count;
      });
    std::vector<Batch> together;
    channel.deliver(now, [&](const Batch& b, Instant at) {
      if (options.on_batch) options.on_batch(b);
      if (is_h2(planted.kind)) note_signatures(b, job, planted, told);
      if (options.threads == 0)
        analyzer->apply(b, at);
      else
        together.push_back(b);
    });
    std::vector<const Batch*> batches;
    for (const Batch& b : together) batches.push_back(&b);
    analyzer->apply(batches, now);
    for (Incident& i : analyzer->advance(now)) {
      if (now < listens_from) continue;
      if (first_word < 0) first_word = now;
      if (options.on_report) options.on_report(i, life->layout());
      sure = i.state != VerdictState::suspected;
      result.said.reported.push_back(std::move(i));
    }
    if (ends) {
      const bool is_due = is_hang(planted.kind) && result.truth.suspect_by < never && now >= result.truth.suspect_by;
      // What differs is told before it hangs.
      const Nanoseconds hangs_ns = is_h2(planted.kind) ? seconds_to_ns(s.hang_suspect_s) + ns_per_s : 0;
      ends->tick(*life, now, first_word >= 0 ? first_word + hangs_ns : is_due ? result.truth.suspect_by : -1);
    }
    if (ends && first_word >= 0) {
      result.truth.ends = true;
      if (ends->last() < never) deadline = ends->last() + forgotten_ns;
      continue;
    }
    if (first_word >= 0) {
      const Nanoseconds more = is_slow(planted.kind) ? seconds_to_ns(1.2 * s.slow_window_s) : listen_on_ns;
      // Who is not sure yet waits for a second cause: it may be told until the fault is due.
      const Instant until = sure || !is_slow(planted.kind) ? first_word + more : std::max(first_word + more, result.truth.suspect_by);
      deadline = std::min(sc.end, until);
      continue;
    }
    const Instant planted_at = is_h2(planted.kind) ? std::min(planted.at, sc.planted.at) : planted.at;
    if (now < std::max(planted_at, listens_from) + 3 * ns_per_s || now % ns_per_s != 0) continue;
    if (is_hang(planted.kind)) {
      const Instant last = job.last_event(now);
      const Nanoseconds allowed = suspicion_ns(job, sc, s, now);
      if (now - last > ns_per_s) {
        result.truth.standstill = last;
        result.truth.suspect_by = due(last, allowed);
        deadline = std::min(sc.end, result.truth.suspect_by + ns_per_s);
      } else {
        result.truth.standstill = result.truth.suspect_by = never;
        // A job that goes on and on does so in spite of what was planted.
        deadline = std::min(sc.end, planted_at + goes_on_ns + seconds_to_ns(5 * sc.iteration_s));
      }
      // A mismatch that does not hang is due when all have told of it.
      if (is_h2(planted.kind) && left_iteration < 0 &&
          job.iteration_of_process(planted.processes[0]) > sc.conditions.processes[planted.processes[0]].edit.iteration)
        left_iteration = now;
      if (left_iteration >= 0) {
        result.truth.suspect_by = left_iteration + seconds_to_ns(s.mismatch_settle_s) + slack_ns;
        deadline = std::min(deadline, result.truth.suspect_by + ns_per_s);
      }
    } else if (is_slow(planted.kind)) {
      const double windows = static_cast<double>(s.slow_repeat) + 1.2;
      const double allowed_s = planted.from_start ? std::max(from_start_s, from_start_iterations * sc.iteration_s)
                                                  : windows * s.slow_window_s;
      result.truth.suspect_by = planted.at + seconds_to_ns(allowed_s) + slack_ns;
      deadline = std::min(sc.end, result.truth.suspect_by + ns_per_s);
    }
  }
  result.simulated = now;
  result.truth.nobody_is_left = ends && !life->is_waited(now);
  if (is_hang(planted.kind) && result.truth.standstill == never) {
    result.truth.standstill = job.last_event(now);
    if (result.truth.suspect_by == never)
      result.truth.suspect_by = due(result.truth.standstill, suspicion_ns(job, sc, s, now));
  }
  for (const auto& [shape, d] : durations)
    if (d.first.count > 0) result.truth.slowdown = std::max(result.truth.slowdown, d.second.value() / d.first.value());
  if (is_h2(planted.kind) && job.edited_op(planted.processes[0]) != 0) {
    const bool by_culprit = told.contains(job.layout().rank_in(planted.comm, planted.processes[0]));
    result.truth.untold = !by_culprit || told.size() < 2;
    result.truth.tied = by_culprit && told.size() == 2;
  }
  result.status = analyzer->status(now);
  result.said.last = analyzer->incidents();
  result.truth.planted = &sc.planted;
  result.truth.job = &job;
  result.judgement = judge(result.truth, result.said);
  result.truth.planted = nullptr;  // the result outlives the job
  result.truth.job = nullptr;
  return result;
}

}  // namespace ccld::sim
