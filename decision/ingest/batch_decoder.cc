#include "decision/ingest/batch_decoder.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "decision/ingest/limits.h"
#include "schemas/wire/telemetry_generated.h"

namespace ccld::decision::ingest {
namespace {

constexpr char reason_url[] = "ccld/reject_reason";
constexpr char key_url[] = "ccld/reject_key";

constexpr uint32_t comm_state_max = static_cast<uint32_t>(abi::CommState::init_failed);
constexpr uint8_t init_stage_max = static_cast<uint8_t>(abi::InitStage::failed);
constexpr uint32_t net_kind_max = static_cast<uint32_t>(abi::NetKind::socket);
constexpr uint32_t log_max = static_cast<uint32_t>(abi::LogVerbosity::trace);
constexpr uint8_t direction_max = static_cast<uint8_t>(abi::Direction::send);
constexpr uint8_t wait_kind_max = static_cast<uint8_t>(abi::WaitKind::credit);

template <class T>
size_t length(const flatbuffers::Vector<T>* v) {
  return v == nullptr ? 0 : v->size();
}

// A builder may store equal strings once; more sharing than this is not honest.
constexpr size_t sharing_max = 4;

// The message under decoding and the first thing found wrong with it. Checks after a failure are harmless, and a decode
// function leaves as soon as it would have to rely on one.
class Decoder {
 public:
  explicit Decoder(size_t message_bytes) : budget_bytes_(message_bytes * sharing_max) {}

  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  bool fail(const char* field, const std::string& what) {
    if (status_.ok()) status_ = rejection(RejectReason::field, field, absl::StrCat(field, " ", what));
    return false;
  }

  template <class Value>
  bool within(const char* field, Value value, Value low, Value high) {
    if (value >= low && value <= high) return true;
    return fail(field, absl::StrCat("is ", +value, ", outside ", +low, "..", +high));
  }

  // Every vector is charged at its size on the wire. An honest message has room for each; one that refers to the same
  // vector again and again has not, and is stopped before it fills the memory.
  template <class T>
  bool vector(const char* field, const flatbuffers::Vector<T>* v, size_t length_max) {
    const size_t n = length(v);
    if (n > length_max) return fail(field, absl::StrCat("has ", n, " elements, more than ", length_max));
    return charge(field, n * flatbuffers::IndirectHelper<T>::element_stride);
  }

  bool text(const char* field, const flatbuffers::String* s, std::string& out) {
    const size_t n = s == nullptr ? 0 : s->size();
    if (n > text_bytes_max) return fail(field, absl::StrCat("has ", n, " bytes, more than ", text_bytes_max));
    if (!charge(field, n)) return false;
    out.assign(n == 0 ? "" : s->c_str(), n);
    for (char& c : out) {
      if (std::iscntrl(static_cast<unsigned char>(c))) c = '?';
    }
    return true;
  }

  bool rank(const char* field, int32_t value) { return within<int32_t>(field, value, 0, rank_count_max - 1); }
  bool optional_rank(const char* field, int32_t value) { return within<int32_t>(field, value, -1, rank_count_max - 1); }
  bool channel(const char* field, uint16_t value) { return within<uint16_t>(field, value, 0, abi::channels_max - 1); }
  bool net_device(const char* field, int32_t value) { return within<int32_t>(field, value, -1, net_devices_max - 1); }
  bool direction(const char* field, uint8_t value) { return within<uint8_t>(field, value, 0, direction_max); }
  bool group(const char* field, uint8_t value) { return within<uint8_t>(field, value, 0, abi::lane_groups - 1); }
  bool time(const char* field, uint64_t value) { return within<uint64_t>(field, value, 0, time_ns_max); }
  bool signed_time(const char* field, int64_t value) {
    return within<int64_t>(field, value, -static_cast<int64_t>(time_ns_max), static_cast<int64_t>(time_ns_max));
  }
  bool op_seq(const char* field, uint64_t value) { return within<uint64_t>(field, value, 1, sequence_max); }
  bool optional_op_seq(const char* field, uint64_t value) { return within<uint64_t>(field, value, 0, sequence_max); }
  bool comm(const char* field, uint64_t value) { return value != 0 || fail(field, "is 0"); }

