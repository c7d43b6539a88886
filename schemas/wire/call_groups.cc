#include "schemas/wire/call_groups.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "schemas/wire/split_columns.h"

namespace ccld::wire {
namespace {

// Beside the flags of a row: times that are not known are 0, which is far from all others.
constexpr uint64_t no_launch = 1 << 8, no_times = 1 << 9, marks_end = 1 << 10;

constexpr size_t columns = 48;

// The first column: how much there is, and what the first row is predicted from.
struct Head {
  uint64_t groups = 0, kinds = 0, rows = 0;
  uint64_t enter_ns = 0, begin_ns = 0;
};

// Packs or unpacks, as `code` does.
template <class Code>
void each_of(Code& code, Head& head) {
  code.begin(Part::others, 5);
  for (uint64_t* value : {&head.groups, &head.kinds, &head.rows, &head.enter_ns, &head.begin_ns}) code(*value, 0);
  code.end(Part::others);
}

// Where a row stands.
struct Place {
  uint32_t like = 0;  // the row that it is probably like: the last one of its kind; of first ones the first one before
  Part part = Part::others;  // firsts: of its kind
  bool starts = false;       // its group
};

class Walk {
 public:
  Walk(CallGroups& g, size_t words, Numbering numbering, const Head& head)
      : g_(g), rows_(g.rows), n_(g.rows.size()), words_(words), numbering_(numbering), head_(head) {}

  // Packs or unpacks; one function, so that both predict alike. False: that is nothing.
  template <class Code>
  bool each_column(Code& code) {
    if (!each_group(code) || !each_kind(code)) return false;
    if (n_ == 0) return code.good();
    if (!each_row_kind(code) || !each_plain_field(code)) return false;
    each_number(code);
    each_enter(code);
    each_launch(code);
    each_kernel_time(code);
    return code.good();
  }

 private:
  const Place& at(size_t i) const { return places_[i]; }

  template <class Code>
  bool each_group(Code& code) {
    const auto column = [&](auto member) {
      code.begin(Part::others, g_.groups.size());
      for (CallGroup& group : g_.groups) code(group.*member, 0);
      code.end(Part::others);
    };
    column(&CallGroup::comm_uid);
    column(&CallGroup::rank);
    column(&CallGroup::rows);
    column(&CallGroup::kinds);
    column(&CallGroup::link_rows);
    column(&CallGroup::link_bytes);
    uint64_t rows = 0, kinds = 0;
    bool known = true;
    for (const CallGroup& group : g_.groups) {
      rows += group.rows, kinds += group.kinds;
      known &= group.rows == 0 || group.kinds != 0;
    }
    return code.good() && known && rows == n_ && kinds * words_ == g_.kind_words.size();
  }

  // Word by word, as the kind before.
  template <class Code>
  bool each_kind(Code& code) {
    const size_t kinds = words_ == 0 ? 0 : g_.kind_words.size() / words_;
    for (size_t word = 0; word < words_; ++word) {
      uint32_t before = 0;
      code.begin(Part::others, kinds);
      for (size_t kind = 0; kind < kinds; ++kind) {
        uint32_t& value = g_.kind_words[kind * words_ + word];
        // In either direction, modulo 2^32.
        auto difference = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(value - before)));
        code(difference, 0);
        value = before += static_cast<uint32_t>(difference);
      }
      code.end(Part::others);
    }
    return code.good();
  }

  // Kinds are numbered as they appear in their group, and follow one another as they did before; after the last new one
  // the first comes again.
  template <class Code>
  bool each_row_kind(Code& code) {
    places_.resize(n_);
    struct Known {
      uint32_t row = 0, follower = 0;  // each plus one; 0: none
    };
    std::vector<Known> known(g_.kind_words.size() / std::max<size_t>(words_, 1));
    bool in_range = true;
    size_t i = 0, base = 0;
    uint32_t last_first = 0;
    code.begin(Part::others, n_);
    for (const CallGroup& group : g_.groups) {
      uint32_t new_kind = 0;
      Known* before = nullptr;
      for (size_t end = i + group.rows; i < end; ++i) {
        uint32_t& kind = rows_[i].kind;
        const uint32_t unknown = new_kind < group.kinds ? new_kind : 0;
        code(kind, before != nullptr && before->follower != 0 ? before->follower - 1 : unknown);
        if (kind >= group.kinds) in_range = false, kind = 0;
        if (kind >= new_kind) new_kind = kind + 1;
        if (before != nullptr) before->follower = kind + 1;
        Known& of = known[base + kind];
        Place& place = places_[i];
        place.starts = before == nullptr;
        if (of.row == 0) {
          place.part = Part::firsts;
          place.like = last_first;
          last_first = static_cast<uint32_t>(i);
          firsts_.push_back(last_first);
        } else {
          place.like = of.row - 1;
        }
        of.row = static_cast<uint32_t>(i) + 1;
        before = &of;
      }
      base += group.kinds;
    }
    code.end(Part::others);
    return in_range && code.good();
  }

