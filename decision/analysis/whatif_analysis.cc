#include "decision/analysis/whatif_analysis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "decision/analysis/whatif_suspects.h"
#include "decision/locate/busy_host.h"
#include "decision/whatif/passages.h"
#include "decision/whatif/processors.h"

namespace ccld::decision {
namespace {

using whatif::Cause;

// A part of a large job is looked at for so many windows if nothing is seen there.
constexpr int fruitless_max = 2;
// Fewer GPUs cannot tell which of them is slow. Of very many large jobs not all have room at a time.
constexpr size_t least_share = 8;
constexpr Nanoseconds forget_after_ns = 120 * ns_per_s;
// How long a thread waits for a processor is read once a second and told with the next message.
constexpr Nanoseconds told_late_ns = 2 * ns_per_s;

}  // namespace

WhatIfAnalysis::Job& WhatIfAnalysis::job(const std::string& name, Nanoseconds now_ns) {
  auto it = jobs_.find(name);
  if (it == jobs_.end()) {
    it = jobs_.emplace(name, Job(settings_, gpus_)).first;
    it->second.started_ns = it->second.first_ns = now_ns;
  }
  it->second.heard_ns = now_ns;
  return it->second;
}

bool WhatIfAnalysis::is_due(const Job& job, Nanoseconds now_ns) const {
  const Nanoseconds length = std::max<Nanoseconds>(1, seconds_to_ns(settings_.slow_window_s) / 2),
                    age = now_ns - job.started_ns;
  // As the windows of communicators end: at the same instants everywhere.
  if (now_ns / length == job.started_ns / length || age < length / 2) return false;
  // Nothing more is added: look at a part of the job, or at another.
  if (job.timeline.left_out() > 0 || job.timeline.looks_at_ended()) return true;
  const size_t kernels = job.timeline.kernels_of_most();
  // What is slow in a part of an iteration shows in every window that is as long as one.
  const Nanoseconds longest = static_cast<Nanoseconds>(settings_.whatif_prolonged_max) * length,
                    least =
                        std::min(std::max(static_cast<Nanoseconds>(job.halves) * length, job.iteration_ns), longest);
  if (age < least - length / 2 && kernels < job.timeline.kernels_of_gpu_max()) return false;
  return kernels >= settings_.whatif_kernels_min || age >= longest ||
         (age >= 2 * length && kernels >= settings_.slow_rounds_min);
}

void WhatIfAnalysis::forget(Nanoseconds now_ns) {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    Job& job = it->second;
    const bool over = now_ns - job.heard_ns >= forget_after_ns;
    if (over)
      for (const Open& o : job.open) writer_.book().end(o.incident, now_ns);
    it = over ? jobs_.erase(it) : std::next(it);
  }
}

namespace {

std::optional<double> proxy_away_part(const ProcessModel& process, const TimeWindow& w) {
  const auto away_ns = process.proxies_away.between(w.from_ns, w.to_ns);
  if (!away_ns) return std::nullopt;
  return static_cast<double>((*away_ns)[0]) / static_cast<double>(w.to_ns - w.from_ns);
}

void add_late(const whatif::Beyond::OfGpu& of, whatif::Late& late) {
  if (of.by_host()) {
    late.who = std::max(late.who, whatif::Late::hosts);
    return;
  }
  const double usual_ns = of.own_ns - of.sum_ns, times = usual_ns > 0 ? of.own_ns / usual_ns : INFINITY;
  late.gpu_times = late.who == whatif::Late::gpus ? std::max(late.gpu_times, times) : times;
  late.who = whatif::Late::gpus;
}

}  // namespace

