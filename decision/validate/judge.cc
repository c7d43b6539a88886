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

// Rows that are compared with each other, so that the usual one of all others is found without looking at each.
class Peers {
 public:
  explicit Peers(Check check) : is_link_(check == Check::link) {}

  void add(const Quartiles& ms) {
    low_.push_back(ms.low);
    middle_.push_back(ms.middle);
    high_.push_back(ms.high);
  }
  void all_added() {
    for (std::vector<double>* values : {&low_, &middle_, &high_}) std::sort(values->begin(), values->end());
  }

  // Without one of them; each quartile by itself.
  Usual usual_without(const Quartiles& ms) const {
    return {{usual_without(low_, ms.low), usual_without(middle_, ms.middle), usual_without(high_, ms.high)},
            static_cast<int>(low_.size()) - 1};
  }

 private:
  // `values` has `left_out`; equal ones stand for each other.
  double usual_without(const std::vector<double>& values, double left_out) const {
    const size_t others = values.size() - 1;
    if (others == 0) return 0;
    const auto place = static_cast<size_t>(std::lower_bound(values.begin(), values.end(), left_out) - values.begin());
    const auto other = [&](size_t i) { return values[i < place ? i : i + 1]; };
    // Of links that were tested beside others many may be slow, and some are fast.
    if (is_link_) return other((others - 1) / 4);
    return (other((others - 1) / 2) + other(others / 2)) / 2;
  }

  bool is_link_;
  std::vector<double> low_, middle_, high_;
};

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
  std::map<std::pair<Check, std::string>, Peers> groups;
  for (const Row& row : rows) groups.try_emplace({row.check, group_of(row, m)}, row.check).first->second.add(row.ms);
  for (auto& [key, group] : groups) group.all_added();
  for (Row& row : rows) {
    const Member* peer = row.peer >= 0 ? &m.members[static_cast<size_t>(row.peer)] : nullptr;
    const auto known =
        past.find(past_key(row.check, m.members[static_cast<size_t>(row.rank)], peer, row.kind, row.bytes));
    const Peers& group = groups.at({row.check, group_of(row, m)});
    judge_row(row, group.usual_without(row.ms), known == past.end() ? nullptr : &known->second, t);
  }
  explain_links(rows);
  return rows;
}

}  // namespace ccld::decision::validate
