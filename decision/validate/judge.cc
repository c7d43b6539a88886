#include "decision/validate/judge.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ccld::decision::validate {
namespace {

double margin_of(Check check, const Thresholds& t) {
  switch (check) {
    case Check::gemm: return t.gemm_margin;
    case Check::memory: return t.memory_margin;
    case Check::host_to_device:
    case Check::device_to_host: return t.copy_margin;
    case Check::link: break;
  }
  return t.link_margin;
}

// One row for each GPU's check and each link. A disturbance only adds time, so of several runs each quartile counts
// where it was least.
std::vector<Row> merged(const Measured& m) {
  std::map<std::tuple<Check, int, int>, Row> rows;
  for (const Sample& s : m.samples) {
    if (s.ms.empty()) continue;
    Row& row = rows[{s.check, s.rank, s.peer}];
    const Quartiles ms = quartiles_of(s.ms);
    const auto least = [&row](double before, double now) { return row.runs == 0 ? now : std::min(before, now); };
    row.ms = {least(row.ms.low, ms.low), least(row.ms.middle, ms.middle), least(row.ms.high, ms.high)};
    ++row.runs;
    row.check = s.check;
    row.rank = s.rank;
    row.peer = s.peer;
    row.bytes = s.bytes;
    row.pass = s.pass;
    row.kind = s.kind;
    row.net = s.net;
  }
  std::vector<Row> out;
  for (auto& [key, row] : rows) out.push_back(std::move(row));
  return out;
}

// Peers do the same with hardware of the same kind.
std::string group_of(const Row& row, const Measured& m) {
  return row.check == Check::link ? row.kind : m.members[static_cast<size_t>(row.rank)].model;
}

struct Usual {
  Quartiles ms;
  int count = 0;
};

// Of links that were tested beside others many may be slow, and some are fast.
double usual_value(std::vector<double> values, Check check) {
  if (check != Check::link || values.empty()) return middle_of(std::move(values));
  const auto place = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 4);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// The usual one of the others, each quartile by itself.
Usual usual_of(const Row& row, const std::vector<const Row*>& group) {
  std::vector<double> low, middle, high;
  for (const Row* other : group) {
    if (other == &row) continue;
    low.push_back(other->ms.low);
    middle.push_back(other->ms.middle);
    high.push_back(other->ms.high);
  }
  const int count = static_cast<int>(low.size());
  return {{usual_value(std::move(low), row.check), usual_value(std::move(middle), row.check),
           usual_value(std::move(high), row.check)},
          count};
}

std::string slower_text(const Row& row, const char* than) {
  return absl::StrFormat("%s takes %.3g ms, %s %.3g ms (%.2g times)", title(row.check), row.ms.middle, than,
                         row.usual_ms, row.ratio());
}

// From where on a row is slow.
double limit_ms(const Row& row, const Quartiles& usual, double margin, const Thresholds& t) {
  return usual.high * (1 + margin + t.noise_factor * std::max(row.ms.spread(), usual.spread()));
}

void judge_row(Row& row, const Usual& peers, const Quartiles* past, const Thresholds& t) {
  row.peer_count = peers.count;
  if (peers.count == 0 && past == nullptr) {
    row.why = "no peer of its kind, and no past";
    return;
  }
  const auto suspect = [&row](Basis basis, double usual_ms, const char* than) {
    row.basis = basis;
    row.usual_ms = usual_ms;
    row.finding = Finding::suspect;
    row.why = slower_text(row, than);
  };
  const double peer_margin = margin_of(row.check, t) * (peers.count == 1 ? t.pair_factor : 1);
  const double of_peers_ms = limit_ms(row, peers.ms, peer_margin, t);
  if (peers.count > 0 && row.ms.low > of_peers_ms) return suspect(Basis::peers, peers.ms.middle, "its peers");
  const double of_past_ms = past != nullptr ? limit_ms(row, *past, t.past_margin, t) : 0;
  if (past != nullptr && row.ms.low > of_past_ms) return suspect(Basis::past, past->middle, "in its past");
  // Noise keeps it from being accused, and does not clear it.
  const auto is_slower = [&row](double usual_ms, double margin) { return row.ms.middle > usual_ms * (1 + margin); };
  const bool than_past = past != nullptr && is_slower(past->middle, t.past_margin);
  const bool than_peers = peers.count > 0 && is_slower(peers.ms.middle, peer_margin);
  row.basis = peers.count > 0 && (than_peers || !than_past) ? Basis::peers : Basis::past;
  row.usual_ms = row.basis == Basis::peers ? peers.ms.middle : past->middle;
  if (than_peers || than_past) {
    row.why = absl::StrCat(slower_text(row, than_peers ? "its peers" : "in its past"),
                           ", and repetitions differ too much to tell: the machine is busy");
    return;
  }
  const double resolution = peers.count > 0 ? of_peers_ms / peers.ms.low : of_past_ms / past->low;
  if (resolution > t.resolution_max) {
    row.why = "repetitions differ too much, the machine is busy";
    return;
  }
  row.finding = Finding::healthy;
}

// A GPU that moves or computes slowly delays whoever it sends to or receives from.
void explain_links(std::vector<Row>& rows) {
  std::set<int> slow;
  for (const Row& row : rows)
    if (row.check != Check::link && row.finding == Finding::suspect) slow.insert(row.rank);
  for (Row& row : rows) {
    if (row.check != Check::link || row.finding != Finding::suspect) continue;
    for (const int rank : {row.rank, row.peer})
      if (slow.count(rank)) {
        row.finding = Finding::explained;
        row.why = absl::StrFormat("the GPU of rank %d is slow", rank);
      }
  }
}

}  // namespace

const char* name(Finding f) {
  switch (f) {
    case Finding::healthy: return "healthy";
    case Finding::suspect: return "suspect";
    case Finding::explained: return "explained";
    case Finding::not_measured: break;
  }
  return "not_measured";
}

std::vector<Row> judge(const Measured& m, const Past& past, const Thresholds& t) {
  std::vector<Row> rows = merged(m);
  std::map<std::pair<Check, std::string>, std::vector<const Row*>> groups;
  for (const Row& row : rows) groups[{row.check, group_of(row, m)}].push_back(&row);
  for (Row& row : rows) {
    const Member* peer = row.peer >= 0 ? &m.members[static_cast<size_t>(row.peer)] : nullptr;
    const auto known =
        past.find(past_key(row.check, m.members[static_cast<size_t>(row.rank)], peer, row.kind, row.bytes));
    judge_row(row, usual_of(row, groups[{row.check, group_of(row, m)}]), known == past.end() ? nullptr : &known->second,
              t);
  }
  explain_links(rows);
  return rows;
}

}  // namespace ccld::decision::validate