// False: some GPU of the job is not known, or no more.
bool WhatIfAnalysis::facts_of(const whatif::Timeline& t, Nanoseconds since_ns, Nanoseconds now_ns,
                              MachineClocks& machines, std::vector<whatif::HostClock>& clocks,
                              std::vector<whatif::GpuFacts>& facts) const {
  clocks.resize(t.gpus().size());
  facts.resize(t.gpus().size());
  if (t.left_out() > 0) return false;
  std::map<std::string, int> hosts;
  std::map<const ProcessModel*, int> processes;
  std::map<int, double> batches_after_ns;  // by machine
  for (size_t g = 0; g < t.gpus().size(); ++g) {
    const whatif::Gpu& gpu = t.gpus()[g];
    if (gpu.kernels.empty()) continue;
    const whatif::Kernel& newest = gpu.kernels.back();
    const auto watch = watches_.find(newest.comm);
    const RankModel* r = watch == watches_.end() ? nullptr : watch->second->comm.rank(newest.rank);
    if (!r || !r->process) return false;
    facts[g].host = hosts.emplace(r->host, static_cast<int>(hosts.size())).first->second;
    facts[g].process = processes.emplace(r->process, static_cast<int>(processes.size())).first->second;
    facts[g].machine = machines.number_of(r->process->id.boot_id);
    facts[g].proxy_away_part = proxy_away_part(*r->process, {since_ns, now_ns});
    if (const auto wait_ns = r->process->turns.longest_wait_ns(since_ns - told_late_ns, now_ns))
      facts[g].turn_wait_ns = static_cast<double>(*wait_ns);
    const Nanoseconds host_to_service =
        r->process->clock.to_local(static_cast<uint64_t>(now_ns), std::numeric_limits<Nanoseconds>::max()) - now_ns;
    if (const auto ahead_ns = r->process->host->realtime_less_monotonic_ns) {
      const double after_ns = static_cast<double>(host_to_service - *ahead_ns);
      const auto [known, first] = batches_after_ns.emplace(facts[g].machine, after_ns);
      if (!first) known->second = std::min(known->second, after_ns);
    }
    if (gpu.launch_least_ns == INT64_MAX) continue;
    clocks[g] = {true, static_cast<double>(host_to_service - gpu.launch_least_ns), facts[g].machine};
  }
  machines.batches_arrive(std::move(batches_after_ns));
  return true;
}

void WhatIfAnalysis::judge(const std::string& name, Job& job, Nanoseconds now_ns) {
  const whatif::Timeline& t = job.timeline;
  std::vector<whatif::HostClock> clocks;
  std::vector<whatif::GpuFacts> facts;
  const whatif::Matches matches = whatif::match_kernels(t);
  if (facts_of(t, job.started_ns, now_ns, job.machine_clocks, clocks, facts)) {
    whatif::Clocks compared = whatif::compare_clocks(t, matches, clocks, settings_);
    auto graph = whatif::build_graph(t, matches, compared, settings_);
    job.timeline.remember(std::move(compared.pairs));
    if (graph) graph->turn_wait_ns = whatif::common_turn_wait_ns(facts);
    if (graph) explain(name, job, *graph, facts, now_ns);
  }
  if (t.left_out() > 0) make_room(job);
  if (t.looks_at_ended()) job.fruitless = fruitless_max;
  job.timeline.clear(now_ns - job.started_ns, matches.open_ends);
  job.started_ns = now_ns;
  const auto iteration = iterations_.view(name);
  job.iteration_ns = iteration ? std::llround(iteration->now_ns) : 0;
  if (job.large) look_elsewhere(name, job);
}

// This job has more GPUs than are looked at, or other jobs have taken them: from now on no job has more than its share.
void WhatIfAnalysis::make_room(Job& job) {
  job.large = true;
  const size_t share = settings_.whatif_gpus_max / jobs_.size();
  for (auto& [name, other] : jobs_) other.large |= other.timeline.gpus().size() > share;
}

