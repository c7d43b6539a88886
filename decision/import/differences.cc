#include "decision/import/differences.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/import/rows.h"
#include "decision/import/shapes.h"
#include "decision/model/digits.h"

namespace ccld::decision::dumps {
namespace {

// Members whose calls agree with each other.
struct Side {
  uint32_t shape = 0;
  std::vector<int> members;
};

class GroupDifferences {
 public:
  GroupDifferences(const Job& job, size_t group) : job_(job), g_(job.groups[group]), group_(group) {}

  std::optional<Difference> first() {
    std::optional<Difference> found;
    walk_rows(g_, [&](const Row& row) {
      found = look(row);
      return !found.has_value();
    });
    return found;
  }

 private:
  std::optional<Difference> look(const Row& row) const {
    std::vector<Side> sides;
    std::vector<int> short_ones;  // coalesced calls with fewer parts
    for (size_t m = 0; m < row.cells.size(); ++m) {
      const Cell& c = row.cells[m];
      if (c.presence == Presence::part_missing) short_ones.push_back(static_cast<int>(m));
      if (c.call == nullptr) continue;
      const auto side = std::find_if(sides.begin(), sides.end(), [&](const Side& s) {
        return s.shape == c.call->shape || difference(job_.shapes[s.shape], job_.shapes[c.call->shape]).empty();
      });
      if (side != sides.end())
        side->members.push_back(static_cast<int>(m));
      else
        sides.push_back({c.call->shape, {static_cast<int>(m)}});
    }
    if (sides.size() == 1 && short_ones.empty()) return all_to_all_totals(row, sides[0]);
    // Whoever made more calls in a coalesced one may also be the one that is wrong, unless it is alone against a
    // majority.
    std::stable_sort(sides.begin(), sides.end(),
                     [](const Side& a, const Side& b) { return a.members.size() > b.members.size(); });
    Difference d = begin(row, sides[0].shape);
    for (const Side& s : sides) d.sides.emplace_back(s.shape, s.members.size());
    const bool majority = sides[0].members.size() > (sides.size() > 1 ? sides[1].members.size() : 0) &&
                          sides[0].members.size() > short_ones.size();
    for (size_t s = 1; s < sides.size(); ++s)
      for (const int m : sides[s].members) d.differing.push_back(differing(row, sides[0], sides[s].shape, m));
    for (const int m : short_ones) {
      const Member& member = g_.members[static_cast<size_t>(m)];
      d.differing.push_back({m, Condition::call_differs, "coalesced fewer calls than the others",
                             member.collectives.empty() ? 0 : member.collectives.back().frame});
    }
    if (!majority) {
      for (const Difference::Rank& r : d.differing) d.candidates.push_back(r.member);
      d.candidates.insert(d.candidates.end(), sides[0].members.begin(), sides[0].members.end());
      std::sort(d.candidates.begin(), d.candidates.end());
      const std::string what = sides.size() > 1 ? difference(job_.shapes[sides[0].shape], job_.shapes[sides[1].shape])
                                                : "coalesced calls differ in number";
      d.title = absl::StrCat("ranks disagree about collective #", row.sequence, ": ", what);
      d.differing.clear();
    }
    return d;
  }

  Difference begin(const Row& row, uint32_t shape) const {
    Difference d;
    d.group = group_;
    d.sequence = row.sequence;
    d.shape = shape;
    for (const Cell& c : row.cells) {
      if (c.call == nullptr) continue;
      d.since_ns = std::max(d.since_ns, c.call->created_ns);
      d.hangs |= c.call->in_flight();
    }
    return d;
  }

  static const Call* call_at(const Member& m, size_t index) {
    return index < m.collectives.size() ? &m.collectives[index] : nullptr;
  }

  // Whether calls of `other` from `from` on are those of `usual` from `to` on, for as long as both are known.
  bool agree(const Member& other, size_t from, const Member& usual, size_t to) const {
    constexpr size_t compared_min = 2, compared_max = 8;  // one may agree by chance
    size_t compared = 0;
    for (; compared < compared_max; ++compared) {
      const Call* a = call_at(other, from + compared);
      const Call* b = call_at(usual, to + compared);
      if (a == nullptr || b == nullptr) break;
      if (!difference(job_.shapes[b->shape], job_.shapes[a->shape]).empty()) return false;
    }
    return compared >= compared_min;
  }