  template <class Code, class Each>
  void firsts(Code& code, Each each) {
    code.begin(Part::firsts, firsts_.size());
    for (uint32_t i : firsts_) each(i);
    code.end(Part::firsts);
  }
  // `changed`: what is predicted from has changed since it was copied.
  template <class Code, class Each>
  bool others(Code& code, Each each, bool changed = false) {
    code.begin(Part::others, n_ - firsts_.size());
    const bool walks = changed || code.says(Part::others);
    if (walks)
      for (size_t i = 0; i < n_; ++i)
        if (at(i).part == Part::others) each(i);
    code.end(Part::others);
    return walks;
  }

  // What the row that it is like had as well.
  template <class Code>
  bool each_plain_field(Code& code) {
    constexpr auto fields = std::make_tuple(&CallRow::replay, &CallRow::signals, &CallRow::samples);
    // Mostly equal, or as far apart as before.
    constexpr auto pairs = std::make_tuple(std::make_pair(&CallRow::send_steps, &CallRow::recv_steps),
                                           std::make_pair(&CallRow::send_changes, &CallRow::recv_changes));
    const auto like = [&](size_t i) -> const CallRow& { return rows_[at(i).like]; };
    const auto second_likely = [&](size_t i, auto pair) {
      return uint64_t{like(i).*pair.second} + rows_[i].*pair.first - like(i).*pair.first;
    };
    marks_.resize(n_);
    if constexpr (!Code::reads)
      for (size_t i = 0; i < n_; ++i)
        marks_[i] = rows_[i].flags | (rows_[i].launch_monotonic_ns == 0 ? no_launch : 0) |
                    (rows_[i].begin_device_ns == 0 && rows_[i].end_device_ns == 0 ? no_times : 0);

    const auto first_field = [&](auto field) {
      firsts(code, [&](size_t i) { code(rows_[i].*field, i == 0 ? 0 : like(i).*field, Part::firsts); });
    };
    const auto first_pair = [&](auto pair) {
      first_field(pair.first);
      firsts(code, [&](size_t i) {
        code(rows_[i].*pair.second, i == 0 ? rows_[0].*pair.first : second_likely(i, pair), Part::firsts);
      });
    };
    std::apply([&](auto... field) { (first_field(field), ...); }, fields);
    std::apply([&](auto... pair) { (first_pair(pair), ...); }, pairs);
    firsts(code, [&](size_t i) { code(marks_[i], i == 0 ? 0 : marks_[at(i).like], Part::firsts); });
    if constexpr (Code::reads)
      for (size_t i = 0; i < n_; ++i)
        if (at(i).part == Part::others) rows_[i] = like(i), marks_[i] = marks_[at(i).like];

    const auto field = [&](auto member) {
      return others(code, [&](size_t i) { code(rows_[i].*member, like(i).*member); });
    };
    const auto pair = [&](auto members) {
      const bool changed = field(members.first);
      others(
          code, [&](size_t i) { code(rows_[i].*members.second, second_likely(i, members)); }, changed);
    };
    std::apply([&](auto... member) { (field(member), ...); }, fields);
    std::apply([&](auto... members) { (pair(members), ...); }, pairs);
    others(code, [&](size_t i) { code(marks_[i], marks_[at(i).like]); });
    bool known = true;
    for (size_t i = 0; i < n_; ++i) {
      known &= marks_[i] < marks_end;
      rows_[i].flags = static_cast<uint8_t>(marks_[i]);
    }
    return known && code.good();
  }

  // A column whose rows depend on the row before.
  template <class Code, class Each>
  void in_order(Code& code, Each each) {
    code.begin(Part::firsts, firsts_.size());
    code.begin(Part::others, n_ - firsts_.size());
    for (size_t i = 0; i < n_; ++i) each(i, at(i));
    code.end(Part::firsts);
    code.end(Part::others);
  }