// What jobs that are looked at as a whole leave, in equal parts.
size_t WhatIfAnalysis::share_of_large() const {
  size_t large = 0, others = 0;
  for (const auto& [name, job] : jobs_) job.large ? ++large : others += job.timeline.gpus().size();
  return (settings_.whatif_gpus_max - std::min<size_t>(others, settings_.whatif_gpus_max)) / std::max<size_t>(large, 1);
}

// Where something was seen it stays; elsewhere two windows are enough to see it.
void WhatIfAnalysis::look_elsewhere(const std::string& name, Job& job) {
  if (job.fruitless < fruitless_max) job.fruitless = job.seen.empty() && job.open.empty() ? job.fruitless + 1 : 0;
  const size_t share = std::max(share_of_large(), least_share);
  if (job.timeline.looks_at_all() || job.fruitless >= fruitless_max || job.timeline.gpus().size() > share) {
    job.fruitless = 0;
    job.timeline.look_at(job.focus.choose(watches_, name, share));
  }
}

void WhatIfAnalysis::explain(const std::string& name, Job& job, const whatif::Graph& graph,
                             const std::vector<whatif::GpuFacts>& facts, Nanoseconds now_ns) {
  const whatif::Lateness lateness = whatif::find_late(graph, job.timeline, job.past, settings_);
  const std::vector<whatif::SlowCollectives> collectives = find_slow_collectives(job, graph, lateness);
  const whatif::Explanation explanation = whatif::explain(
      graph, job.timeline, job.past, lateness, facts,
      whatif::passages_of_transfers(graph, job.timeline, facts, job.machine_clocks), collectives, settings_);
  job.past.learn(graph, job.timeline, lateness.kinds, lateness.late, explanation.transfer_less_ns, lateness.seldom);
  count(name, job, {watches_, graph, collectives, explanation}, now_ns);
}

std::vector<whatif::SlowCollectives> WhatIfAnalysis::find_slow_collectives(Job& job, const whatif::Graph& graph,
                                                                           const whatif::Lateness& lateness) const {
  std::vector<whatif::SlowCollectives> found;
  for (const auto& [uid, groups] : whatif::groups_by_communicator(graph)) {
    const auto watch = watches_.find(uid);
    if (watch == watches_.end()) continue;
    const Communicator& comm = watch->second->comm;
    const auto rounds = whatif::rounds_of(comm, groups, graph, job.timeline, lateness.kinds, job.machine_clocks);
    whatif::Late late;
    for (int member : whatif::at(graph.groups, groups.front())) {
      const int gpu = whatif::at(graph.nodes, member).gpu;
      const RankModel* const r = comm.rank(whatif::at(graph.nodes, member).kernel->rank);
      if (r && r->process)
        late.sampled_every_ns = std::max(late.sampled_every_ns, 1e3 * r->process->sampled_every_us);
      if (whatif::at(lateness.late, gpu)) add_late(whatif::at(lateness.beyond.gpus, gpu), late);
    }
    auto slow = whatif::slow_collectives(comm, rounds, late, graph.turn_wait_ns, job.step_past, settings_);
    if (!slow) continue;
    whatif::add_incomplete(*slow, graph, lateness.kinds);
    found.push_back(*std::move(slow));
  }
  job.step_past.end_window();
  return found;
}

