#include "decision/whatif/step_past.h"

namespace ccld::decision::whatif {

std::optional<UsualStep> StepPast::usual(const Key& key) const {
  const auto it = seen_.find(key);
  if (it == seen_.end() || it->second.given_after_ns.size() < settings_.whatif_past_means_min) return std::nullopt;
  UsualStep usual;
  for (size_t part = 0; part < passage_parts; ++part) usual.ns[part] = it->second.ns[part].middle();
  usual.given_after_ns = it->second.given_after_ns.middle();
  usual.taken_deviation_ns = it->second.ns[to_be_taken].deviation();
  usual.deviation_ns = it->second.given_after_ns.deviation();
  return usual;
}

void StepPast::learn(const Key& key, const std::vector<Passage>& passages) {
  if (passages.empty() || (seen_.size() >= connections_max && !seen_.contains(key))) return;
  Seen& seen = seen_[key];
  seen.last = windows_;
  std::vector<double> given_after(passages.size());
  for (size_t part = 0; part < passage_parts; ++part) {
    std::vector<double> values;
    for (const Passage& p : passages) values.push_back(p.most_ns[part] / p.steps);
    seen.ns[part].add(values, settings_);
    if (part == to_be_taken) continue;
    for (size_t i = 0; i < values.size(); ++i) given_after[i] += values[i];
  }
  seen.given_after_ns.add(given_after, settings_);
}

void StepPast::end_window() {
  if (++windows_ % past_windows_max == 0)
    absl::erase_if(seen_, [&](const auto& entry) { return entry.second.last + past_windows_max <= windows_; });
}

}  // namespace ccld::decision::whatif