  template <class Code>
  void each_number(Code& code) {
    in_order(code, [&](size_t i, const Place& p) {
      const uint64_t before = numbering_ == Numbering::of_all ? (p.starts ? 0 : rows_[i - 1].number)
                              : p.part == Part::firsts        ? 0
                                                              : rows_[p.like].number;
      code(rows_[i].number, before + 1, p.part);
    });
    std::vector<uint64_t> steps(n_);  // from the plan of the row before
    in_order(code, [&](size_t i, const Place& p) {
      const uint64_t before = p.starts ? 0 : rows_[i - 1].plan;
      steps[i] = rows_[i].plan - before;
      code(steps[i], i == 0 ? 0 : steps[p.like], p.part);
      rows_[i].plan = static_cast<uint32_t>(before + steps[i]);
    });
  }

  bool same_kernel(size_t i) const {
    const CallRow &r = rows_[i], &before = rows_[i - (i > 0)];
    return !at(i).starts && r.plan != 0 && r.plan == before.plan && r.replay == before.replay;
  }

  // Calls follow each other as they did before.
  template <class Code>
  void each_enter(Code& code) {
    const auto ns = [&](size_t i) { return rows_[i].enter_monotonic_ns; };
    in_order(code, [&](size_t i, const Place& p) {
      uint64_t likely_ns = head_.enter_ns;
      if (p.starts && i > 0)
        likely_ns = ns(p.like);
      else if (i > 0)
        likely_ns = ns(i - 1) +
                    (p.part == Part::firsts || same_kernel(i) || at(p.like).starts ? 0 : ns(p.like) - ns(p.like - 1));
      code(rows_[i].enter_monotonic_ns, likely_ns, p.part);
    });
  }

  uint64_t launch_likely_ns(size_t i) const {
    if (i == 0) return rows_[0].enter_monotonic_ns;
    if (same_kernel(i)) return launch_ns_[i - 1];
    return rows_[i].enter_monotonic_ns + launch_ns_[at(i).like] - rows_[at(i).like].enter_monotonic_ns;
  }
  uint64_t begin_likely_ns(size_t i) const {
    if (i == 0) return head_.begin_ns;
    if (same_kernel(i)) return begin_ns_[i - 1];
    const Place& p = at(i);
    if (p.part == Part::firsts) {
      if (begins_after_launch_) return launch_ns_[i] + begin_ns_[i - 1] - launch_ns_[i - 1];
      if (!p.starts) return end_ns_[i - 1];
      return begin_ns_[p.like] + rows_[i].enter_monotonic_ns - rows_[p.like].enter_monotonic_ns;
    }
    if (begins_after_launch_) return launch_ns_[i] + begin_ns_[p.like] - launch_ns_[p.like];
    return end_ns_[i - 1] + (at(p.like).starts ? 0 : begin_ns_[p.like] - end_ns_[p.like - 1]);
  }
  uint64_t end_likely_ns(size_t i) const {
    if (i == 0) return begin_ns_[0];
    if (same_kernel(i)) return end_ns_[i - 1];
    const Place& p = at(i);
    if (ends_in_turn_ && p.part == Part::others && !at(p.like).starts)
      return end_ns_[i - 1] + end_ns_[p.like] - end_ns_[p.like - 1];
    return begin_ns_[i] + end_ns_[p.like] - begin_ns_[p.like];
  }
  // Times that are not known are taken to be the likely ones.
  template <class Each>
  void each_time(Each each) {
    begin_ns_.resize(n_), end_ns_.resize(n_);
    for (size_t i = 0; i < n_; ++i) {
      const CallRow& r = rows_[i];
      const bool unknown = (marks_[i] & no_times) != 0;
      const uint64_t begin_ns = begin_likely_ns(i);
      begin_ns_[i] = unknown ? begin_ns : r.begin_device_ns;
      each(begin_ns_[i], begin_ns, at(i).part, 0);
      const uint64_t end_ns = end_likely_ns(i);
      end_ns_[i] = unknown ? end_ns : r.end_device_ns;
      each(end_ns_[i], end_ns, at(i).part, 1);
    }
  }