// In how many windows each suspect was seen, and what that says of open incidents.
void WhatIfAnalysis::count(const std::string& name, Job& job, const WhatIfLook& look, Nanoseconds now_ns) {
  std::vector<Suspect> suspects = put_together(look);
  // While a job starts, connections are made and hosts are busy: what is seen of the network, and what the past tells,
  // must show once more afterwards.
  const bool starts = now_ns - job.first_ns < static_cast<Nanoseconds>(settings_.whatif_starting_windows) *
                                                  seconds_to_ns(settings_.slow_window_s);
  // Likewise what too few transfers say: one of them may have met anything, and makes a whole window slow.
  const uint64_t transfers_min = settings_.slow_rounds_min * (settings_.slow_repeat + 1);
  const auto waits = [&](const Suspect& suspect, const Seen& s) {
    const Cause& c = look.explanation.causes[suspect.causes.front()];
    return (starts && (!is_late(c) || c.peers == 0)) || (!c.transfers.empty() && s.transfers < transfers_min);
  };
  // A window that was prolonged counts as many.
  const Nanoseconds half_ns = std::max<Nanoseconds>(1, seconds_to_ns(settings_.slow_window_s) / 2);
  const auto halves =
      static_cast<uint64_t>(std::clamp<Nanoseconds>((now_ns - job.started_ns + half_ns / 2) / half_ns, 1, 2));
  std::map<std::string, Seen> seen;
  std::set<std::string> now;
  bool came_back = false;
  for (const Suspect& suspect : suspects) {
    Seen s = seen_of(job, suspect);
    came_back |= std::exchange(s.missed, false);
    if (s.windows == 0) s.since_ns = job.started_ns;
    // It counts twice only if it has seen two slow transfers; other causes have none.
    s.streak += suspect.slow_transfers > 0 ? std::min(halves, suspect.slow_transfers) : halves;
    for (size_t cause : suspect.causes) s.transfers += look.explanation.causes[cause].transfers.size();
    if (waits(suspect, s)) s.streak = std::min(s.streak, settings_.slow_repeat);
    ++s.windows;
    s.late_ns += suspect.gain_ns, s.host_ns += suspect.host_gain_ns;
    s.comms = suspect.comms;
    for (const std::string& key : suspect.keys) seen[key] = s, now.insert(key);
  }
  // A window without it is one step back: on a busy machine some look different.
  std::set<CommUid> here;
  for (const whatif::Node& n : look.graph.nodes)
    if (n.is_of_window) here.insert(n.kernel->comm);
  for (const auto& [key, before] : job.seen) {
    if (before.streak == 0) continue;
    const auto [it, missed] = seen.try_emplace(key, before);
    if (missed && may_show(before.comms, here)) --it->second.streak, it->second.missed = true;
  }
  job.seen = std::move(seen);
  if (came_back)
    job.halves = std::min(2 * job.halves, settings_.whatif_halves_max);
  else if (job.seen.empty())
    job.halves = 1;
  iterations_.suspect(name, !now.empty());
  std::erase_if(job.open, [&](Open& o) {
    const bool goes_on = std::any_of(now.begin(), now.end(), [&](const std::string& key) { return o.has(key); });
    if (!goes_on && !may_show(o.comms, here)) return false;
    ++o.windows;
    o.with += goes_on;
    if (goes_on)
      o.clean = 0;
    else if (o.clean++ == 0)
      o.clean_since_ns = job.started_ns;
    if (!is_over(o, now_ns)) return false;
    writer_.book().resolve(o.incident, now_ns);
    return true;
  });
  std::vector<uint64_t> own{iterations_.incident(name)};
  for (const Open& o : job.open) own.push_back(o.incident);
  report(job, look, suspects, writer_.book().any_open(name, own), now_ns);
}

// A window may be shorter than an iteration, and training pauses: without an operation that a cause slows it is no
// evidence of its end.
bool WhatIfAnalysis::may_show(const std::set<CommUid>& comms, const std::set<CommUid>& here) const {
  return std::none_of(comms.begin(), comms.end(), [&](CommUid c) { return watches_.contains(c); }) ||
         std::any_of(comms.begin(), comms.end(), [&](CommUid c) { return here.contains(c); });
}

// What is caught now and then only (waits are sampled) is not over because it was not caught once more. But it was
// reported because it showed in more than half of the windows. That no window of a few has missed it does not say that
// none will (rule of succession).
bool WhatIfAnalysis::is_over(const Open& o, Nanoseconds now_ns) const {
  const double clean_s = settings_.slow_window_s * static_cast<double>(settings_.slow_clean_windows);
  if (o.clean < settings_.slow_clean_windows || now_ns - o.clean_since_ns < seconds_to_ns(clean_s)) return false;
  const auto before = static_cast<double>(o.windows - o.clean), without = before - static_cast<double>(o.with);
  const double missed = std::min(0.5, (without + 1) / (before + 2));
  return std::pow(missed, static_cast<double>(o.clean)) <= settings_.slow_clean_chance_max;
}

