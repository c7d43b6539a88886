#include "decision/report/call_pages.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "decision/report/find_communicator.h"
#include "decision/report/lateness.h"

namespace ccld::decision::report {
namespace {

double milliseconds(Nanoseconds ns) { return std::round(static_cast<double>(ns) / 1e3) / 1e3; }

Json late_json(uint8_t code) {
  if (code == RecordedCall::Micros::none) return nullptr;
  const double ms = late_ms(code);
  // Without ".0", which would be a third of the document.
  return ms == std::floor(ms) ? Json(static_cast<int64_t>(ms)) : Json(ms);
}

// What was recorded of a communicator; nullptr: nothing is.
const Calls* calls_of(const Snapshot& s, CommUid comm) {
  const auto it = std::lower_bound(s.status.calls.begin(), s.status.calls.end(), comm,
                                   [](const CommCalls& c, CommUid id) { return c.comm < id; });
  return it != s.status.calls.end() && it->comm == comm ? &it->calls : nullptr;
}

Json call_json(const RecordedCall& c, const WallClock& clock) {
  Json operation = operation_json(c.signature);
  return {{"time", clock.text(c.heard_ns)},
          {"op_seq", c.op.value},
          {"replay", c.replay == 0 ? Json(nullptr) : Json(c.replay)},
          {"function", std::move(operation["function"])},
          {"bytes", std::move(operation["bytes"])},
          {"longest_ms", milliseconds(c.times.longest_ns)},
          {"shortest_ms", milliseconds(c.times.shortest_ns)}};
}

Json rank_row(const RankStatus& r, double mean_ms, const Calls& calls) {
  Json late = Json::array();
  for (const auto& call : calls) late.push_back(late_json(late_code(*call, r.rank)));
  return {{"rank", r.rank.value},
          {"host", r.host},
          {"gpu", r.cuda_device < 0 ? Json(nullptr) : Json(r.cuda_device)},
          {"late_mean_ms", std::isnan(mean_ms) ? Json(nullptr) : Json(std::round(mean_ms * 1e3) / 1e3)},
          {"late_ms", std::move(late)}};
}

// `after`: for the page of ranks that begins with this group.
Json group_row(const std::vector<const RankStatus*>& by_host, const HostGroup& g, const Calls& calls) {
  Json median = Json::array(), p95 = Json::array(), most = Json::array();
  for (const auto& call : calls) {
    const LateQuantiles q = late_quantiles(by_host, g, *call);
    median.push_back(late_json(q.median));
    p95.push_back(late_json(q.p95));
    most.push_back(late_json(q.most));
  }
  return {{"first_host", by_host[g.first]->host},
          {"last_host", by_host[g.end - 1]->host},
          {"host_count", g.hosts},
          {"rank_count", g.end - g.first},
          {"after", g.first == 0 ? std::string() : absl::StrCat(by_host[g.first - 1]->rank.value)},
          {"median_ms", std::move(median)},
          {"p95_ms", std::move(p95)},
          {"max_ms", std::move(most)}};
}

Json head(const Snapshot& s, const CommStatus& c) {
  return {{"time", s.clock.text(s.now_ns)},
          {"communicator", comm_text(c.comm)},
          {"comm_name", c.name.empty() ? Json(nullptr) : Json(c.name)},
          {"rank_count", c.rank_count}};
}

const Calls nothing;

}  // namespace

absl::StatusOr<Json> calls_json(const Snapshot& s, const std::string& id) {
  const auto at = find_communicator(s, id);
  if (!at) return no_communicator(id);
  const CommStatus& c = s.status.communicators[*at];
  const Calls* recorded = calls_of(s, c.comm);
  const Calls& calls = recorded ? *recorded : nothing;
  const std::vector<const RankStatus*> by_host = ranks_by_host(c);
  const std::vector<double> means = mean_late_ms(by_host, calls);

  Json columns = Json::array(), ranks = Json::array(), groups = Json::array();
  for (const auto& call : calls) columns.push_back(call_json(*call, s.clock));
  for (const size_t i : worst(means, worst_ranks_max)) ranks.push_back(rank_row(*by_host[i], means[i], calls));
  if (!calls.empty())
    for (const HostGroup& g : host_groups(by_host, late_groups_max)) groups.push_back(group_row(by_host, g, calls));
  Json result = head(s, c);
  result["recorded"] = recorded != nullptr;
  result["calls"] = std::move(columns);
  result["worst"] = std::move(ranks);
  result["groups"] = std::move(groups);
  return result;
}

absl::StatusOr<Json> call_ranks_json(const Snapshot& s, const std::string& id, const PageQuery& query) {
  const auto at = find_communicator(s, id);
  if (!at) return no_communicator(id);
  const CommStatus& c = s.status.communicators[*at];
  const Calls* recorded = calls_of(s, c.comm);
  const Calls& calls = recorded ? *recorded : nothing;
  const std::vector<const RankStatus*> by_host = ranks_by_host(c);

  auto it = by_host.begin();
  if (!query.after.empty()) {
    int32_t rank = 0;
    const bool number = absl::SimpleAtoi(query.after, &rank);
    if (number)
      it = std::find_if(by_host.begin(), by_host.end(), [&](const RankStatus* r) { return r->rank.value == rank; });
    if (!number || it == by_host.end()) return absl::InvalidArgumentError("after must be what `next` of a page said");
    ++it;
  }
  const auto end =
      it + std::min<std::ptrdiff_t>(by_host.end() - it, static_cast<std::ptrdiff_t>(query.rows(page_rows_default)));
  const std::vector<const RankStatus*> page(it, end);
  const std::vector<double> means = mean_late_ms(page, calls);
  Json ranks = Json::array();
  for (size_t i = 0; i < page.size(); ++i) ranks.push_back(rank_row(*page[i], means[i], calls));
  Json result = head(s, c);
  result["recorded"] = recorded != nullptr;
  result["ranks"] = std::move(ranks);
  result["next"] = end == by_host.end() ? Json(nullptr) : Json(absl::StrCat(page.back()->rank.value));
  return result;
}

absl::StatusOr<Json> call_history_json(const Snapshot& s, const std::string& id) {
  const auto at = find_communicator(s, id);
  if (!at) return no_communicator(id);
  const CommStatus& c = s.status.communicators[*at];
  Json calls = Json::array(), longest = Json::array(), shortest = Json::array();
  Json from = nullptr;
  if (c.call_history && !c.call_history->buckets.empty()) {
    const CallHistory::Buckets& known = *c.call_history;
    const int64_t end = s.now_ns / CallHistory::bucket_ns;  // which is not over
    const int64_t first = std::max(known.first, end - static_cast<int64_t>(CallHistory::buckets_max));
    from = s.clock.text(first * CallHistory::bucket_ns);
    for (int64_t number = first; number < end; ++number) {
      const auto i = static_cast<size_t>(number - known.first);
      const CallHistory::Bucket bucket = i < known.buckets.size() ? known.buckets[i] : CallHistory::Bucket{};
      const auto times = bucket.times();
      calls.push_back(bucket.call_count());
      longest.push_back(times ? Json(milliseconds(times->longest_ns)) : Json(nullptr));
      shortest.push_back(times ? Json(milliseconds(times->shortest_ns)) : Json(nullptr));
    }
  }
  Json result = head(s, c);
  result["bucket_s"] = CallHistory::bucket_ns / ns_per_s;
  result["from_time"] = std::move(from);
  result["calls"] = std::move(calls);
  result["longest_ms"] = std::move(longest);
  result["shortest_ms"] = std::move(shortest);
  return result;
}

}  // namespace ccld::decision::report
