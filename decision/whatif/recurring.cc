#include "decision/whatif/recurring.h"

#include <algorithm>
#include <numeric>

namespace ccld::decision::whatif {
namespace {

constexpr size_t recurring_entries_max = 1 << 16;
constexpr uint64_t recurring_windows_max = 120;  // ten minutes of half windows

}  // namespace

bool Recurring::recurs(uint64_t key, const std::vector<float>& now) const {
  if (now.empty()) return false;
  const float late_ns = std::accumulate(now.begin(), now.end(), 0.0F) / static_cast<float>(now.size()) / 2;
  size_t all = 0, late = 0;
  const auto count = [&](const std::vector<float>& values) {
    all += values.size();
    late += static_cast<size_t>(std::count_if(values.begin(), values.end(), [&](float ns) { return ns >= late_ns; }));
  };
  count(now);
  if (const auto it = values_.find(key); it != values_.end()) count(it->second.ns);
  return late_ns > 0 && late >= settings_.slow_rounds_min &&
         static_cast<double>(late) >= settings_.whatif_recurs_min * static_cast<double>(all);
}

void Recurring::add(const Seldom& window) {
  ++windows_;
  const size_t most = 3 * settings_.slow_rounds_min;
  if (values_.size() + window.size() > recurring_entries_max) values_.clear();
  for (const auto& [key, ns] : window) {
    if (values_.size() >= recurring_entries_max) break;
    Values& v = values_[key];
    v.last = windows_;
    v.ns.insert(v.ns.end(), ns.begin(), ns.end());
    if (v.ns.size() > most) v.ns.erase(v.ns.begin(), v.ns.end() - static_cast<std::ptrdiff_t>(most));
  }
  if (windows_ % recurring_windows_max == 0)
    absl::erase_if(values_, [&](const auto& entry) { return entry.second.last + recurring_windows_max <= windows_; });
}

}  // namespace ccld::decision::whatif