WhatIfAnalysis::Seen WhatIfAnalysis::seen_of(const Job& job, const Suspect& suspect) {
  Seen most;
  for (const std::string& key : suspect.keys)
    if (const auto it = job.seen.find(key); it != job.seen.end() && it->second.streak >= most.streak) most = it->second;
  return most;
}

// By the first of its causes that the communicator knows.
bool WhatIfAnalysis::tell(const WhatIfLook& look, const Suspect& suspect, const Communicator& comm, double host_part,
                          double share, Finding& f) {
  return std::any_of(suspect.causes.begin(), suspect.causes.end(), [&](size_t cause) {
    return add_culprits(look.explanation.causes[cause], look, comm, host_part, share, f);
  });
}

// The communicator that can tell most of them; of several the one that told them before.
const Communicator* WhatIfAnalysis::teller(const Job& job, const WhatIfLook& look,
                                           const std::vector<const Suspect*>& sure) const {
  std::vector<CommUid> comms;
  for (const Open& o : job.open) comms.push_back(o.comm);
  for (const Suspect* s : sure)
    for (size_t cause : s->causes) comms.push_back(told_by(look.explanation.causes[cause], look));
  const Communicator* best = nullptr;
  std::pair<std::ptrdiff_t, std::ptrdiff_t> most;  // suspects, and those of which it knows what they are
  for (CommUid uid : comms) {
    const auto watch = watches_.find(uid);
    if (watch == watches_.end()) continue;
    const Communicator& comm = watch->second->comm;
    Finding f;
    const auto told =
        std::count_if(sure.begin(), sure.end(), [&](const Suspect* s) { return tell(look, *s, comm, 0, 1, f); });
    const auto exactly = std::count_if(sure.begin(), sure.end(), [&](const Suspect* s) {
      return add_culprits(look.explanation.causes[s->causes.front()], look, comm, 0, 1, f);
    });
    if (std::pair(told, exactly) > most) most = {told, exactly}, best = &comm;
  }
  return best;
}

