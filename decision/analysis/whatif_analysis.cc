#include "decision/analysis/whatif_analysis.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "decision/analysis/whatif_findings.h"
#include "decision/locate/busy_host.h"

namespace ccld::decision {
namespace {

using whatif::Cause;

// A window is prolonged by no more; then what there is must do.
constexpr int prolonged_max = 12;
constexpr Nanoseconds forget_after_ns = 120 * ns_per_s;

bool is_late(const Cause& c) { return c.kind == Cause::Kind::gpu || c.kind == Cause::Kind::host; }

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
  return age >= prolonged_max * length || job.timeline.kernels_of_most() >= settings_.whatif_kernels_min;
}

void WhatIfAnalysis::forget(Nanoseconds now_ns) {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    Job& job = it->second;
    const bool over = now_ns - job.heard_ns >= forget_after_ns;
    if (over)
      for (const Open& o : job.open) writer_.book().resolve(o.incident, now_ns);
    it = over ? jobs_.erase(it) : std::next(it);
  }
}

bool WhatIfAnalysis::blames(const ProcessModel* process) const {
  for (const auto& [name, job] : jobs_)
    for (const Open& o : job.open)
      if (std::find(o.processes.begin(), o.processes.end(), process) != o.processes.end()) return true;
  return false;
}

// False: some GPU of the job is not known, or no more.
bool WhatIfAnalysis::facts_of(const whatif::Timeline& t, Nanoseconds now_ns, std::vector<whatif::HostClock>& clocks,
                              std::vector<whatif::GpuFacts>& facts) const {
  clocks.resize(t.gpus().size());
  facts.resize(t.gpus().size());
  if (t.left_out() > 0) return false;
  std::map<std::string, int> hosts, machines;
  std::map<const ProcessModel*, int> processes;
  for (size_t g = 0; g < t.gpus().size(); ++g) {
    const whatif::Gpu& gpu = t.gpus()[g];
    if (gpu.kernels.empty()) continue;
    const auto watch = watches_.find(gpu.kernels.front().comm);
    const RankModel* r = watch == watches_.end() ? nullptr : watch->second->comm.rank(gpu.kernels.front().rank);
    if (!r || !r->process) return false;
    facts[g].host = hosts.emplace(r->host, static_cast<int>(hosts.size())).first->second;
    facts[g].process = processes.emplace(r->process, static_cast<int>(processes.size())).first->second;
    facts[g].machine = machines.emplace(r->process->id.boot_id, static_cast<int>(machines.size())).first->second;
    if (gpu.proxy_samples > 0)
      facts[g].proxy_age_ms = static_cast<double>(gpu.proxy_age_ms) / static_cast<double>(gpu.proxy_samples);
    if (gpu.launch_least_ns == INT64_MAX) continue;
    const Nanoseconds host_to_service =
        r->process->clock.to_local(static_cast<uint64_t>(now_ns), std::numeric_limits<Nanoseconds>::max()) - now_ns;
    clocks[g] = {true, static_cast<double>(host_to_service - gpu.launch_least_ns)};
  }
  return true;
}

void WhatIfAnalysis::judge(const std::string& name, Job& job, Nanoseconds now_ns) {
  const whatif::Timeline& t = job.timeline;
  std::vector<whatif::HostClock> clocks;
  std::vector<whatif::GpuFacts> facts;
  if (facts_of(t, now_ns, clocks, facts)) {
    const whatif::Matches matches = whatif::match_kernels(t);
    const auto graph = whatif::build_graph(t, matches, whatif::compare_clocks(t, matches, clocks));
    if (graph) explain(name, job, *graph, facts, now_ns);
  }
  job.timeline.clear(now_ns - job.started_ns);
  job.started_ns = now_ns;
}

