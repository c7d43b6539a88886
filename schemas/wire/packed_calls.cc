#include "schemas/wire/packed_calls.h"

#include <algorithm>
#include <memory>

#include "schemas/wire/residuals.h"

namespace ccld::wire {
namespace {

// Beside the flags of a row: times that are not known are 0, which is far from all others.
constexpr uint64_t no_launch = 1 << 8, no_times = 1 << 9, marks_end = 1 << 10;

// Kinds are numbered as they appear, and follow one another as they did before.
template <class Code>
bool each_kind(Code& code, std::vector<CallRow>& rows, size_t kinds) {
  std::vector<uint32_t> follower(kinds);  // plus one; 0: not known
  uint32_t before = 0, new_kind = 0;
  bool known = true;
  each_of(code, 0, rows.size(), [&](size_t i) {
    const uint32_t likely = i > 0 && follower[before] != 0 ? follower[before] - 1 : new_kind;
    code(rows[i].kind, likely);
    if (rows[i].kind >= kinds) known = false, rows[i].kind = 0;
    if (kinds == 0) return;
    if (i > 0) follower[before] = rows[i].kind + 1;
    before = rows[i].kind;
    if (before >= new_kind) new_kind = before + 1;
  });
  return known;
}

// Of each row the one that it is probably like: the last one of its kind, or the one before it.
struct Likes {
  std::vector<uint32_t> like;
  std::vector<uint8_t> seen;  // it is of that kind
  Likes(const std::vector<CallRow>& rows, size_t kinds) : like(rows.size()), seen(rows.size()) {
    std::vector<uint32_t> last(kinds);  // row of each kind, plus one; 0: none
    for (size_t i = 0; i < rows.size(); ++i) {
      uint32_t& of = last[rows[i].kind];
      seen[i] = of != 0;
      like[i] = of != 0 ? of - 1 : i > 0 ? static_cast<uint32_t>(i) - 1 : 0;
      of = static_cast<uint32_t>(i) + 1;
    }
  }
};

// Packs or unpacks, as `code` does; one function, so that both predict alike.
template <class Code>
bool each_column(Code& code, std::vector<CallRow>& rows, size_t kinds, Numbering numbering) {
  const size_t n = rows.size();
  if (n == 0) return true;
  if (kinds == 0 || !each_kind(code, rows, kinds) || !code.good()) return false;
  const Likes likes(rows, kinds);
  const auto like = [&](size_t i) -> const CallRow& { return rows[likes.like[i]]; };
  // A field of few bits, which the row it is like had as well.
  const auto field = [&](auto member) {
    each_of(code, 0, n, [&](size_t i) { code(rows[i].*member, i == 0 ? 0 : like(i).*member); });
  };

  uint64_t first_begin_ns = rows[0].begin_device_ns;
  code.begin(3);
  code(rows[0].number, 0);
  code(rows[0].enter_monotonic_ns, 0);
  code(first_begin_ns, 0);
  code.end();
  each_of(code, 1, n, [&](size_t i) {
    const uint64_t before = numbering == Numbering::of_all ? rows[i - 1].number : likes.seen[i] ? like(i).number : 0;
    code(rows[i].number, before + 1);
  });
  field(&CallRow::replay);

  const std::unique_ptr<uint64_t[]> scratch(new uint64_t[4 * n]);
  uint64_t *const plans = scratch.get(), *const marks = plans + n, *const after_ns = marks + n,
                  *const ns = after_ns + n;
  each_of(code, 0, n, [&](size_t i) {
    const uint64_t before = i == 0 ? 0 : rows[i - 1].plan;
    plans[i] = rows[i].plan - before;
    code(plans[i], i == 0 ? 0 : plans[likes.like[i]]);
    rows[i].plan = static_cast<uint32_t>(before + plans[i]);
  });
  const auto same_kernel = [&](size_t i) {
    return i > 0 && rows[i].plan != 0 && rows[i].plan == rows[i - 1].plan && rows[i].replay == rows[i - 1].replay;
  };
  bool known = true;
  each_of(code, 0, n, [&](size_t i) {
    CallRow& r = rows[i];
    marks[i] = r.flags | (r.launch_monotonic_ns == 0 ? no_launch : 0) |
               (r.begin_device_ns == 0 && r.end_device_ns == 0 ? no_times : 0);
    code(marks[i], i == 0 ? 0 : marks[likes.like[i]]);
    known &= marks[i] < marks_end;
    r.flags = static_cast<uint8_t>(marks[i]);
  });
  field(&CallRow::signals);

  // Calls follow each other as they did before.
  after_ns[0] = 0;
  each_of(code, 1, n, [&](size_t i) {
    const uint64_t before_ns = rows[i - 1].enter_monotonic_ns;
    after_ns[i] = rows[i].enter_monotonic_ns - before_ns;
    code(after_ns[i], same_kernel(i) ? 0 : after_ns[likes.like[i]]);
    rows[i].enter_monotonic_ns = before_ns + after_ns[i];
  });
  each_of(code, 0, n, [&](size_t i) {
    CallRow& r = rows[i];
    uint64_t likely_ns = r.enter_monotonic_ns;
    if (same_kernel(i))
      likely_ns = rows[i - 1].launch_monotonic_ns;
    else if (i > 0 && (marks[likes.like[i]] & no_launch) == 0)
      likely_ns += like(i).launch_monotonic_ns - like(i).enter_monotonic_ns;
    const bool none = (marks[i] & no_launch) != 0;
    if (none) r.launch_monotonic_ns = likely_ns;
    code(r.launch_monotonic_ns, likely_ns);
    if (none) r.launch_monotonic_ns = 0;
  });

  // A kernel begins some time after the one before it has ended.
  each_of(code, 0, n, [&](size_t i) {
    const bool none = (marks[i] & no_times) != 0;
    const uint64_t likely_ns = i == 0 ? 0 : same_kernel(i) ? ns[i - 1] : ns[likes.like[i]];
    ns[i] = none ? likely_ns : rows[i].end_device_ns - rows[i].begin_device_ns;
    code(ns[i], likely_ns);
  });
  uint64_t ended_ns = (marks[0] & no_times) != 0 ? first_begin_ns : first_begin_ns + ns[0];
  after_ns[0] = 0;
  if ((marks[0] & no_times) == 0) rows[0].begin_device_ns = first_begin_ns, rows[0].end_device_ns = ended_ns;
  each_of(code, 1, n, [&](size_t i) {
    const bool none = (marks[i] & no_times) != 0;
    const uint64_t likely_ns = same_kernel(i) ? rows[i - 1].begin_device_ns - ended_ns : after_ns[likes.like[i]];
    after_ns[i] = none ? likely_ns : rows[i].begin_device_ns - ended_ns;
    code(after_ns[i], likely_ns);
    if (none) return;
    rows[i].begin_device_ns = ended_ns + after_ns[i];
    rows[i].end_device_ns = ended_ns = rows[i].begin_device_ns + ns[i];
  });

  field(&CallRow::send_steps);
  field(&CallRow::recv_steps);
  field(&CallRow::send_changes);
  each_of(code, 0, n, [&](size_t i) {
    const uint64_t likely =
        i == 0 ? rows[i].send_changes : uint64_t{like(i).recv_changes} + rows[i].send_changes - like(i).send_changes;
    code(rows[i].recv_changes, likely);
  });
  field(&CallRow::samples);
  return known && code.good();
}

}  // namespace

std::vector<uint8_t> pack(std::vector<CallRow> rows, size_t kinds, Numbering numbering) {
  ResidualWriter writer;
  each_column(writer, rows, kinds, numbering);
  return writer.finish();
}

bool unpack(const uint8_t* bytes, size_t size, size_t kinds, Numbering numbering, std::vector<CallRow>& rows) {
  ResidualReader reader(bytes, size, std::max<size_t>(rows.size(), 3));
  return each_column(reader, rows, kinds, numbering) && reader.ended();
}

}  // namespace ccld::wire
