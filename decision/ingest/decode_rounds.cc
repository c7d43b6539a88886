#include "decision/ingest/payload_decoders.h"

#include "absl/container/inlined_vector.h"

namespace ccld::decision::ingest {
namespace {

bool decode(Decoder& d, const wire::LinkStages& in, LinkStages& out) {
  out.op = OpSeq(in.op_seq());
  out.gpu_mean_realtime_ns = in.gpu_mean_realtime_ns();
  out.ready_mean_realtime_ns = in.ready_mean_realtime_ns();
  out.wire_mean_realtime_ns = in.wire_mean_realtime_ns();
  out.done_mean_realtime_ns = in.done_mean_realtime_ns();
  out.peer = in.peer();
  out.net_device = in.net_device();
  out.steps = in.steps();
  out.channel = in.channel();
  out.direction = static_cast<abi::Direction>(in.direction());
  out.group = in.group();
  return d.op_seq("LinkStages.op_seq", in.op_seq()) &&
         d.signed_time("LinkStages.gpu_mean_realtime_ns", in.gpu_mean_realtime_ns()) &&
         d.signed_time("LinkStages.ready_mean_realtime_ns", in.ready_mean_realtime_ns()) &&
         d.signed_time("LinkStages.wire_mean_realtime_ns", in.wire_mean_realtime_ns()) &&
         d.signed_time("LinkStages.done_mean_realtime_ns", in.done_mean_realtime_ns()) &&
         d.optional_rank("LinkStages.peer", in.peer()) && d.net_device("LinkStages.net_device", in.net_device()) &&
         d.channel("LinkStages.channel", in.channel()) && d.direction("LinkStages.direction", in.direction()) &&
         d.group("LinkStages.group", in.group());
}

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

// Names of the columns about links, for what is refused.
struct LinkFields {
  const char *links, *proxy_away_us, *first_step;
};
constexpr LinkFields links_of_rounds{"Rounds.links", "Rounds.link_proxy_away_us", "Rounds.link_first_step"};
constexpr LinkFields links_of_p2p{"P2pRounds.links", "P2pRounds.link_proxy_away_us", "P2pRounds.link_first_step"};

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
    LinkStages& link = out[i];
    if (!decode(d, *in.links()->Get(static_cast<flatbuffers::uoffset_t>(i)), link)) return false;
    if (in.link_proxy_away_us() != nullptr)
      link.proxy_away_us = in.link_proxy_away_us()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (in.link_first_step() == nullptr) continue;
    link.first_step = in.link_first_step()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (link.first_step != 0 && link.first_step >= link.steps)
      return d.fail(fields.first_step, absl::StrCat("is ", link.first_step, ", there are ", link.steps, " steps"));
  }
  return true;
}