 private:
  bool charge(const char* field, size_t bytes) {
    if (bytes > budget_bytes_) return fail(field, "refers to data that other fields refer to as well");
    budget_bytes_ -= bytes;
    return true;
  }

  absl::Status status_;
  size_t budget_bytes_;
};

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

bool decode(Decoder& d, const wire::ChannelTopology& in, int32_t rank_count, ChannelTopology& out) {
  const int32_t rank_last = rank_count - 1;
  if (!d.channel("ChannelTopology.channel", in.channel()) ||
      !d.within("ChannelTopology.ring_prev", in.ring_prev(), -1, rank_last) ||
      !d.within("ChannelTopology.ring_next", in.ring_next(), -1, rank_last) ||
      !d.within("ChannelTopology.tree_up", in.tree_up(), -1, rank_last) ||
      !d.within("ChannelTopology.tree_depth", in.tree_depth(), -1, rank_last) ||
      !d.vector("ChannelTopology.tree_down", in.tree_down(), tree_children_max)) {
    return false;
  }
  out.channel = in.channel();
  out.ring_prev = in.ring_prev();
  out.ring_next = in.ring_next();
  out.tree_up = in.tree_up();
  out.tree_depth = in.tree_depth();
  for (size_t i = 0; i < length(in.tree_down()); ++i) {
    const int32_t child = in.tree_down()->Get(i);
    if (!d.within("ChannelTopology.tree_down", child, -1, rank_last)) return false;
    if (child >= 0) out.tree_down.push_back(child);
  }
  return true;
}

bool decode(Decoder& d, const wire::NetConnection& in, int32_t rank_count, NetConnection& out) {
  out.channel = in.channel();
  out.direction = static_cast<abi::Direction>(in.direction());
  out.peer = in.peer();
  out.net_device = in.net_device();
  return d.channel("NetConnection.channel", in.channel()) && d.direction("NetConnection.direction", in.direction()) &&
         d.within("NetConnection.peer", in.peer(), -1, rank_count - 1) &&
         d.net_device("NetConnection.net_device", in.net_device()) &&
         d.text("NetConnection.net_name", in.net_name(), out.net_name);
}

bool decode(Decoder& d, const wire::CommUp& in, CommUp& out) {
  if (!d.comm("CommUp.comm_uid", in.comm_uid()) ||
      !d.within("CommUp.rank_count", in.rank_count(), 1, rank_count_max) ||
      !d.within("CommUp.rank", in.rank(), 0, in.rank_count() - 1) ||
      !d.within("CommUp.node", in.node(), 0, in.rank_count() - 1) ||
      !d.within("CommUp.node_count", in.node_count(), 0, in.rank_count()) ||
      !d.within("CommUp.local_rank", in.local_rank(), 0, in.rank_count() - 1) ||
      !d.within("CommUp.cuda_device", in.cuda_device(), -1, cuda_devices_max - 1) ||
      !d.vector("CommUp.channels", in.channels(), abi::channels_max) ||
      !d.vector("CommUp.connections", in.connections(), connections_max) ||
      !d.text("CommUp.name", in.name(), out.name) || !d.text("CommUp.gpu_bus_id", in.gpu_bus_id(), out.gpu_bus_id) ||
      !d.text("CommUp.host", in.host(), out.host)) {
    return false;
  }
  out.comm = CommUid(in.comm_uid());
  out.comm_hash = in.comm_hash();
  out.comm_number = in.comm_number();
  out.rank = Rank(in.rank());
  out.rank_count = in.rank_count();
  out.node = in.node();
  out.node_count = in.node_count();
  out.local_rank = in.local_rank();
  out.cuda_device = in.cuda_device();
  out.mode = in.mode();
  out.parent = CommUid(in.parent_uid());
  out.channels.resize(length(in.channels()));
  for (size_t i = 0; i < out.channels.size(); ++i) {
    if (!decode(d, *in.channels()->Get(i), in.rank_count(), out.channels[i])) return false;
  }
  out.connections.resize(length(in.connections()));
  for (size_t i = 0; i < out.connections.size(); ++i) {
    if (!decode(d, *in.connections()->Get(i), in.rank_count(), out.connections[i])) return false;
  }
  return true;
}

bool decode(Decoder& d, const wire::CommDown& in, CommDown& out) {
  out.comm = CommUid(in.comm_uid());
  out.rank = Rank(in.rank());
  out.state = static_cast<abi::CommState>(in.state());
  out.last_entered = OpSeq(in.last_entered_op_seq());
  return d.comm("CommDown.comm_uid", in.comm_uid()) && d.rank("CommDown.rank", in.rank()) &&
         d.within<uint32_t>("CommDown.state", in.state(), 0, comm_state_max) &&
         d.optional_op_seq("CommDown.last_entered_op_seq", in.last_entered_op_seq());
}

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

bool decode(Decoder& d, const wire::CommInit& in, CommInit& out) {
  out.comm_hash = in.comm_hash();
  out.rank = Rank(in.rank());
  out.rank_count = in.rank_count();
  out.stage = static_cast<abi::InitStage>(in.stage());
  out.stage_age_ms = in.stage_age_ms();
  out.enter_age_ms = in.enter_age_ms();
  out.result = in.result();
  out.cuda_device = in.cuda_device();
  out.number = in.number();
  return d.within("CommInit.rank_count", in.rank_count(), 1, rank_count_max) &&
         d.within("CommInit.rank", in.rank(), 0, in.rank_count() - 1) &&
         d.within<uint8_t>("CommInit.stage", in.stage(), 0, init_stage_max) &&
         d.within("CommInit.cuda_device", in.cuda_device(), -1, cuda_devices_max - 1);
}

// A column must be as long as the first one.
template <class T>
bool column(Decoder& d, const char* field, const flatbuffers::Vector<T>* v, size_t rows, const char* first = "op_seq") {
  if (length(v) != rows) return d.fail(field, absl::StrCat("has ", length(v), " rows, ", first, " has ", rows));
  return d.vector(field, v, rounds_per_message_max);
}

// One that may be absent.
template <class T>
bool optional_column(Decoder& d, const char* field, const flatbuffers::Vector<T>* v, size_t rows) {
  return v == nullptr || column(d, field, v, rows);
}

// The elements of a column that has been checked to be there. (Little-endian machines only, as the schema's structs are.)
template <class T>
const T* elements(const flatbuffers::Vector<T>* v) {
  return v == nullptr ? nullptr : reinterpret_cast<const T*>(v->Data());
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
                 *const send_changes = elements(in.send_changes()), *const recv_changes = elements(in.recv_changes()),
                 *const samples = elements(in.samples());
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
      return d.fail("Rounds.signature_index", absl::StrCat("is ", index[i], ", there are ", signatures.size(), " signatures"));
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

bool decode(Decoder& d, const wire::Rounds& in, Rounds& out) {
  const size_t rows = length(in.op_seq());
  if (!d.comm("Rounds.comm_uid", in.comm_uid()) || !d.rank("Rounds.rank", in.rank()) ||
      !d.vector("Rounds.op_seq", in.op_seq(), rounds_per_message_max) ||
      !d.vector("Rounds.signatures", in.signatures(), rounds_per_message_max) ||
      !d.vector("Rounds.links", in.links(), links_per_message_max) ||
      !column(d, "Rounds.signature_index", in.signature_index(), rows) ||
      !column(d, "Rounds.enter_monotonic_ns", in.enter_monotonic_ns(), rows) ||
      !column(d, "Rounds.launch_monotonic_ns", in.launch_monotonic_ns(), rows) ||
      !column(d, "Rounds.begin_device_ns", in.begin_device_ns(), rows) ||
      !column(d, "Rounds.end_device_ns", in.end_device_ns(), rows) ||
      !column(d, "Rounds.send_steps", in.send_steps(), rows) || !column(d, "Rounds.recv_steps", in.recv_steps(), rows) ||
      !column(d, "Rounds.send_changes", in.send_changes(), rows) ||
      !column(d, "Rounds.recv_changes", in.recv_changes(), rows) || !column(d, "Rounds.samples", in.samples(), rows) ||
      !column(d, "Rounds.flags", in.flags(), rows) || !optional_column(d, "Rounds.replay", in.replay(), rows) ||
      !optional_column(d, "Rounds.signals", in.signals(), rows)) {
    return false;
  }
  out.comm = CommUid(in.comm_uid());
  out.rank = Rank(in.rank());
  if (rows > 0 && !decode_rows(d, in, out)) return false;
  out.links.resize(length(in.links()));
  for (size_t i = 0; i < out.links.size(); ++i) {
    if (!decode(d, *in.links()->Get(i), out.links[i])) return false;
  }
  return true;
}

bool decode(Decoder& d, const wire::P2pRounds& in, P2pRounds& out) {
  const size_t rows = length(in.peer());
  const auto same = [&](const char* field, const auto* v) { return column(d, field, v, rows, "peer"); };
  if (!d.comm("P2pRounds.comm_uid", in.comm_uid()) || !d.rank("P2pRounds.rank", in.rank()) ||
      !d.vector("P2pRounds.peer", in.peer(), rounds_per_message_max) || !same("P2pRounds.direction", in.direction()) ||
      !same("P2pRounds.pair_seq", in.pair_seq()) || !same("P2pRounds.bytes", in.bytes()) ||
      !same("P2pRounds.enter_monotonic_ns", in.enter_monotonic_ns()) ||
      !same("P2pRounds.launch_monotonic_ns", in.launch_monotonic_ns()) ||
      !same("P2pRounds.begin_device_ns", in.begin_device_ns()) || !same("P2pRounds.end_device_ns", in.end_device_ns()) ||
      !same("P2pRounds.flags", in.flags()) || !same("P2pRounds.replay", in.replay()) ||
      !same("P2pRounds.plan", in.plan()) || !optional_column(d, "P2pRounds.send_steps", in.send_steps(), rows) ||
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
  return true;
}

bool decode(Decoder& d, const wire::LaneState& in, LaneState& out) {
  out.token = in.token();
  out.current_step = in.current_step();
  out.base_step = in.base_step();
  out.want_step = in.want_step();
  out.seen_step = in.seen_step();
  out.peer = in.peer();
  out.wait_age_ms = in.wait_age_ms();
  out.poll_age_ms = in.poll_age_ms();
  out.moved_age_ms = in.moved_age_ms();
  out.channel = in.channel();
  out.direction = static_cast<abi::Direction>(in.direction());
  out.group = in.group();
  out.peer_index = in.peer_index();
  out.wait = static_cast<abi::WaitKind>(in.wait_kind());
  out.wait_certain = in.wait_certain() != 0;
  return d.optional_rank("LaneState.peer", in.peer()) && d.channel("LaneState.channel", in.channel()) &&
         d.direction("LaneState.direction", in.direction()) && d.group("LaneState.group", in.group()) &&
         d.within<uint8_t>("LaneState.peer_index", in.peer_index(), 0, abi::lane_peers - 1) &&
         d.within<uint8_t>("LaneState.wait_kind", in.wait_kind(), 0, wait_kind_max);
}

bool decode(Decoder& d, const wire::ProxyState& in, ProxyState& out) {
  out.base = in.base();
  out.posted = in.posted();
  out.received = in.received();
  out.transmitted = in.transmitted();
  out.done = in.done();
  out.step_count = in.step_count();
  out.operation = in.operation();
  out.peer = in.peer();
  out.net_device = in.net_device();
  out.tick_age_ms = in.tick_age_ms();
  out.moved_age_ms = in.moved_age_ms();
  out.channel = in.channel();
  out.direction = static_cast<abi::Direction>(in.direction());
  return d.optional_rank("ProxyState.peer", in.peer()) && d.net_device("ProxyState.net_device", in.net_device()) &&
         d.channel("ProxyState.channel", in.channel()) && d.direction("ProxyState.direction", in.direction());
}

bool decode(Decoder& d, const wire::InFlightOp& in, InFlightOp& out) {
  if (!d.op_seq("InFlightOp.op_seq", in.op_seq()) ||
      !d.vector("InFlightOp.channels", in.channels(), abi::channels_max)) {
    return false;
  }
  if (in.signature() == nullptr) return d.fail("InFlightOp.signature", "is missing");
  if (!decode(d, *in.signature(), out.signature)) return false;
  out.op = OpSeq(in.op_seq());
  out.plan = in.plan();
  out.enter_age_ms = in.enter_age_ms();
  out.launch_age_ms = in.launch_age_ms();
  out.launched = in.launched();
  out.begun = in.begun();
  out.replay = in.replay();
  out.signals = in.signals();
  out.channels.resize(length(in.channels()));
  for (size_t i = 0; i < out.channels.size(); ++i) {
    const wire::ChannelState& from = *in.channels()->Get(i);
    ChannelState& to = out.channels[i];
    if (!d.channel("ChannelState.channel", from.channel())) return false;
    to.token = from.token();
    to.channel = from.channel();
    to.begun = from.begun() != 0;
    to.ended = from.ended() != 0;
    to.running_age_ms = from.running_age_ms();
    to.polling_age_ms = from.polling_age_ms();
    to.send_steps = from.send_steps();
    to.recv_steps = from.recv_steps();
  }
  return true;
}

bool decode(Decoder& d, const wire::P2pInFlight& in, P2pCall& out) {
  out.call = in.call();
  out.pair_seq = in.pair_seq();
  out.bytes = in.bytes();
  out.peer = Rank(in.peer());
  out.plan = in.plan();
  out.enter_age_ms = in.enter_age_ms();
  out.launch_age_ms = in.launch_age_ms();
  out.replay = in.replay();
  out.direction = static_cast<abi::Direction>(in.direction());
  out.launched = in.launched() != 0;
  out.begun = in.begun() != 0;
  out.flags = in.flags();
  out.signals = in.signals();
  return d.op_seq("P2pInFlight.call", in.call()) && d.op_seq("P2pInFlight.pair_seq", in.pair_seq()) &&
         d.rank("P2pInFlight.peer", in.peer()) && d.direction("P2pInFlight.direction", in.direction());
}

bool decode(Decoder& d, const wire::InFlight& in, InFlight& out) {
  if (!d.comm("InFlight.comm_uid", in.comm_uid()) || !d.rank("InFlight.rank", in.rank()) ||
      !d.time("InFlight.sample_monotonic_ns", in.sample_monotonic_ns()) ||
      !d.optional_op_seq("InFlight.entered_op_seq", in.entered_op_seq()) ||
      !d.optional_op_seq("InFlight.launched_op_seq", in.launched_op_seq()) ||
      !d.optional_op_seq("InFlight.completed_op_seq", in.completed_op_seq()) ||
      !d.vector("InFlight.operations", in.operations(), operations_in_flight_max) ||
      !d.vector("InFlight.lanes", in.lanes(), lanes_max) ||
      !d.vector("InFlight.proxies", in.proxies(), abi::proxies_max) ||
      !d.within<uint32_t>("InFlight.state", in.state(), 0, comm_state_max) ||
      !d.vector("InFlight.p2p", in.p2p(), p2p_in_flight_max) ||
      !d.optional_op_seq("InFlight.entered_p2p", in.entered_p2p()) ||
      !d.optional_op_seq("InFlight.launched_p2p", in.launched_p2p())) {
    return false;
  }
  out.comm = CommUid(in.comm_uid());
  out.rank = Rank(in.rank());
  out.sample_monotonic_ns = in.sample_monotonic_ns();
  out.entered = OpSeq(in.entered_op_seq());
  out.launched = OpSeq(in.launched_op_seq());
  out.completed = OpSeq(in.completed_op_seq());
  out.moved_age_ms = in.moved_age_ms();
  out.movement = in.movement();
  out.operations_total = in.operations_total();
  out.proxy_tick_age_ms = in.proxy_tick_age_ms();
  out.late = in.late();
  out.state = static_cast<abi::CommState>(in.state());
  out.p2p_total = in.p2p_total();
  out.entered_p2p = in.entered_p2p();
  out.launched_p2p = in.launched_p2p();
  out.kernel_plan = in.kernel_plan();
  out.kernel_replay = in.kernel_replay();
  out.stopped = in.stopped();
  out.p2p.resize(length(in.p2p()));
  for (size_t i = 0; i < out.p2p.size(); ++i) {
    if (!decode(d, *in.p2p()->Get(i), out.p2p[i])) return false;
  }
  out.operations.resize(length(in.operations()));
  for (size_t i = 0; i < out.operations.size(); ++i) {
    if (!decode(d, *in.operations()->Get(i), out.operations[i])) return false;
  }
  out.lanes.resize(length(in.lanes()));
  for (size_t i = 0; i < out.lanes.size(); ++i) {
    if (!decode(d, *in.lanes()->Get(i), out.lanes[i])) return false;
  }
  out.proxies.resize(length(in.proxies()));
  for (size_t i = 0; i < out.proxies.size(); ++i) {
    if (!decode(d, *in.proxies()->Get(i), out.proxies[i])) return false;
  }
  return true;
}

bool decode(Decoder& d, const wire::AgentHealth& in, AgentHealth& out) {
  if (!d.vector("AgentHealth.siblings", in.siblings(), siblings_max)) return false;
  out.samples = in.samples();
  out.late_samples = in.late_samples();
  out.lapped_rounds = in.lapped_rounds();
  out.dropped_batches = in.dropped_batches();
  out.dropped_rounds = in.dropped_rounds();
  out.send_errors = in.send_errors();
  out.sent_batches = in.sent_batches();
  out.sent_bytes = in.sent_bytes();
  out.cpu_ns = in.cpu_ns();
  out.siblings.resize(length(in.siblings()));
  for (size_t i = 0; i < out.siblings.size(); ++i) {
    const wire::Sibling& from = *in.siblings()->Get(i);
    Sibling& to = out.siblings[i];
    to.pid = from.pid();
    to.pid_start_ticks = from.pid_start_ticks();
    to.state = std::isalpha(from.state()) ? static_cast<char>(from.state()) : '?';
    to.state_age_ms = from.state_age_ms();
  }
  return true;
}

bool decode(Decoder& d, const wire::Metrics& in, Metrics& out) {
  if (!d.vector("Metrics.metrics", in.metrics(), metrics_per_message_max)) return false;
  out.metrics.resize(length(in.metrics()));
  for (size_t i = 0; i < out.metrics.size(); ++i) {
    const wire::Metric& from = *in.metrics()->Get(i);
    Metric& to = out.metrics[i];
    if (from.id() == 0) return d.fail("Metric.id", "is 0");
    if (!d.text("Metric.instance", from.instance(), to.instance)) return false;
    to.id = static_cast<abi::MetricId>(from.id());
    to.value = from.value();
  }
  return true;
}

bool decode(Decoder& d, const wire::NetQueues& in, NetQueues& out) {
  if (!d.vector("NetQueues.queues", in.queues(), net_queues_max) ||
      !d.vector("NetQueues.device_names", in.device_names(), net_devices_max)) {
    return false;
  }
  std::vector<std::string> names(length(in.device_names()));
  for (size_t i = 0; i < names.size(); ++i) {
    if (!d.text("NetQueues.device_names", in.device_names()->Get(i), names[i])) return false;
  }
  out.queues.resize(length(in.queues()));
  for (size_t i = 0; i < out.queues.size(); ++i) {
    const wire::NetProgress& from = *in.queues()->Get(i);
    NetQueue& to = out.queues[i];
    if (!d.net_device("NetProgress.device", from.device()) ||
        !d.within<uint32_t>("NetProgress.kind", from.kind(), 0, net_kind_max)) {
      return false;
    }
    to.queue = from.queue();
    to.in_flight = from.in_flight();
    to.send_posted = from.send_posted();
    to.send_completed = from.send_completed();
    to.window_bytes = from.window_bytes();
    to.recv_in_flight = from.recv_in_flight();
    to.errors = from.errors();
    to.device = from.device();
    to.number = from.number();
    to.window_ms = from.window_ms();
    to.post_age_ms = from.post_age_ms();
    to.complete_age_ms = from.complete_age_ms();
    to.kind = static_cast<abi::NetKind>(from.kind());
    if (to.device >= 0 && static_cast<size_t>(to.device) < names.size()) to.device_name = names[static_cast<size_t>(to.device)];
  }
  return true;
}

bool decode(Decoder& d, const wire::ControlState& in, ControlState& out) {
  out.sequence = in.sequence();
  out.refused_fields = in.refused_fields();
  out.running = in.running();
  out.sample_us = in.sample_us();
  out.log = in.log();
  out.budget_ppm = in.budget_ppm();
  out.period_us = in.period_us();
  return d.within<uint32_t>("ControlState.sample_us", in.sample_us(), 0, rate_us_max) &&
         d.within<uint32_t>("ControlState.log", in.log(), 0, log_max) &&
         d.within<uint32_t>("ControlState.budget_ppm", in.budget_ppm(), 0, parts_per_million) &&
         d.text("ControlState.endpoint", in.endpoint(), out.endpoint);
}

template <class Wire, class Model>
bool append(Decoder& d, const Wire* in, std::vector<Payload>& out) {
  Model model;
  if (!decode(d, *in, model)) return false;
  out.emplace_back(std::move(model));
  return true;
}

bool decode(Decoder& d, const wire::Message& in, Batch& out, DecodeNotes& notes) {
  // The verifier lets a message name a type and leave the payload out.
  if (in.payload() == nullptr && in.payload_type() != wire::Payload::NONE) return d.fail("Message.payload", "is missing");
  switch (in.payload_type()) {
    case wire::Payload::CommUp: return append<wire::CommUp, CommUp>(d, in.payload_as_CommUp(), out.payloads);
    case wire::Payload::CommDown: return append<wire::CommDown, CommDown>(d, in.payload_as_CommDown(), out.payloads);
    case wire::Payload::Rounds: return append<wire::Rounds, Rounds>(d, in.payload_as_Rounds(), out.payloads);
    case wire::Payload::InFlight: return append<wire::InFlight, InFlight>(d, in.payload_as_InFlight(), out.payloads);
    case wire::Payload::AgentHealth:
      return append<wire::AgentHealth, AgentHealth>(d, in.payload_as_AgentHealth(), out.payloads);
    case wire::Payload::CommInit: return append<wire::CommInit, CommInit>(d, in.payload_as_CommInit(), out.payloads);
    case wire::Payload::P2pRounds: return append<wire::P2pRounds, P2pRounds>(d, in.payload_as_P2pRounds(), out.payloads);
    case wire::Payload::Metrics: return append<wire::Metrics, Metrics>(d, in.payload_as_Metrics(), out.payloads);
    case wire::Payload::NetQueues: return append<wire::NetQueues, NetQueues>(d, in.payload_as_NetQueues(), out.payloads);
    case wire::Payload::ControlState:
      return append<wire::ControlState, ControlState>(d, in.payload_as_ControlState(), out.payloads);
    case wire::Payload::NONE: break;
  }
  ++notes.unknown_payloads;
  return true;
}

bool decode(Decoder& d, const wire::Batch& in, Batch& out, DecodeNotes& notes) {
  if (!d.text("Batch.job", in.job(), out.job) || !d.text("Batch.host", in.host(), out.process.host) ||
      !d.text("Batch.boot_id", in.boot_id(), out.process.boot_id) ||
      !d.within<uint32_t>("Batch.pid", in.pid(), 1, INT32_MAX) ||
      !d.within<uint64_t>("Batch.batch_seq", in.batch_seq(), 1, sequence_max) ||
      !d.signed_time("Batch.sent_realtime_ns", in.sent_realtime_ns()) ||
      !d.time("Batch.sent_monotonic_ns", in.sent_monotonic_ns()) ||
      !d.vector("Batch.messages", in.messages(), messages_per_batch_max)) {
    return false;
  }
  out.process.pid = in.pid();
  out.process.pid_start_ticks = in.pid_start_ticks();
  out.batch_seq = in.batch_seq();
  out.sent_realtime_ns = in.sent_realtime_ns();
  out.sent_monotonic_ns = in.sent_monotonic_ns();
  out.nccl_version = in.nccl_version();
  out.payloads.reserve(length(in.messages()));
  for (size_t i = 0; i < length(in.messages()); ++i) {
    if (!decode(d, *in.messages()->Get(i), out, notes)) return false;
  }
  return true;
}

}  // namespace

const char* name(RejectReason reason) {
  switch (reason) {
    case RejectReason::size: return "size";
    case RejectReason::multipart: return "multipart";
    case RejectReason::identifier: return "identifier";
    case RejectReason::version: return "version";
    case RejectReason::structure: return "structure";
    case RejectReason::field: return "field";
  }
  return "unknown";
}

absl::Status rejection(RejectReason reason, const std::string& key, const std::string& text) {
  absl::Status status = absl::InvalidArgumentError(text);
  status.SetPayload(reason_url, absl::Cord(absl::StrCat(static_cast<int>(reason))));
  status.SetPayload(key_url, absl::Cord(key));
  return status;
}

RejectReason reject_reason(const absl::Status& status) {
  const auto payload = status.GetPayload(reason_url);
  int number = static_cast<int>(RejectReason::structure);
  if (payload.has_value() && !absl::SimpleAtoi(std::string(*payload), &number)) return RejectReason::structure;
  return static_cast<RejectReason>(std::clamp(number, 0, reject_reason_count - 1));
}

std::string reject_key(const absl::Status& status) {
  const auto payload = status.GetPayload(key_url);
  return payload.has_value() ? std::string(*payload) : std::string(status.message());
}

absl::StatusOr<Batch> decode_batch(absl::Span<const uint8_t> message, DecodeNotes* notes) {
  // Smallest possible: root offset and identifier.
  if (message.size() < 2 * sizeof(flatbuffers::uoffset_t)) {
    return rejection(RejectReason::size, "size", absl::StrCat("message of ", message.size(), " bytes is too short for a batch"));
  }
  if (message.size() > message_bytes_max) {
    return rejection(RejectReason::size, "size",
                     absl::StrCat("message of ", message.size(), " bytes is longer than ", message_bytes_max));
  }
  if (!wire::BatchBufferHasIdentifier(message.data())) {
    return rejection(RejectReason::identifier, "identifier",
                     absl::StrCat("message has no identifier ", wire::BatchIdentifier(), ": not a telemetry batch"));
  }
  // ZeroMQ may hand out a message at any address of its receive buffer; FlatBuffers reads words in place.
  std::vector<uint64_t> aligned;
  if (reinterpret_cast<uintptr_t>(message.data()) % alignof(uint64_t) != 0) {
    aligned.resize((message.size() + sizeof(uint64_t) - 1) / sizeof(uint64_t));
    std::memcpy(aligned.data(), message.data(), message.size());
    message = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(aligned.data()), message.size());
  }
  flatbuffers::Verifier verifier(message.data(), message.size(), verifier_depth_max, verifier_tables_max);
  if (!wire::VerifyBatchBuffer(verifier)) {
    return rejection(RejectReason::structure, "structure", "batch is truncated or damaged");
  }
  const wire::Batch& wire_batch = *wire::GetBatch(message.data());
  if (wire_batch.schema_version() != schema_version_supported) {
    return rejection(RejectReason::version, absl::StrCat("version ", wire_batch.schema_version()),
                     absl::StrCat("Batch.schema_version is ", wire_batch.schema_version(), ", this service reads ",
                                  schema_version_supported));
  }
  DecodeNotes ignored;
  Decoder decoder(message.size());
  Batch batch;
  if (!decode(decoder, wire_batch, batch, notes != nullptr ? *notes : ignored)) return decoder.status();
  return batch;
}

}  // namespace ccld::decision::ingest
