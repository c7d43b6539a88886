// A probing frame in plain memory, written by the test in the roles of all its writers.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "schemas/abi/frame.h"

namespace ccld::test {

class SyntheticFrame {
 public:
  explicit SyntheticFrame(unsigned channel_count = 2)
      : bytes_(abi::frame_bytes(channel_count)), memory_(std::aligned_alloc(128, bytes_), std::free) {
    std::memset(memory_.get(), 0, bytes_);
    abi::FrameIdentity& id = header().identity;
    id.magic = id.end_marker = 0;
    id.abi_major = abi::frame_abi_major;
    id.abi_minor = abi::frame_abi_minor;
    id.file_bytes = static_cast<uint32_t>(bytes_);
    id.channel_count = channel_count;
    id.ops_offset = sizeof(abi::FrameHeader);
    id.ops_stride = sizeof(abi::OpRecord);
    id.proxies_offset = id.ops_offset + abi::ops_max * id.ops_stride;
    id.proxies_stride = sizeof(abi::ProxyRecord);
    id.channels_offset = id.proxies_offset + abi::proxies_max * id.proxies_stride;
    id.channels_stride = sizeof(abi::DeviceChannel);
    id.nccl_version = 22907;
    id.mode = abi::mode_operations | abi::mode_steps | abi::mode_proxies;
    id.comm_uid = 0x1122334455667788;
    id.comm_number = 1;
    id.rank = 3;
    id.rank_count = 8;
    id.pid = 4242;
    id.pid_start_ticks = 777;
    std::strcpy(id.host, "node0");
    std::strcpy(id.boot_id, "11111111-2222-3333-4444-555555555555");
    std::strcpy(id.job, "job-a");
    std::strcpy(id.comm_name, "world");
    id.magic = id.end_marker = abi::frame_magic;
    header().state.state = static_cast<uint32_t>(abi::CommState::ready);
  }

  void* memory() { return memory_.get(); }
  size_t bytes() const { return bytes_; }
  abi::FrameHeader& header() { return *static_cast<abi::FrameHeader*>(memory_.get()); }
  abi::OpRecord* operations() { return reinterpret_cast<abi::OpRecord*>(at(header().identity.ops_offset)); }
  abi::ProxyRecord* proxies() { return reinterpret_cast<abi::ProxyRecord*>(at(header().identity.proxies_offset)); }
  abi::DeviceChannel& channel(unsigned c) {
    return *reinterpret_cast<abi::DeviceChannel*>(
        at(header().identity.channels_offset + c * header().identity.channels_stride));
  }

  // ---- user thread
  uint64_t enter(uint64_t count = 1024, uint8_t flags = 0, uint64_t time_ns = 1) {
    const uint64_t op_seq = header().api.entered_op_seq + 1;
    abi::OpRecord& r = operations()[op_seq % abi::ops_max];
    std::memset(&r, 0, sizeof r);
    r.count = count;
    r.enter_monotonic_ns = time_ns;
    r.root = -1;
    r.function = static_cast<uint8_t>(abi::Function::all_reduce);
    r.datatype = static_cast<uint8_t>(abi::Datatype::float32);
    r.algorithm = static_cast<uint8_t>(abi::Algorithm::unknown);
    r.protocol = static_cast<uint8_t>(abi::Protocol::unknown);
    r.flags = flags;
    r.commit = op_seq;
    header().api.entered_op_seq = op_seq;
    return op_seq;
  }
  void plan(uint64_t op_seq, uint32_t token, uint64_t channel_mask, abi::Protocol protocol = abi::Protocol::simple) {
    abi::OpRecord& r = operations()[op_seq % abi::ops_max];
    r.algorithm = static_cast<uint8_t>(abi::Algorithm::ring);
    r.protocol = static_cast<uint8_t>(protocol);
    r.channel_mask = channel_mask;
    r.channel_count = static_cast<uint16_t>(__builtin_popcountll(channel_mask));
    r.plan = token;
  }
  void launch(uint64_t op_seq, uint64_t time_ns = 2) {
    abi::OpRecord& r = operations()[op_seq % abi::ops_max];
    r.launch_monotonic_ns = time_ns;
    r.flags = static_cast<uint8_t>(r.flags | abi::op_launched);
    header().api.launched_op_seq = op_seq;
    header().api.launched_plan = r.plan;
  }
  // Entered and launched as kernel `token`.
  uint64_t launch_operation(uint32_t token, uint64_t channel_mask = 3, abi::Protocol protocol = abi::Protocol::simple) {
    const uint64_t op_seq = enter();
    plan(op_seq, token, channel_mask, protocol);
    launch(op_seq);
    return op_seq;
  }

  // ---- GPU
  void begin(unsigned c, uint32_t token, uint64_t device_ns) {
    abi::RoundRow& row = channel(c).rounds[token % abi::rounds_max];
    row.begin_token = token;
    row.begin_flags = 0;
    row.begin_device_ns = device_ns;
  }
  void end(unsigned c, uint32_t token, uint64_t device_ns, uint32_t flags = 0) {
    abi::RoundRow& row = channel(c).rounds[token % abi::rounds_max];
    row.end_token = token;
    row.end_flags = flags;
    row.end_device_ns = device_ns;
  }
  abi::Lane& lane(unsigned c, abi::Direction d, unsigned group = 0, unsigned peer_index = 0) {
    return channel(c).lanes[static_cast<unsigned>(d)][abi::lane_index(group, peer_index)];
  }
  abi::Lane& open_lane(unsigned c, abi::Direction d, uint32_t token, uint32_t step, uint32_t peer, unsigned group = 0,
                       unsigned peer_index = 0, uint32_t first_warp = 0, uint32_t warps = 4) {
    abi::Lane& l = lane(c, d, group, peer_index);
    l.token = token;
    l.current_step = l.base_step = step;
    l.peer_and_warps = abi::pack_peer_and_warps(peer, first_warp, warps);
    return l;
  }
  void wait(abi::Lane& l, abi::WaitKind kind, uint32_t want, uint32_t seen) {
    l.want_step = want;
    l.seen_step = seen;
    l.wait_kind = static_cast<uint32_t>(kind);
    ++l.poll_tick;
  }

  // ---- proxy thread
  abi::ProxyRecord& proxy(unsigned index, abi::Direction d, int channel, int peer, uint64_t base, int net_device = 0) {
    abi::ProxyRecord& p = proxies()[index];
    p.connection = 1000 + index;
    p.peer = peer;
    p.channel = channel;
    p.net_device = net_device;
    p.direction = static_cast<uint8_t>(d);
    p.base = p.posted = p.received = p.transmitted = p.done = base;
    p.ticks = 1;
    if (header().proxy.connections <= index) header().proxy.connections = index + 1;
    ++header().proxy.ticks;
    return p;
  }

 private:
  unsigned char* at(size_t offset) { return static_cast<unsigned char*>(memory_.get()) + offset; }

  size_t bytes_;
  std::unique_ptr<void, decltype(&std::free)> memory_;
};

}  // namespace ccld::test
