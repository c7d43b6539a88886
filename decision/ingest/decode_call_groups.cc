// Finished calls of several communicators that came as one message (schemas/wire/call_groups.h).
#include <cstring>
#include <type_traits>

#include "decision/ingest/call_rows.h"
#include "decision/ingest/payload_decoders.h"
#include "schemas/wire/call_groups.h"
#include "schemas/wire/packed_structs.h"

namespace ccld::decision::ingest {
namespace {

struct Names {
  const char *calls, *comm_uid, *rank;
  LinkFields links;
};
constexpr Names round_names{"RoundGroups.calls",
                            "RoundGroups.comm_uid",
                            "RoundGroups.rank",
                            {"RoundGroups.links", nullptr, "RoundGroups.link_first_step"}};
constexpr Names p2p_names{"P2pGroups.calls",
                          "P2pGroups.comm_uid",
                          "P2pGroups.rank",
                          {"P2pGroups.links", nullptr, "P2pGroups.link_first_step"}};

// A part of a vector, taken from its front.
template <class T>
absl::Span<const T> cut(absl::Span<const T>& rest, size_t count) {
  const absl::Span<const T> front = rest.subspan(0, count);
  rest.remove_prefix(front.size());
  return front;
}

template <class Kind>
Kind kind_at(absl::Span<const uint32_t> words, size_t number) {
  static_assert(std::is_trivially_copyable_v<Kind>);
  Kind kind;
  std::memcpy(static_cast<void*>(&kind), words.data() + number * wire::words_of<Kind>, sizeof kind);
  return kind;
}

bool take(Decoder& d, absl::Span<const uint32_t> words, absl::Span<const wire::CallRow> rows, Rounds& out) {
  Signatures signatures(words.size() / wire::words_of<wire::OpSignature>);
  for (size_t i = 0; i < signatures.size(); ++i)
    if (!decode(d, kind_at<wire::OpSignature>(words, i), signatures[i])) return false;
  return take(d, signatures, rows, out.rounds);
}

bool take(Decoder& d, absl::Span<const uint32_t> words, absl::Span<const wire::CallRow> rows, P2pRounds& out) {
  out.rounds.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto kind = kind_at<wire::P2pKind>(words, rows[i].kind);
    if (!take(d, {kind.peer(), kind.direction(), kind.bytes()}, rows[i], out.rounds[i])) return false;
  }
  return true;
}

// `Table`: RoundGroups or P2pGroups; `Model`: Rounds or P2pRounds.
template <class Kind, class Model, class Table>
bool decode(Decoder& d, const Names& names, wire::Numbering numbering, const Table& in, std::vector<Payload>& out) {
  if (!d.vector(names.calls, in.calls(), message_bytes_max) ||
      !d.vector(names.links.links, in.links(), message_bytes_max))
    return false;
  wire::CallGroups g;
  const auto unpacked = in.calls() == nullptr
                            ? wire::Unpacked::damaged
                            : wire::unpack(in.calls()->data(), in.calls()->size(), wire::words_of<Kind>, numbering,
                                           d.rows_left(rounds_per_message_max), g);
  if (unpacked == wire::Unpacked::too_many)
    return d.fail(names.calls,
                  absl::StrCat("have more than ", rounds_per_message_max, " rows, kinds and groups in all"));
  if (unpacked != wire::Unpacked::good) return d.fail(names.calls, "are damaged");
  const size_t kinds = g.kind_words.size() / wire::words_of<Kind>;
  if (!d.rows(names.calls, g.groups.size() + kinds + g.rows.size(), rounds_per_message_max)) return false;

  absl::Span<const uint32_t> words = absl::MakeConstSpan(g.kind_words);
  absl::Span<const wire::CallRow> rows = absl::MakeConstSpan(g.rows);
  absl::Span<const uint8_t> links;
  if (in.links() != nullptr) links = absl::MakeConstSpan(in.links()->data(), in.links()->size());
  for (const wire::CallGroup& group : g.groups) {
    if (!d.comm(names.comm_uid, group.comm_uid) || !d.rank(names.rank, group.rank)) return false;
    if (group.link_bytes > links.size()) return d.fail(names.links.links, "are too short");
    Model& model = std::get<Model>(out.emplace_back(std::in_place_type<Model>));
    model.comm = CommUid(group.comm_uid);
    model.rank = Rank(group.rank);
    if (!take(d, cut(words, group.kinds * wire::words_of<Kind>), cut(rows, group.rows), model)) return false;
    const absl::Span<const uint8_t> bytes = cut(links, group.link_bytes);
    if (group.link_rows != 0 && !unpack_links(d, names.links, group.link_rows, bytes, model.links)) return false;
  }
  return true;
}

}  // namespace

bool decode(Decoder& d, const wire::RoundGroups& in, std::vector<Payload>& out) {
  return decode<wire::OpSignature, Rounds>(d, round_names, wire::Numbering::of_all, in, out);
}

bool decode(Decoder& d, const wire::P2pGroups& in, std::vector<Payload>& out) {
  return decode<wire::P2pKind, P2pRounds>(d, p2p_names, wire::Numbering::of_kind, in, out);
}

}  // namespace ccld::decision::ingest
