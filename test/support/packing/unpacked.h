// Rows of packed messages, for tests that look at what a probe sent.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "schemas/wire/call_groups.h"
#include "schemas/wire/packed_links.h"
#include "schemas/wire/packed_metrics.h"
#include "schemas/wire/packed_structs.h"
#include "schemas/wire/telemetry_generated.h"

namespace ccld::test {

// The finished calls of one communicator.
template <class Kind>
struct Calls {
  wire::CallGroup of;
  std::vector<Kind> kinds;
  std::vector<wire::CallRow> rows;
  std::vector<wire::LinkRow> links;
};

template <class Kind, class Table>
std::vector<Calls<Kind>> calls_of(const Table& m, wire::Numbering numbering) {
  constexpr size_t words = wire::words_of<Kind>;
  wire::CallGroups g;
  if (m.calls() == nullptr ||
      wire::unpack(m.calls()->data(), m.calls()->size(), words, numbering, 65536, g) != wire::Unpacked::good)
    throw std::runtime_error("packed calls cannot be read");
  std::vector<Calls<Kind>> out;
  size_t kind = 0, row = 0, link = 0;
  for (const wire::CallGroup& group : g.groups) {
    Calls<Kind>& calls = out.emplace_back();
    calls.of = group;
    for (size_t end = kind + group.kinds; kind < end; ++kind)
      calls.kinds.push_back(*reinterpret_cast<const Kind*>(&g.kind_words[kind * words]));
    calls.rows.assign(&g.rows[row], &g.rows[row] + group.rows);
    row += group.rows;
    if (group.link_rows == 0) continue;
    calls.links.resize(group.link_rows);
    if (m.links() == nullptr || link + group.link_bytes > m.links()->size() ||
        !wire::unpack(m.links()->data() + link, group.link_bytes, calls.links))
      throw std::runtime_error("packed links cannot be read");
    link += group.link_bytes;
  }
  return out;
}
inline auto calls_of(const wire::RoundGroups& m) { return calls_of<wire::OpSignature>(m, wire::Numbering::of_all); }
inline auto calls_of(const wire::P2pGroups& m) { return calls_of<wire::P2pKind>(m, wire::Numbering::of_kind); }

// Texts that each end with a zero byte.
inline std::vector<std::string> texts_of(const flatbuffers::String* all) {
  std::vector<std::string> out;
  for (size_t at = 0; all != nullptr && at < all->size(); at += out.back().size() + 1)
    out.emplace_back(all->c_str() + at);
  return out;
}

inline std::vector<wire::MetricRow> metrics_of(const wire::Metrics& m) {
  std::vector<wire::MetricRow> out(m.rows());
  if (m.packed() == nullptr || !wire::unpack(m.packed()->data(), m.packed()->size(), out))
    throw std::runtime_error("packed metrics cannot be read");
  return out;
}

template <class Struct>
std::vector<Struct> unpacked(const flatbuffers::Vector<uint8_t>* bytes, uint32_t rows) {
  std::vector<Struct> out(rows);
  if (bytes != nullptr && !wire::unpack(bytes->data(), bytes->size(), out))
    throw std::runtime_error("packed structs cannot be read");
  return out;
}

}  // namespace ccld::test
