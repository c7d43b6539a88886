// Rows of packed messages, for tests that look at what a probe sent.
#pragma once

#include <stdexcept>
#include <vector>

#include "schemas/wire/packed_calls.h"
#include "schemas/wire/packed_links.h"
#include "schemas/wire/packed_metrics.h"
#include "schemas/wire/packed_structs.h"
#include "schemas/wire/telemetry_generated.h"

namespace ccld::test {

inline std::vector<wire::CallRow> calls_of(const flatbuffers::Vector<uint8_t>* bytes, uint32_t rows, size_t kinds,
                                           wire::Numbering numbering) {
  std::vector<wire::CallRow> out(rows);
  if (bytes == nullptr || !wire::unpack(bytes->data(), bytes->size(), kinds, numbering, out))
    throw std::runtime_error("packed calls cannot be read");
  return out;
}
inline std::vector<wire::CallRow> calls_of(const wire::PackedRounds& m) {
  return calls_of(m.calls(), m.rows(), m.signatures()->size(), wire::Numbering::of_all);
}
inline std::vector<wire::CallRow> calls_of(const wire::PackedP2pRounds& m) {
  return calls_of(m.calls(), m.rows(), m.kinds()->size(), wire::Numbering::of_kind);
}

template <class Message>
std::vector<wire::LinkRow> links_of(const Message& m) {
  std::vector<wire::LinkRow> out(m.link_rows());
  if (m.links() == nullptr) return out;
  if (!wire::unpack(m.links()->data(), m.links()->size(), out)) throw std::runtime_error("packed links cannot be read");
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
