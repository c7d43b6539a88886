#include "decision/model/layout.h"

#include <algorithm>
#include <array>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ccld::decision {
LayoutPlace place_of(const Layout& l, uint64_t process) {
  LayoutPlace p;
  for (const absl::string_view name : absl::StrSplit(absl::string_view(l.order.data(), l.order.size()), '-')) {
    const uint64_t size = name == "tp" ? l.tensor : name == "pp" ? l.pipeline : l.data;
    (name == "tp" ? p.tensor : name == "pp" ? p.pipeline : p.data) = process % size;
    process /= size;
  }
  return p;
}

absl::Status check_order(std::string_view order) {
  std::vector<std::string> names = absl::StrSplit(absl::string_view(order.data(), order.size()), '-');
  std::sort(names.begin(), names.end());
  if (names == std::vector<std::string>{"dp", "pp", "tp"}) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("layout_order=", std::string(order), " is not valid: expected tp, dp and pp once each, e.g. tp-dp-pp"));
}

CommRole role_of(const Layout& l, const std::vector<int>& processes) {
  if (!l.given() || processes.size() < 2 || !check_order(l.order).ok()) return CommRole::unknown;
  std::set<uint64_t> tensor, pipeline, data;
  for (int p : processes) {
    if (p < 0 || static_cast<uint64_t>(p) >= l.processes()) return CommRole::unknown;
    const LayoutPlace at = place_of(l, static_cast<uint64_t>(p));
    tensor.insert(at.tensor);
    pipeline.insert(at.pipeline);
    data.insert(at.data);
  }
  const uint64_t n = processes.size();
  if (n == l.processes()) {
    // With one dimension only, all processes are that dimension.
    if (l.tensor == n) return CommRole::tensor;
    if (l.pipeline == n) return CommRole::pipeline;
    if (l.data == n) return CommRole::data;
    return CommRole::world;
  }
  const bool one_tensor = tensor.size() == 1, one_pipeline = pipeline.size() == 1, one_data = data.size() == 1;
  if (one_pipeline && one_data && n == l.tensor) return CommRole::tensor;
  if (one_tensor && one_data && n == l.pipeline) return CommRole::pipeline;
  if (one_tensor && one_pipeline && n == l.data) return CommRole::data;
  if (one_tensor && one_pipeline && l.expert > 1 && n == l.expert && *data.rbegin() - *data.begin() == n - 1 &&
      *data.begin() % n == 0)
    return CommRole::expert;
  return CommRole::unknown;
}

}  // namespace ccld::decision