void WhatIfAnalysis::explain(const std::string& name, Job& job, const whatif::Graph& graph,
                             const std::vector<whatif::GpuFacts>& facts, Nanoseconds now_ns) {
  std::vector<whatif::SlowCollectives> collectives;
  std::vector<whatif::LossOfGroups> losses;
  std::vector<CommUid> comms;
  for (const std::vector<int>& group : graph.groups)
    comms.push_back(graph.nodes[static_cast<size_t>(group.front())].kernel->comm);
  std::sort(comms.begin(), comms.end());
  comms.erase(std::unique(comms.begin(), comms.end()), comms.end());
  for (CommUid uid : comms)
    if (const auto w = watches_.find(uid); w != watches_.end())
      if (auto slow = whatif::slow_collectives(w->second->comm, graph, job.timeline, settings_)) {
        losses.push_back({slow->groups, slow->lost_part});
        collectives.push_back(*std::move(slow));
      }
  const whatif::Explanation explanation = whatif::explain(graph, job.timeline, facts, losses, settings_);
  const WhatIfLook look{watches_, graph, collectives, explanation};

  std::map<std::string, Seen> seen;
  std::vector<std::string> keys;
  for (const Cause& c : explanation.causes) {
    keys.push_back(key_of(c, look));
    if (seen.contains(keys.back())) continue;
    Seen s;
    if (const auto before = job.seen.find(keys.back()); before != job.seen.end()) s = before->second;
    if (s.streak++ == 0) s.since_ns = job.started_ns;
    if (is_late(c)) s.late_ns += c.gain_ns, s.host_ns += c.kind == Cause::Kind::host ? c.gain_ns : 0;
    seen.emplace(keys.back(), s);
  }
  // A window without it is one step back: on a busy machine some look different.
  for (const auto& [key, before] : job.seen)
    if (before.streak > 1 && seen.try_emplace(key, before).second) --seen[key].streak;
  std::set<std::string> now(keys.begin(), keys.end());
  job.seen = std::move(seen);
  std::erase_if(job.open, [&](Open& o) {
    const bool goes_on =
        std::any_of(o.causes.begin(), o.causes.end(), [&](const auto& key) { return now.contains(key); });
    o.clean = goes_on ? 0 : o.clean + 1;
    if (o.clean < 2 * settings_.slow_clean_windows) return false;
    writer_.book().resolve(o.incident, now_ns);
    return true;
  });
  std::vector<uint64_t> own{iterations_.incident(name)};
  for (const Open& o : job.open) own.push_back(o.incident);
  report(job, look, keys, writer_.book().any_open(name, own), now_ns);
}

// The largest first; one incident for all that one communicator can tell.
void WhatIfAnalysis::report(Job& job, const WhatIfLook& look, const std::vector<std::string>& keys, bool explained,
                            Nanoseconds now_ns) {
  const uint64_t enough = settings_.slow_repeat + 1;
  const std::vector<Cause>& causes = look.explanation.causes;
  std::vector<size_t> sure;
  double gains_ns = 0;
  for (size_t i = 0; i < causes.size(); ++i)
    if (job.seen[keys[i]].streak >= enough) sure.push_back(i), gains_ns += causes[i].gain_ns;
  while (!sure.empty()) {
    const auto watch = watches_.find(told_by(causes[sure.front()], look));
    if (watch == watches_.end()) return;
    const Communicator& comm = watch->second->comm;
    Finding f;
    Open told;
    told.comm = comm.uid();
    uint64_t streak = UINT64_MAX;
    Nanoseconds since_ns = now_ns;
    std::erase_if(sure, [&](size_t i) {
      const Seen& s = job.seen[keys[i]];
      const double host_part = s.late_ns > 0 ? s.host_ns / s.late_ns : 0;
      if (!add_culprits(causes[i], look, comm, host_part, causes[i].gain_ns / gains_ns, f)) return false;
      told.causes.push_back(keys[i]);
      streak = std::min(streak, s.streak);
      since_ns = std::min(since_ns, s.since_ns);
      return true;
    });
    if (told.causes.empty()) return;
    for (const Culprit& c : f.culprits)
      for (const Rank r : {c.rank, c.peer.value_or(c.rank)})
        if (const RankModel* m = comm.rank(r)) told.processes.push_back(m->process);
    const auto view = iterations_.view(comm.job());
    describe(look, comm, view ? view->now_ns : 0, f);
    const double lost_ns = look.explanation.length_ns - look.explanation.length_without_ns;
    std::optional<Finding> weighed = weigh_processors(comm, std::move(f), lost_ns, {job.started_ns, now_ns}, settings_);
    if (!weighed) continue;
    f = *std::move(weighed);
    if (since_ns <= job.first_ns)
      add_evidence(f, -1, "it was so from the start on, for", static_cast<double>(now_ns - since_ns) / 1e9, "s");

    const auto known = std::find_if(job.open.begin(), job.open.end(), [&](const Open& o) {
      return std::any_of(told.causes.begin(), told.causes.end(), [&](const std::string& key) {
        return std::find(o.causes.begin(), o.causes.end(), key) != o.causes.end();
      });
    });
    if (known == job.open.end()) {
      if (explained) continue;
      // That the iterations got longer was known: now it is known why.
      told.incident = iterations_.explain(*watch->second);
      if (told.incident != 0)
        writer_.update(told.incident, comm, f, now_ns);
      else
        told.incident = writer_.open(comm, f, since_ns, now_ns);
      job.open.push_back(std::move(told));
      continue;
    }
    if (known->comm == comm.uid()) {
      known->causes = std::move(told.causes);
      known->processes = std::move(told.processes);
      writer_.update(known->incident, comm, f, now_ns);
    }
    if (streak > enough && !std::exchange(known->confirmed, true)) writer_.book().confirm(known->incident, now_ns);
  }
}

}  // namespace ccld::decision
