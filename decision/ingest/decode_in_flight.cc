#include "decision/ingest/payload_decoders.h"
#include "schemas/wire/packed_structs.h"

namespace ccld::decision::ingest {
namespace {

constexpr uint8_t wait_kind_max = static_cast<uint8_t>(abi::WaitKind::credit);

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

bool decode(Decoder& d, const wire::ChannelState& in, ChannelState& out) {
  out.token = in.token();
  out.channel = in.channel();
  out.begun = in.begun() != 0;
  out.ended = in.ended() != 0;
  out.running_age_ms = in.running_age_ms();
  out.polling_age_ms = in.polling_age_ms();
  out.send_steps = in.send_steps();
  out.recv_steps = in.recv_steps();
  return d.channel("ChannelState.channel", in.channel());
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

template <class Struct, class State>
bool take(Decoder& d, const flatbuffers::Vector<const Struct*>* in, std::vector<State>& out) {
  out.resize(length(in));
  for (size_t i = 0; i < out.size(); ++i)
    if (!decode(d, *in->Get(static_cast<flatbuffers::uoffset_t>(i)), out[i])) return false;
  return true;
}

// Beside those that came as they are.
template <class Struct, class State>
bool unpack(Decoder& d, const char* field, uint32_t rows, const flatbuffers::Vector<uint8_t>* bytes, size_t rows_max,
            std::vector<State>& out) {
  if (rows == 0 && bytes == nullptr) return true;
  if (rows > rows_max) return d.fail(field, absl::StrCat("has ", rows, " rows, more than ", rows_max));
  if (!d.rows(field, rows, rounds_per_message_max) || !d.vector(field, bytes, message_bytes_max)) return false;
  std::vector<Struct> states(rows);
  if (bytes == nullptr || !wire::unpack(bytes->data(), bytes->size(), states))
    return d.fail(field, absl::StrCat("are not ", rows, " rows"));
  out.reserve(out.size() + rows);
  for (const Struct& s : states)
    if (!decode(d, s, out.emplace_back())) return false;
  return true;
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
  return take(d, in.channels(), out.channels) &&
         unpack<wire::ChannelState>(d, "InFlightOp.packed_channels", in.channel_rows(), in.packed_channels(),
                                    abi::channels_max, out.channels);
}

}  // namespace

bool decode(Decoder& d, const wire::InFlight& in, InFlight& out) {
  if (!d.comm("InFlight.comm_uid", in.comm_uid()) || !d.rank("InFlight.rank", in.rank()) ||
      !d.time_before_sending("InFlight.sample_monotonic_ns", in.sample_monotonic_ns()) ||
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
  out.held = in.held();
  out.operations.resize(length(in.operations()));
  for (size_t i = 0; i < out.operations.size(); ++i) {
    if (!decode(d, *in.operations()->Get(i), out.operations[i])) return false;
  }
  return take(d, in.p2p(), out.p2p) &&
         unpack<wire::P2pInFlight>(d, "InFlight.packed_p2p", in.p2p_rows(), in.packed_p2p(), p2p_in_flight_max,
                                   out.p2p) &&
         take(d, in.lanes(), out.lanes) && take(d, in.proxies(), out.proxies) &&
         unpack<wire::LaneState>(d, "InFlight.packed_lanes", in.lane_rows(), in.packed_lanes(), lanes_max, out.lanes) &&
         unpack<wire::ProxyState>(d, "InFlight.packed_proxies", in.proxy_rows(), in.packed_proxies(), abi::proxies_max,
                                  out.proxies);
}

}  // namespace ccld::decision::ingest