// One incident for all that one communicator can tell.
void WhatIfAnalysis::report(Job& job, const WhatIfLook& look, const std::vector<Suspect>& suspects, bool explained,
                            Nanoseconds now_ns) {
  const uint64_t enough = settings_.slow_repeat + 1;
  std::vector<const Suspect*> sure;
  double gains_ns = 0;
  for (const Suspect& s : suspects)
    if (const Seen seen = seen_of(job, s); seen.streak >= enough && seen.windows > 1)
      sure.push_back(&s), gains_ns += s.gain_ns;
  // What is seen and not sure yet may be a second cause: an incident is confirmed when it names all of them, or when
  // there was time to become sure.
  const uint64_t confirmed_after = sure.size() < suspects.size() ? 2 * enough : enough;
  while (!sure.empty()) {
    const Communicator* const comm = teller(job, look, sure);
    if (!comm) return;
    Finding f;
    Open told;
    told.comm = comm->uid();
    uint64_t streak = UINT64_MAX;
    Nanoseconds since_ns = now_ns;
    bool late = false, network = false, proxies_came_by = true;
    told.links = true;
    std::erase_if(sure, [&](const Suspect* suspect) {
      const Seen s = seen_of(job, *suspect);
      const double host_part = s.late_ns > 0 ? s.host_ns / s.late_ns : 0;
      if (!tell(look, *suspect, *comm, host_part, suspect->gain_ns / gains_ns, f)) return false;
      told.causes.push_back(suspect->keys);
      told.hosts.insert(suspect->hosts.begin(), suspect->hosts.end());
      told.comms.insert(suspect->comms.begin(), suspect->comms.end());
      told.links &= suspect->is_link;
      (is_late(look.explanation.causes[suspect->causes.front()]) ? late : network) = true;
      for (size_t i : suspect->causes) {
        const whatif::Cause& cause = look.explanation.causes[i];
        proxies_came_by &= is_late(cause) || cause.proxies_came_by;
      }
      streak = std::min(streak, s.streak);
      since_ns = std::min(since_ns, s.since_ns);
      return true;
    });
    if (told.causes.empty()) return;
    describe(look, *comm, late, network, f);
    const double lost_ns = look.explanation.length_ns - look.explanation.length_without_ns;
    const bool compared = std::none_of(look.collectives.begin(), look.collectives.end(),
                                       [&](const auto& s) { return s.comm == comm && s.by_past; }) &&
                          (f.signature.function != abi::Function::send || proxies_came_by);
    // Waits are sampled: over two windows they are known better than over half of one.
    const Nanoseconds from_ns =
        std::min(job.started_ns,
                 std::max(since_ns, now_ns - static_cast<Nanoseconds>(2 * seconds_to_ns(settings_.slow_window_s))));
    const double times = static_cast<double>(now_ns - from_ns) / static_cast<double>(now_ns - job.started_ns);
    std::optional<Finding> weighed =
        network && !late && proxies_came_by
            ? std::move(f)
            : weigh_processors(*comm, std::move(f), times * lost_ns, {from_ns, now_ns}, settings_, compared);
    if (!weighed) continue;
    f = *std::move(weighed);
    const auto view = iterations_.view(comm->job());
    weigh(look.explanation, view ? view->now_ns : 0, gains_ns, f);
    if (since_ns <= job.first_ns)
      add_evidence(f, {.kind = EvidenceKind::since_start, .value = static_cast<double>(now_ns - since_ns) / 1e9});

    auto known = std::find_if(job.open.begin(), job.open.end(), [&](const Open& o) {
      return std::any_of(told.causes.begin(), told.causes.end(), [&](const auto& keys) {
        return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return o.has(key); });
      });
    });
    const bool is_new = known == job.open.end();
    if (is_new) {
      if (explained || std::any_of(job.open.begin(), job.open.end(), [&](const Open& o) { return o.may_be(told); }))
        continue;
      // What is seen in the place of something that is not confirmed is what that was about.
      known = std::find_if(job.open.begin(), job.open.end(), [](const Open& o) { return !o.confirmed && o.clean > 0; });
    }
    if (known == job.open.end()) {
      // That the iterations got longer was known: now it is known why.
      told.incident = iterations_.explain(*watches_.at(comm->uid()));
      if (told.incident != 0)
        writer_.update(told.incident, *comm, f, now_ns);
      else
        told.incident = writer_.open(*comm, f, since_ns, now_ns);
      job.open.push_back(std::move(told));
      continue;
    }
    // A cause that this window does not show may come back: then it is the second one.
    std::vector<std::set<std::string>> may_come_back;
    for (const auto& keys : known->causes)
      if (std::none_of(keys.begin(), keys.end(), [&](const std::string& key) { return told.has(key); }) &&
          std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return job.seen.contains(key); }))
        may_come_back.push_back(keys);
    if (is_new || may_come_back.empty()) {
      known->comm = comm->uid();
      known->causes = std::move(told.causes), known->hosts = std::move(told.hosts);
      known->comms = std::move(told.comms);
      known->links = told.links;
      known->causes.insert(known->causes.end(), may_come_back.begin(), may_come_back.end());
      writer_.update(known->incident, *comm, f, now_ns);
    }
    if (streak > confirmed_after && !std::exchange(known->confirmed, true))
      writer_.book().confirm(known->incident, now_ns);
  }
}

}  // namespace ccld::decision
