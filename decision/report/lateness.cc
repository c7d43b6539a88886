#include "decision/report/lateness.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/container/flat_hash_map.h"

namespace ccld::decision::report {
namespace {

using Micros = RecordedCall::Micros;
constexpr size_t codes = 256;

// Divided by a power of ten, so that the nearest number to the two digits comes out.
double two_digits(double ms) {
  if (ms <= 0) return 0;
  const double digits = std::floor(std::log10(ms)) - 1;
  return digits >= 0 ? std::round(ms / std::pow(10, digits)) * std::pow(10, digits)
                     : std::round(ms * std::pow(10, -digits)) / std::pow(10, -digits);
}

const std::array<double, codes>& milliseconds_of_codes() {
  static const auto table = [] {
    std::array<double, codes> ms{};
    for (size_t c = 0; c < codes - 1; ++c)
      ms[c] = two_digits(static_cast<double>(Micros::decode(static_cast<uint8_t>(c))) / 1e3);
    return ms;
  }();
  return table;
}

}  // namespace

uint8_t late_code(const RecordedCall& call, Rank rank) {
  const auto at = static_cast<size_t>(rank.value);
  return rank.value >= 0 && at < call.late.size() ? call.late[at] : Micros::none;
}

double late_ms(uint8_t code) { return milliseconds_of_codes()[code]; }

std::vector<const RankStatus*> ranks_by_host(const CommStatus& c) {
  absl::flat_hash_map<absl::string_view, size_t> number_of;  // in the order of lowest ranks: ranks ascend
  std::vector<std::pair<size_t, const RankStatus*>> numbered;
  numbered.reserve(c.ranks.size());
  for (const RankStatus& r : c.ranks)
    numbered.emplace_back(number_of.emplace(r.host, number_of.size()).first->second, &r);
  std::stable_sort(numbered.begin(), numbered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const RankStatus*> ordered;
  ordered.reserve(numbered.size());
  for (const auto& [host, rank] : numbered) ordered.push_back(rank);
  return ordered;
}

std::vector<double> mean_late_ms(const std::vector<const RankStatus*>& ranks, const Calls& calls) {
  const std::array<double, codes>& ms_of = milliseconds_of_codes();
  std::vector<double> sums(ranks.size());
  std::vector<uint32_t> measured(ranks.size());
  for (const auto& call : calls) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      const uint8_t code = late_code(*call, ranks[i]->rank);
      if (code == Micros::none) continue;
      sums[i] += ms_of[code];
      ++measured[i];
    }
  }
  for (size_t i = 0; i < ranks.size(); ++i)
    sums[i] = measured[i] == 0 ? std::numeric_limits<double>::quiet_NaN() : sums[i] / measured[i];
  return sums;
}

std::vector<size_t> worst(const std::vector<double>& means, size_t most) {
  std::vector<size_t> order;
  order.reserve(means.size());
  for (size_t i = 0; i < means.size(); ++i)
    if (!std::isnan(means[i])) order.push_back(i);
  const size_t n = std::min(most, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n), order.end(),
                    [&](size_t a, size_t b) { return means[a] != means[b] ? means[a] > means[b] : a < b; });
  order.resize(n);
  return order;
}

std::vector<HostGroup> host_groups(const std::vector<const RankStatus*>& by_host, size_t most) {
  std::vector<HostGroup> hosts;
  for (size_t i = 0; i < by_host.size(); ++i) {
    if (i == 0 || by_host[i]->host != by_host[i - 1]->host) hosts.push_back({i, i, 1});
    hosts.back().end = i + 1;
  }
  const size_t each = std::max<size_t>(1, (hosts.size() + most - 1) / most);
  std::vector<HostGroup> groups;
  for (size_t i = 0; i < hosts.size(); i += each) {
    const size_t last = std::min(i + each, hosts.size()) - 1;
    groups.push_back({hosts[i].first, hosts[last].end, last - i + 1});
  }
  return groups;
}

LateQuantiles late_quantiles(const std::vector<const RankStatus*>& by_host, const HostGroup& group,
                             const RecordedCall& call) {
  std::array<uint32_t, codes> count{};
  uint32_t n = 0;
  for (size_t i = group.first; i < group.end; ++i) {
    const uint8_t code = late_code(call, by_host[i]->rank);
    if (code == Micros::none) continue;
    ++count[code];
    ++n;
  }
  if (n == 0) return {};
  const auto code_at = [&](uint32_t place) {
    uint32_t passed = 0;
    size_t code = 0;
    while ((passed += count[code]) <= place) ++code;
    return static_cast<uint8_t>(code);
  };
  constexpr double p95 = 0.95;
  return {code_at((n - 1) / 2), code_at(static_cast<uint32_t>(p95 * (n - 1))), code_at(n - 1)};
}

}  // namespace ccld::decision::report
