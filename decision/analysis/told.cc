#include "decision/analysis/told.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ccld::decision {

Told::Named Told::named(const Culprit& c) { return {c.rank, c.peer, c.component, c.channel}; }

Told::Facts Told::facts_of(const Incident& i) {
  Facts f{i.state, i.fault, {}, i.comm, {}, {}, i.cycle, i.hangs_since};
  for (const Culprit& c : i.culprits) f.culprits.insert(named(c));
  if (i.culprits.empty()) f.title = i.title, f.candidates = i.candidates;
  return f;
}

bool Told::shares_moved(const Incident& i, const Settings& settings) const {
  return std::any_of(i.culprits.begin(), i.culprits.end(), [&](const Culprit& c) {
    const auto told = shares_.find(named(c));
    return told != shares_.end() && std::abs(c.lost_time_share - told->second) >= settings.revision_share_min;
  });
}

bool Told::news(const Incident& i) const {
  return !facts_ || *facts_ != facts_of(i) || (i.gain.of_iteration && !told_iteration_);
}

bool Told::is_due(const Incident& i, Nanoseconds now_ns, const Settings& settings) const {
  return news(i) || (shares_moved(i, settings) && now_ns - told_ns_ >= pause_ns_);
}

bool Told::says_all(const Incident& i, const Settings& settings) const {
  return !news(i) && !shares_moved(i, settings);
}

void Told::remember(const Incident& i, Nanoseconds now_ns, const Settings& settings) {
  pause_ns_ = news(i) ? std::max(pause_ns_, seconds_to_ns(settings.revision_pause_s))
                      : std::llround(static_cast<double>(pause_ns_) * settings.revision_pause_factor);
  facts_ = facts_of(i);
  told_iteration_ |= i.gain.of_iteration;
  shares_.clear();
  for (const Culprit& c : i.culprits) shares_[named(c)] = c.lost_time_share;
  told_ns_ = now_ns;
}

}  // namespace ccld::decision