bool decode_rows(Decoder& d, const wire::Rounds& in, Rounds& out) {
  absl::InlinedVector<Signature, 8> signatures(length(in.signatures()));
  for (size_t i = 0; i < signatures.size(); ++i) {
    if (!decode(d, *in.signatures()->Get(i), signatures[i])) return false;
  }
  const size_t rows = length(in.op_seq());
  const uint64_t* const op_seq = elements(in.op_seq());
  const uint32_t* const replay = elements(in.replay());
  const uint16_t* const index = elements(in.signature_index());
  const uint64_t *const enter = elements(in.enter_monotonic_ns()), *const launch = elements(in.launch_monotonic_ns()),
                        *const begin = elements(in.begin_device_ns()), *const end = elements(in.end_device_ns());
  const uint32_t *const send_steps = elements(in.send_steps()), *const recv_steps = elements(in.recv_steps()),
                        *const send_changes = elements(in.send_changes()),
                        *const recv_changes = elements(in.recv_changes()), *const samples = elements(in.samples());
  const uint8_t *const flags = elements(in.flags()), *const signals = elements(in.signals());

  // Whether anything is out of range at all; only then which.
  uint64_t times = 0, op_seq_last = 0;
  bool in_order = true, in_range = true;
  for (size_t i = 0; i < rows; ++i) {
    times |= (enter[i] > time_ns_max) | (launch[i] > time_ns_max) | (begin[i] > time_ns_max) | (end[i] > time_ns_max);
    in_range &= op_seq[i] - 1 < sequence_max && index[i] < signatures.size();
    // A graph is replayed long after its operations were called: only calls are in order.
    if (replay != nullptr && replay[i] != 0) continue;
    in_order &= op_seq[i] >= op_seq_last;
    op_seq_last = op_seq[i];
  }
  for (size_t i = 0; !in_range && i < rows; ++i) {
    if (!d.op_seq("Rounds.op_seq", op_seq[i])) return false;
    if (index[i] >= signatures.size())
      return d.fail("Rounds.signature_index",
                    absl::StrCat("is ", index[i], ", there are ", signatures.size(), " signatures"));
  }
  if (!in_order) return d.fail("Rounds.op_seq", "is not in order");
  for (size_t i = 0; times != 0 && i < rows; ++i) {
    if (!d.time("Rounds.enter_monotonic_ns", enter[i]) || !d.time("Rounds.launch_monotonic_ns", launch[i]) ||
        !d.time("Rounds.begin_device_ns", begin[i]) || !d.time("Rounds.end_device_ns", end[i])) {
      return false;
    }
  }

  out.rounds.resize(rows);
  for (size_t i = 0; i < rows; ++i) {
    Round& round = out.rounds[i];
    round.op = OpSeq(op_seq[i]);
    round.signature = signatures[index[i]];
    round.enter_monotonic_ns = enter[i];
    round.launch_monotonic_ns = launch[i];
    round.begin_device_ns = begin[i];
    round.end_device_ns = end[i];
    round.send_steps = send_steps[i];
    round.recv_steps = recv_steps[i];
    round.send_changes = send_changes[i];
    round.recv_changes = recv_changes[i];
    round.samples = samples[i];
    round.flags = flags[i];
    if (replay != nullptr) round.replay = replay[i];
    if (signals != nullptr) round.signals = signals[i];
  }
  return true;
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
  if (rows > 0 && !decode_rows(d, in, out)) return false;
  return decode_links(d, in, links_of_rounds, out.links);
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
    P2pRound& round = out.rounds[i];
    round.peer = Rank(in.peer()->Get(i));
    round.direction = static_cast<abi::Direction>(in.direction()->Get(i));
    round.pair_seq = in.pair_seq()->Get(i);
    round.bytes = in.bytes()->Get(i);
    round.enter_monotonic_ns = in.enter_monotonic_ns()->Get(i);
    round.launch_monotonic_ns = in.launch_monotonic_ns()->Get(i);
    round.begin_device_ns = in.begin_device_ns()->Get(i);
    round.end_device_ns = in.end_device_ns()->Get(i);
    round.flags = in.flags()->Get(i);
    round.replay = in.replay()->Get(i);
    round.plan = in.plan()->Get(i);
    if (in.send_steps() != nullptr) round.send_steps = in.send_steps()->Get(i);
    if (in.recv_steps() != nullptr) round.recv_steps = in.recv_steps()->Get(i);
    if (!d.rank("P2pRounds.peer", round.peer.value) || !d.direction("P2pRounds.direction", in.direction()->Get(i)) ||
        !d.op_seq("P2pRounds.pair_seq", round.pair_seq) ||
        !d.time("P2pRounds.enter_monotonic_ns", round.enter_monotonic_ns) ||
        !d.time("P2pRounds.launch_monotonic_ns", round.launch_monotonic_ns) ||
        !d.time("P2pRounds.begin_device_ns", round.begin_device_ns) ||
        !d.time("P2pRounds.end_device_ns", round.end_device_ns)) {
      return false;
    }
  }
  return decode_links(d, in, links_of_p2p, out.links);
}

}  // namespace ccld::decision::ingest
