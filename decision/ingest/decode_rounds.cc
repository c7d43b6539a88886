#include "decision/ingest/call_rows.h"
#include "decision/ingest/payload_decoders.h"
#include "schemas/wire/packed_calls.h"

namespace ccld::decision::ingest {
namespace {

// A column must be as long as the first one.
template <class T>
bool column(Decoder& d, const char* field, const flatbuffers::Vector<T>* v, size_t rows, const char* first = "op_seq") {
  if (length(v) != rows) return d.fail(field, absl::StrCat("has ", length(v), " rows, ", first, " has ", rows));
  return d.vector(field, v, rounds_per_message_max);
}

// One that may be absent.
template <class T>
bool optional_column(Decoder& d, const char* field, const flatbuffers::Vector<T>* v, size_t rows,
                     const char* first = "op_seq") {
  return v == nullptr || column(d, field, v, rows, first);
}

// The elements of a column that has been checked to be there. (Little-endian machines only, as the schema's structs
// are.)
template <class T>
const T* elements(const flatbuffers::Vector<T>* v) {
  return v == nullptr ? nullptr : reinterpret_cast<const T*>(v->Data());
}

constexpr LinkFields links_of_rounds{"Rounds.links", "Rounds.link_proxy_away_us", "Rounds.link_first_step"};
constexpr LinkFields links_of_p2p{"P2pRounds.links", "P2pRounds.link_proxy_away_us", "P2pRounds.link_first_step"};
constexpr LinkFields packed_links_of_rounds{"PackedRounds.links", nullptr, "PackedRounds.link_first_step"};
constexpr LinkFields packed_links_of_p2p{"PackedP2pRounds.links", nullptr, "PackedP2pRounds.link_first_step"};

// `Table`: Rounds or P2pRounds.
template <class Table>
bool decode_links(Decoder& d, const Table& in, const LinkFields& fields, std::vector<LinkStages>& out) {
  const size_t rows = length(in.links());
  if (!d.vector(fields.links, in.links(), links_per_message_max) ||
      !optional_column(d, fields.proxy_away_us, in.link_proxy_away_us(), rows, "links") ||
      !optional_column(d, fields.first_step, in.link_first_step(), rows, "links"))
    return false;
  out.resize(rows);
  for (size_t i = 0; i < rows; ++i) {
    const auto at = static_cast<flatbuffers::uoffset_t>(i);
    const wire::LinkStages& l = *in.links()->Get(at);
    wire::LinkRow r{l.op_seq(),
                    l.gpu_mean_realtime_ns(),
                    l.ready_mean_realtime_ns(),
                    l.wire_mean_realtime_ns(),
                    l.done_mean_realtime_ns(),
                    l.peer(),
                    l.net_device(),
                    l.steps(),
                    0,
                    0,
                    l.channel(),
                    l.direction(),
                    l.group()};
    if (in.link_proxy_away_us() != nullptr) r.proxy_away_us = in.link_proxy_away_us()->Get(at);
    if (in.link_first_step() != nullptr) r.first_step = in.link_first_step()->Get(at);
    if (!take(d, fields, r, out[i])) return false;
  }
  return true;
}

bool decode_packed_links(Decoder& d, const LinkFields& fields, uint32_t rows,
                         const flatbuffers::Vector<uint8_t>* packed, std::vector<LinkStages>& out) {
  if (rows == 0 && packed == nullptr) return true;
  return d.vector(fields.links, packed, message_bytes_max) &&
         unpack_links(
             d, fields, rows,
             packed == nullptr ? absl::Span<const uint8_t>() : absl::MakeConstSpan(packed->data(), packed->size()),
             out);
}

bool decode(Decoder& d, const flatbuffers::Vector<const wire::OpSignature*>* in, Signatures& out) {
  out.resize(length(in));
  for (size_t i = 0; i < out.size(); ++i)
    if (!decode(d, *in->Get(static_cast<flatbuffers::uoffset_t>(i)), out[i])) return false;
  return true;
}

// Rows of columns as they are.
std::vector<wire::CallRow> rows_of(const wire::Rounds& in) {
  std::vector<wire::CallRow> rows(length(in.op_seq()));
  const uint64_t *const op_seq = elements(in.op_seq()), *const enter = elements(in.enter_monotonic_ns()),
                        *const launch = elements(in.launch_monotonic_ns()),
                        *const begin = elements(in.begin_device_ns()), *const end = elements(in.end_device_ns());
  const uint32_t *const replay = elements(in.replay()), *const send_steps = elements(in.send_steps()),
                        *const recv_steps = elements(in.recv_steps()),
                        *const send_changes = elements(in.send_changes()),
                        *const recv_changes = elements(in.recv_changes()), *const samples = elements(in.samples());
  const uint16_t* const index = elements(in.signature_index());
  const uint8_t *const flags = elements(in.flags()), *const signals = elements(in.signals());
  for (size_t i = 0; i < rows.size(); ++i) {
    wire::CallRow& r = rows[i];
    r.number = op_seq[i], r.kind = index[i];
    if (replay != nullptr) r.replay = replay[i];
    r.enter_monotonic_ns = enter[i], r.launch_monotonic_ns = launch[i];
    r.begin_device_ns = begin[i], r.end_device_ns = end[i];
    r.send_steps = send_steps[i], r.recv_steps = recv_steps[i];
    r.send_changes = send_changes[i], r.recv_changes = recv_changes[i];
    r.samples = samples[i];
    r.flags = flags[i], r.signals = signals != nullptr ? signals[i] : signals_default;
  }
  return rows;
}

// `Table`: PackedRounds or PackedP2pRounds.
template <class Table>
bool unpack(Decoder& d, const char* field, const Table& in, size_t kinds, wire::Numbering numbering,
            std::vector<wire::CallRow>& rows) {
  if (!d.rows(field, in.rows(), rounds_per_message_max) || !d.vector(field, in.calls(), message_bytes_max))
    return false;
  rows.resize(in.rows());
  if (rows.empty() && in.calls() == nullptr) return true;
  return (in.calls() != nullptr && wire::unpack(in.calls()->data(), in.calls()->size(), kinds, numbering, rows)) ||
         d.fail(field, absl::StrCat("are not ", in.rows(), " rows of ", kinds, " kinds"));
}

}  // namespace

bool decode(Decoder& d, const wire::OpSignature& in, Signature& out) {
  out.count = in.count();
  out.root = in.root();
  out.function = static_cast<abi::Function>(in.function());
  out.datatype = static_cast<abi::Datatype>(in.datatype());
  out.reduction = static_cast<abi::Reduction>(in.reduction());
  out.algorithm = static_cast<abi::Algorithm>(in.algorithm());
  out.protocol = static_cast<abi::Protocol>(in.protocol());
  out.flags = in.flags();
  out.channels = in.channels();
  return d.optional_rank("OpSignature.root", in.root()) &&
         d.within<uint16_t>("OpSignature.channels", in.channels(), 0, abi::channels_max);
}

bool decode(Decoder& d, const wire::Rounds& in, Rounds& out) {
  const size_t rows = length(in.op_seq());
  if (!d.comm("Rounds.comm_uid", in.comm_uid()) || !d.rank("Rounds.rank", in.rank()) ||
      !d.vector("Rounds.op_seq", in.op_seq(), rounds_per_message_max) ||
      !d.vector("Rounds.signatures", in.signatures(), rounds_per_message_max) ||
      !column(d, "Rounds.signature_index", in.signature_index(), rows) ||
      !column(d, "Rounds.enter_monotonic_ns", in.enter_monotonic_ns(), rows) ||
      !column(d, "Rounds.launch_monotonic_ns", in.launch_monotonic_ns(), rows) ||
      !column(d, "Rounds.begin_device_ns", in.begin_device_ns(), rows) ||
      !column(d, "Rounds.end_device_ns", in.end_device_ns(), rows) ||
      !column(d, "Rounds.send_steps", in.send_steps(), rows) ||
      !column(d, "Rounds.recv_steps", in.recv_steps(), rows) ||
      !column(d, "Rounds.send_changes", in.send_changes(), rows) ||
      !column(d, "Rounds.recv_changes", in.recv_changes(), rows) || !column(d, "Rounds.samples", in.samples(), rows) ||
      !column(d, "Rounds.flags", in.flags(), rows) || !optional_column(d, "Rounds.replay", in.replay(), rows) ||
      !optional_column(d, "Rounds.signals", in.signals(), rows)) {
    return false;
  }
  out.comm = CommUid(in.comm_uid());
  out.rank = Rank(in.rank());
  Signatures signatures;
  if (rows > 0 && (!decode(d, in.signatures(), signatures) || !take(d, signatures, rows_of(in), out.rounds)))
    return false;
  return decode_links(d, in, links_of_rounds, out.links);
}

bool decode(Decoder& d, const wire::PackedRounds& in, Rounds& out) {
  out.comm = CommUid(in.comm_uid());
  out.rank = Rank(in.rank());
  Signatures signatures;
  std::vector<wire::CallRow> rows;
  return d.comm("PackedRounds.comm_uid", in.comm_uid()) && d.rank("PackedRounds.rank", in.rank()) &&
         d.vector("PackedRounds.signatures", in.signatures(), rounds_per_message_max) &&
         decode(d, in.signatures(), signatures) &&
         unpack(d, "PackedRounds.calls", in, signatures.size(), wire::Numbering::of_all, rows) &&
         take(d, signatures, absl::MakeConstSpan(rows), out.rounds) &&
         decode_packed_links(d, packed_links_of_rounds, in.link_rows(), in.links(), out.links);
}

bool decode(Decoder& d, const wire::P2pRounds& in, P2pRounds& out) {
  const size_t rows = length(in.peer());
  const auto same = [&](const char* field, const auto* v) { return column(d, field, v, rows, "peer"); };
  if (!d.comm("P2pRounds.comm_uid", in.comm_uid()) || !d.rank("P2pRounds.rank", in.rank()) ||
      !d.vector("P2pRounds.peer", in.peer(), rounds_per_message_max) || !same("P2pRounds.direction", in.direction()) ||
      !same("P2pRounds.pair_seq", in.pair_seq()) || !same("P2pRounds.bytes", in.bytes()) ||
      !same("P2pRounds.enter_monotonic_ns", in.enter_monotonic_ns()) ||
      !same("P2pRounds.launch_monotonic_ns", in.launch_monotonic_ns()) ||
      !same("P2pRounds.begin_device_ns", in.begin_device_ns()) ||
      !same("P2pRounds.end_device_ns", in.end_device_ns()) || !same("P2pRounds.flags", in.flags()) ||
      !same("P2pRounds.replay", in.replay()) || !same("P2pRounds.plan", in.plan()) ||
      !optional_column(d, "P2pRounds.send_steps", in.send_steps(), rows) ||
      !optional_column(d, "P2pRounds.recv_steps", in.recv_steps(), rows)) {
    return false;
  }
  out.comm = CommUid(in.comm_uid());
  out.rank = Rank(in.rank());
  out.rounds.resize(rows);
  for (size_t i = 0; i < rows; ++i) {
    const auto at = static_cast<flatbuffers::uoffset_t>(i);
    wire::CallRow r;
    r.number = in.pair_seq()->Get(at);
    r.enter_monotonic_ns = in.enter_monotonic_ns()->Get(at), r.launch_monotonic_ns = in.launch_monotonic_ns()->Get(at);
    r.begin_device_ns = in.begin_device_ns()->Get(at), r.end_device_ns = in.end_device_ns()->Get(at);
    r.flags = in.flags()->Get(at), r.replay = in.replay()->Get(at), r.plan = in.plan()->Get(at);
    if (in.send_steps() != nullptr) r.send_steps = in.send_steps()->Get(at);
    if (in.recv_steps() != nullptr) r.recv_steps = in.recv_steps()->Get(at);
    if (!take(d, {in.peer()->Get(at), in.direction()->Get(at), in.bytes()->Get(at)}, r, out.rounds[i])) return false;
  }
  return decode_links(d, in, links_of_p2p, out.links);
}

bool decode(Decoder& d, const wire::PackedP2pRounds& in, P2pRounds& out) {
  out.comm = CommUid(in.comm_uid());
  out.rank = Rank(in.rank());
  std::vector<wire::CallRow> rows;
  if (!d.comm("PackedP2pRounds.comm_uid", in.comm_uid()) || !d.rank("PackedP2pRounds.rank", in.rank()) ||
      !d.vector("PackedP2pRounds.kinds", in.kinds(), rounds_per_message_max) ||
      !unpack(d, "PackedP2pRounds.calls", in, length(in.kinds()), wire::Numbering::of_kind, rows))
    return false;
  out.rounds.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const wire::P2pKind& kind = *in.kinds()->Get(rows[i].kind);
    if (!take(d, {kind.peer(), kind.direction(), kind.bytes()}, rows[i], out.rounds[i])) return false;
  }
  return decode_packed_links(d, packed_links_of_p2p, in.link_rows(), in.links(), out.links);
}

}  // namespace ccld::decision::ingest