  template <class Code>
  void each_launch(Code& code) {
    launch_ns_.resize(n_);
    in_order(code, [&](size_t i, const Place& p) {
      const uint64_t likely_ns = launch_likely_ns(i);
      const bool unknown = (marks_[i] & no_launch) != 0;
      launch_ns_[i] = unknown ? likely_ns : rows_[i].launch_monotonic_ns;
      code(launch_ns_[i], likely_ns, p.part);
      rows_[i].launch_monotonic_ns = unknown ? 0 : launch_ns_[i];
    });
  }

  template <class Code>
  void each_kernel_time(Code& code) {
    if constexpr (!Code::reads) choose_ways();
    uint64_t ways = begins_after_launch_ + 2 * ends_in_turn_;
    code.begin(Part::others, 1);
    code(ways, 0);
    code.end(Part::others);
    begins_after_launch_ = (ways & 1) != 0, ends_in_turn_ = (ways & 2) != 0;

    for (size_t slot = 0; slot < slots; ++slot) {
      code.begin(Part::firsts, firsts_.size(), slot);
      code.begin(Part::others, n_ - firsts_.size(), slot);
    }
    each_time([&](uint64_t& ns, uint64_t likely_ns, Part part, size_t slot) { code(ns, likely_ns, part, slot); });
    for (size_t slot = 0; slot < slots; ++slot) code.end(Part::firsts, slot), code.end(Part::others, slot);
    if constexpr (Code::reads)
      for (size_t i = 0; i < n_; ++i) {
        const bool unknown = (marks_[i] & no_times) != 0;
        rows_[i].begin_device_ns = unknown ? 0 : begin_ns_[i];
        rows_[i].end_device_ns = unknown ? 0 : end_ns_[i];
      }
  }

  // Those that take less.
  void choose_ways() {
    size_t bytes[2][slots] = {};
    for (bool way : {false, true}) {
      begins_after_launch_ = ends_in_turn_ = way;
      each_time([&](uint64_t ns, uint64_t likely_ns, Part part, size_t slot) {
        if (part == Part::others) bytes[way][slot] += ns == likely_ns ? 0 : narrow_size(zigzag(ns - likely_ns));
      });
    }
    begins_after_launch_ = bytes[1][0] < bytes[0][0];
    ends_in_turn_ = bytes[1][1] < bytes[0][1];
  }

  CallGroups& g_;
  std::vector<CallRow>& rows_;
  const size_t n_, words_;
  const Numbering numbering_;
  const Head head_;
  bool begins_after_launch_ = false;  // or after the end of the row before
  bool ends_in_turn_ = false;         // or after the usual time
  std::vector<Place> places_;
  std::vector<uint32_t> firsts_;
  std::vector<uint64_t> marks_;
  std::vector<uint64_t> launch_ns_, begin_ns_, end_ns_;  // known or likely
};

}  // namespace

std::vector<uint8_t> pack(CallGroups g, size_t words_per_kind, Numbering numbering) {
  Head head;
  head.groups = g.groups.size();
  head.kinds = g.kind_words.size() / words_per_kind;
  head.rows = g.rows.size();
  if (!g.rows.empty()) {
    head.enter_ns = g.rows[0].enter_monotonic_ns;
    head.begin_ns = g.rows[0].begin_device_ns;
  }
  SplitWriter writer(columns);
  each_of(writer, head);
  Walk(g, words_per_kind, numbering, head).each_column(writer);
  return writer.finish();
}

Unpacked unpack(const uint8_t* bytes, size_t size, size_t words_per_kind, Numbering numbering, uint64_t sizes_max,
                CallGroups& g) {
  SplitReader reader(bytes, size, columns);
  Head head;
  reader.reserve(5);
  each_of(reader, head);
  if (!reader.good()) return Unpacked::damaged;
  // One by one: their sum may wrap.
  for (uint64_t n : {head.groups, head.kinds, head.rows}) {
    if (n > sizes_max) return Unpacked::too_many;
    sizes_max -= n;
  }
  g.groups.resize(head.groups);
  g.kind_words.resize(head.kinds * words_per_kind);
  g.rows.resize(head.rows);
  reader.reserve(std::max({head.groups, head.kinds, head.rows, uint64_t{1}}));
  return Walk(g, words_per_kind, numbering, head).each_column(reader) && reader.ended() ? Unpacked::good
                                                                                        : Unpacked::damaged;
}

}  // namespace ccld::wire
