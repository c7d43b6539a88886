#include "decision/analysis/iterations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/analysis/slow_confidence.h"

namespace ccld::decision {
namespace {

constexpr Nanoseconds look_every_ns = ns_per_s;
constexpr size_t like_each_other_max = 8;  // witnesses with the same number of ranks
constexpr int accept_after = 20;           // times lasting_s(): then it is the usual one
constexpr double part_of_both = 0.3;       // of the rise, so that computation or communication is a cause of it

std::string span(double ns) {
  return ns >= 1e9 ? absl::StrFormat("%.2f s", ns / 1e9) : absl::StrFormat("%.3g ms", ns / 1e6);
}

}  // namespace

void IterationAnalysis::add(Watch& w, const RoundEntry& e, Nanoseconds now_ns) {
  if (const Signature* s = e.signature()) w.mix.add(*s);
  if (!w.iterations) {
    if (w.no_witness || w.comm.rank_count() < 2 || settings_.iteration_witnesses_max == 0) return;
    Job& job = jobs_[w.comm.job()];
    size_t& alike = job.shapes[w.comm.rank_count()];
    w.no_witness = job.witnesses.size() >= settings_.iteration_witnesses_max || alike >= like_each_other_max;
    if (w.no_witness) return;
    ++alike;
    job.witnesses.push_back(&w);
    w.iterations = std::make_unique<IterationTimes>(settings_);
  }
  w.iterations->add(e, now_ns);
}

void IterationAnalysis::suspect(const std::string& job, bool suspected) {
  if (const auto it = jobs_.find(job); it != jobs_.end()) it->second.suspected = suspected;
}

void IterationAnalysis::drop(Watch& w, Nanoseconds now_ns) {
  const auto it = jobs_.find(w.comm.job());
  if (it == jobs_.end() || !w.iterations) return;
  Job& job = it->second;
  std::erase(job.witnesses, &w);
  if (const auto shape = job.shapes.find(w.comm.rank_count()); shape != job.shapes.end() && --shape->second == 0) job.shapes.erase(shape);
  if (!job.witnesses.empty()) return;
  writer_.book().end(job.incident, now_ns);
  jobs_.erase(it);
}

uint64_t IterationAnalysis::explain(const Watch& w) {
  const auto it = jobs_.find(w.comm.job());
  if (it == jobs_.end()) return 0;
  it->second.explained = true;
  const Incident* i = writer_.book().find(it->second.incident);
  // One that already names somebody may be about something else.
  if (!i || !is_open(i->state) || !i->culprits.empty()) return 0;
  return std::exchange(it->second.incident, 0);
}

std::optional<IterationAnalysis::View> IterationAnalysis::view(const std::string& job) const {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return std::nullopt;
  std::optional<View> longest;
  for (const Watch* w : it->second.witnesses) {
    if (w->iterations->samples() < settings_.iteration_verify_min) continue;
    const IterationLevel usual = w->iterations->usual();
    const View seen{usual.samples < settings_.iteration_verify_min ? 0 : usual.time_ns, w->iterations->now().time_ns};
    if (!longest || seen.now_ns > longest->now_ns) longest = seen;
  }
  return longest;
}

const IterationTimes* IterationAnalysis::witness_like(const Watch& w) const {
  if (w.iterations) return w.iterations.get();
  const auto it = jobs_.find(w.comm.job());
  if (it == jobs_.end()) return nullptr;
  for (const Watch* other : it->second.witnesses)
    if (other->comm.rank_count() == w.comm.rank_count() && other->mix.rounds.size() == w.mix.rounds.size() &&
        std::equal(w.mix.rounds.begin(), w.mix.rounds.end(), other->mix.rounds.begin(),
                   [](uint32_t a, uint32_t b) { return (a == 0) == (b == 0); }))
      return other->iterations.get();
  return nullptr;
}

uint64_t IterationAnalysis::incident(const std::string& job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? 0 : it->second.incident;
}

bool IterationAnalysis::explained_elsewhere(const std::string& job) const {
  if (writer_.book().any_slow_open(job, incident(job))) return true;
  return std::any_of(watches_.begin(), watches_.end(), [&](const auto& entry) {
    const Watch& w = *entry.second;
    return w.comm.job() == job && (w.hang.incident != 0 || w.hang.stuck);
  });
}

Finding IterationAnalysis::describe(const Job& job, const Watch& leading, const IterationChange& c) const {
  Finding f;
  const double rise_ns = c.after.time_ns - c.before.time_ns;
  f.op = c.since;
  f.title = absl::StrCat("iteration time rose from ", span(c.before.time_ns), " to ", span(c.after.time_ns), " since operation ", c.since.value);
  f.gain = {static_cast<Nanoseconds>(c.after.time_ns), static_cast<Nanoseconds>(c.before.time_ns), true};
  // Whose communication grew, for one iteration of the leading communicator.
  double most_ns = 0;
  const Watch* grown = nullptr;
  for (const Watch* w : job.witnesses) {
    const std::optional<IterationChange> own = w->iterations->risen(looked_ns_);
    if (!own || own->before.time_ns <= 0) continue;
    const double ns = (own->after.communication_ns - own->before.communication_ns) * c.before.time_ns / own->before.time_ns;
    if (ns > most_ns) most_ns = ns, grown = w;
  }
  const double part = std::clamp(most_ns / rise_ns, 0.0, 1.0);
  if (grown)
    add_evidence(f, {.kind = EvidenceKind::rise_in_operations,
                     .subject = grown->comm.name().empty() ? absl::StrCat(absl::Hex(grown->comm.uid().value)) : grown->comm.name(),
                     .value = part * 100});
  add_evidence(f, {.kind = EvidenceKind::rise_between, .value = (1 - part) * 100});
  f.fault = part < part_of_both       ? FaultClass::s1_computation_slow
            : part > 1 - part_of_both ? FaultClass::s2_communication_slow
                                      : FaultClass::s3_mixed_slow;
  if (c.rank && part < 1 - part_of_both) {
    Culprit who = make_culprit(leading.comm, *c.rank, Component::process, Condition::gaps_longer, "its gaps between operations grew, its peers' did not");
    who.basis = Basis::gaps;
    who.lost_time_share = std::min(c.rank_part, 1 - part);
    f.culprits.push_back(std::move(who));
    add_evidence(f, {.kind = EvidenceKind::rise_in_gaps_of_rank, .rank = c.rank->value, .value = c.rank_part * 100});
  }
  f.confidence = confidence_of(f.culprits);
  f.next_step = f.culprits.empty()
                    ? "Every rank is slower by about the same: compare clocks and power of all GPUs, data loading, shared storage and other load "
                      "with the time before."
                    : "Compare GPU clocks, CPU load and data loading of the named rank with its peers'.";
  for (int r = 0; r < leading.comm.rank_count(); ++r)
    if (f.culprits.empty() || f.culprits[0].rank.value != r) f.victims.push_back(Rank{r});
  return f;
}

void IterationAnalysis::look(const std::string& name, Job& job, Nanoseconds now_ns) {
  // The witness with the longest iterations sees the most; half of those that know better must agree.
  const Watch* leading = nullptr;
  std::optional<IterationChange> change;
  size_t know = 0, agree = 0;
  for (const Watch* w : job.witnesses) {
    const IterationLevel usual = w->iterations->usual();
    if (w->iterations->period() == 0 || usual.samples < settings_.iteration_verify_min) continue;
    ++know;
    agree += w->iterations->now().time_ns >= (1 + settings_.iteration_rise_min / 2) * usual.time_ns;
    std::optional<IterationChange> own = w->iterations->risen(now_ns);
    if (own && (!change || own->before.time_ns > change->before.time_ns)) change = std::move(own), leading = w;
  }
  if (!change || 2 * agree < know) {
    writer_.book().resolve(std::exchange(job.incident, 0), now_ns);
    job.explained = false;
    return;
  }
  const double verify_ns = lasting_s(settings_) * 1e9;
  if (static_cast<double>(change->lasts_ns) > accept_after * verify_ns) {
    writer_.book().resolve(std::exchange(job.incident, 0), now_ns);
    for (Watch* w : job.witnesses)
      if (w->iterations->risen(now_ns)) w->iterations->accept();
    return;
  }
  if (explained_elsewhere(name)) job.explained = true;
  if (job.explained && job.incident == 0) return;
  // What is suspected may be the reason, if it is sure soon.
  if (job.suspected && job.incident == 0 && static_cast<double>(change->lasts_ns) < 2 * verify_ns) return;
  Finding f = describe(job, *leading, *change);
  // It keeps what it was called: the times in it are estimates that wander.
  if (const Incident* known = writer_.book().find(job.incident); known && known->op == f.op) f.title = known->title;
  if (job.incident == 0)
    job.incident = writer_.open(leading->comm, f, change->since_ns, now_ns);
  else
    writer_.update(job.incident, leading->comm, f, now_ns);
  if (static_cast<double>(change->lasts_ns) >= 2 * verify_ns) writer_.book().confirm(job.incident, now_ns);
}

void IterationAnalysis::settle(Nanoseconds now_ns) {
  if (now_ns - looked_ns_ < look_every_ns) return;
  looked_ns_ = now_ns;
  for (auto& [name, job] : jobs_) look(name, job, now_ns);
}

}  // namespace ccld::decision
