#include "decision/ingest/payload_decoders.h"

namespace ccld::decision::ingest {
namespace {

constexpr uint8_t init_stage_max = static_cast<uint8_t>(abi::InitStage::failed);

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

}  // namespace

bool decode(Decoder& d, const wire::CommUp& in, CommUp& out) {
  if (!d.comm("CommUp.comm_uid", in.comm_uid()) || !d.within("CommUp.rank_count", in.rank_count(), 1, rank_count_max) ||
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
  out.hidden = in.hidden();
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

}  // namespace ccld::decision::ingest