  Difference::Rank differing(const Row& row, const Side& usual, uint32_t shape, int member) const {
    const Member& other = g_.members[static_cast<size_t>(member)];
    const Member& usual_member = g_.members[static_cast<size_t>(usual.members[0])];
    const Call* call = row.cells[static_cast<size_t>(member)].call;
    const size_t at = static_cast<size_t>(call - other.collectives.data());
    const size_t usual_at =
        static_cast<size_t>(row.cells[static_cast<size_t>(usual.members[0])].call - usual_member.collectives.data());
    Difference::Rank out{member, Condition::call_differs, difference(job_.shapes[usual.shape], job_.shapes[shape]),
                         call->frame};
    if (agree(other, at, usual_member, usual_at + 1)) {
      out.condition = Condition::call_skipped;
      out.reason = absl::StrCat("skipped ", shape_text(job_.shapes[usual.shape]),
                                ": its later calls are one ahead of the others'");
    } else if (agree(other, at + 1, usual_member, usual_at)) {
      out.condition = Condition::call_added;
      out.reason = absl::StrCat("made one call too many: ", shape_text(job_.shapes[shape]));
    }
    return out;
  }

  // Ranks of an all-to-all may give different sizes, but together they must expect what they send.
  std::optional<Difference> all_to_all_totals(const Row& row, const Side& side) const {
    if (!is_all_to_all(job_.shapes[side.shape]) || side.members.size() != g_.members.size()) return std::nullopt;
    int64_t sent = 0, expected = 0;
    for (const Cell& c : row.cells) {
      const Shape& s = job_.shapes[c.call->shape];
      if (s.inputs.empty() || s.outputs.empty()) return std::nullopt;
      if (__builtin_add_overflow(sent, elements(s.inputs), &sent) ||
          __builtin_add_overflow(expected, elements(s.outputs), &expected))
        return std::nullopt;
    }
    if (sent == expected) return std::nullopt;
    Difference d = begin(row, side.shape);
    d.sides.emplace_back(side.shape, side.members.size());
    d.candidates = side.members;
    d.title = absl::StrCat("ranks send ", grouped(static_cast<uint64_t>(sent)), " elements in all-to-all #",
                           row.sequence, " and expect ", grouped(static_cast<uint64_t>(expected)));
    return d;
  }

  const Job& job_;
  const Group& g_;
  size_t group_;
};

// The first transfer of a pair whose ends disagree. Only of dumps that have all calls: else it is not known which meet.
std::optional<Difference> transfer_difference_of(const Job& job, size_t group) {
  const Group& g = job.groups[group];
  std::map<std::pair<int, int>, std::pair<std::vector<const Call*>, std::vector<const Call*>>> pairs;
  for (size_t m = 0; m < g.members.size(); ++m) {
    if (!g.members[m].complete || !g.members[m].has_dump) continue;
    for (const Call& c : g.members[m].transfers) {
      const Shape& s = job.shapes[c.shape];
      auto& [sends, receives] = pairs[{s.source, s.destination}];
      (s.type == "send" ? sends : receives).push_back(&c);
    }
  }
  for (const auto& [ends, calls] : pairs) {
    const auto& [sends, receives] = calls;
    for (size_t k = 0; k < std::min(sends.size(), receives.size()); ++k) {
      const std::string what = transfer_difference(job.shapes[sends[k]->shape], job.shapes[receives[k]->shape]);
      if (what.empty()) continue;
      Difference d;
      d.group = group;
      d.shape = sends[k]->shape;
      d.candidates = {ends.first, ends.second};
      d.title = absl::StrCat("send ", k + 1, " of rank ", ends.first, " to rank ", ends.second,
                             " is not what is received: ", what);
      d.since_ns = std::max(sends[k]->created_ns, receives[k]->created_ns);
      d.hangs = sends[k]->in_flight() || receives[k]->in_flight();
      return d;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<Difference> find_differences(const Job& job) {
  std::vector<Difference> out;
  for (size_t g = 0; g < job.groups.size(); ++g) {
    if (auto d = GroupDifferences(job, g).first()) out.push_back(*std::move(d));
    if (!job.groups[g].has_transfers) continue;
    if (auto d = transfer_difference_of(job, g)) out.push_back(*std::move(d));
  }
  return out;
}

}  // namespace ccld::decision::dumps
