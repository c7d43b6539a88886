#include "schemas/wire/packed_links.h"

#include <algorithm>
#include <type_traits>

#include "schemas/wire/residuals.h"

namespace ccld::wire {
namespace {

bool same_end(const LinkRow& a, const LinkRow& b) {
  return a.peer == b.peer && a.channel == b.channel && a.direction == b.direction && a.group == b.group;
}

size_t period_of(const std::vector<LinkRow>& rows) {
  size_t i = 1;
  while (i < rows.size() && !same_end(rows[i], rows[0])) ++i;
  return i;
}

// Packs or unpacks, as `code` does; one function, so that both predict alike. `period`: after how many rows the same
// connection ends come again.
template <class Code>
bool each_column(Code& code, std::vector<LinkRow>& rows, size_t period) {
  const size_t n = rows.size();
  if (n == 0) return true;
  int64_t first_ns = rows[0].gpu_mean_realtime_ns;
  code.begin(3);
  code(period, 0);
  code(rows[0].op_seq, 0);
  code(first_ns, 0);
  code.end();
  if (period == 0 || !code.good()) return false;
  const auto like = [&](size_t i) -> const LinkRow& { return rows[i < period ? i - 1 : i - period]; };
  // Of 32 bits or less.
  const auto field = [&](auto member) {
    each_of(code, 0, n, [&](size_t i) {
      auto value = static_cast<int64_t>(rows[i].*member);
      code(value, i == 0 ? 0 : static_cast<uint64_t>(static_cast<int64_t>(like(i).*member)));
      rows[i].*member = static_cast<std::remove_reference_t<decltype(rows[i].*member)>>(value);
    });
  };
  each_of(code, 1, n, [&](size_t i) { code(rows[i].op_seq, rows[i - 1].op_seq); });
  field(&LinkRow::peer);
  field(&LinkRow::net_device);
  field(&LinkRow::channel);
  field(&LinkRow::direction);
  field(&LinkRow::group);
  field(&LinkRow::steps);
  field(&LinkRow::first_step);
  each_of(code, 0, n, [&](size_t i) { code(rows[i].proxy_away_us, 0); });

  // Each stage comes soon after the one before it; those that are not known are 0, which is far from all others.
  int64_t LinkRow::*const stages[] = {&LinkRow::gpu_mean_realtime_ns, &LinkRow::ready_mean_realtime_ns,
                                      &LinkRow::wire_mean_realtime_ns, &LinkRow::done_mean_realtime_ns};
  std::vector<uint64_t> unknown(n);
  each_of(code, 0, n, [&](size_t i) {
    for (size_t s = 0; s < 4; ++s) unknown[i] |= uint64_t{rows[i].*stages[s] == 0} << s;
    code(unknown[i], i == 0 ? 0 : unknown[i < period ? i - 1 : i - period]);
  });
  std::vector<int64_t> near_ns(n, first_ns);  // the newest stage that is known
  for (size_t s = 0; s < 4; ++s)
    each_of(code, 0, n, [&](size_t i) {
      const int64_t likely_ns = s == 0 && i > 0 ? near_ns[i - 1] : near_ns[i];
      const bool none = (unknown[i] >> s & 1) != 0;
      int64_t ns = none ? likely_ns : rows[i].*stages[s];
      code(ns, static_cast<uint64_t>(likely_ns));
      near_ns[i] = ns;
      rows[i].*stages[s] = none ? 0 : ns;
    });
  return code.good();
}

}  // namespace

std::vector<uint8_t> pack(std::vector<LinkRow> rows) {
  ResidualWriter writer;
  each_column(writer, rows, period_of(rows));
  return writer.finish();
}

bool unpack(const uint8_t* bytes, size_t size, std::vector<LinkRow>& rows) {
  ResidualReader reader(bytes, size, std::max<size_t>(rows.size(), 3));
  return each_column(reader, rows, 0) && reader.ended();
}

}  // namespace ccld::wire
