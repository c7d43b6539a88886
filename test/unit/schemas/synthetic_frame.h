// A probing frame in plain memory, written by the test in the roles of all its writers.
#pragma once

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "schemas/abi/frame_reader.h"

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
    id.p2ps_offset = id.ops_offset + abi::ops_max * id.ops_stride;
    id.p2ps_stride = sizeof(abi::P2pRecord);
    id.proxies_offset = id.p2ps_offset + abi::p2ps_max * id.p2ps_stride;
    id.proxies_stride = sizeof(abi::ProxyRecord);
    id.proxy_times_offset = id.proxies_offset + abi::proxies_max * id.proxies_stride;
    id.proxy_times_stride = sizeof(abi::ProxyTimes);
    id.channels_offset = id.proxy_times_offset + abi::proxies_max * id.proxy_times_stride;
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

  static constexpr uint8_t signals_all = abi::signal_times | abi::signal_steps | abi::signal_waits | abi::signal_proxy;

  void* memory() { return memory_.get(); }
  size_t bytes() const { return bytes_; }
  abi::FrameHeader& header() { return *static_cast<abi::FrameHeader*>(memory_.get()); }
  abi::OpRecord* operations() { return reinterpret_cast<abi::OpRecord*>(at(header().identity.ops_offset)); }
  abi::P2pRecord* p2ps() { return reinterpret_cast<abi::P2pRecord*>(at(header().identity.p2ps_offset)); }
  abi::ProxyRecord* proxies() { return reinterpret_cast<abi::ProxyRecord*>(at(header().identity.proxies_offset)); }
  abi::ProxyTimes& proxy_times(unsigned index) {
    return reinterpret_cast<abi::ProxyTimes*>(at(header().identity.proxy_times_offset))[index];
  }
  abi::DeviceChannel& channel(unsigned c) {
    return *reinterpret_cast<abi::DeviceChannel*>(
        at(header().identity.channels_offset + c * header().identity.channels_stride));
  }

  abi::OpRecord& operation(uint64_t op_seq) { return operations()[op_seq % abi::ops_max]; }
  abi::P2pRecord& p2p(uint64_t call) { return p2ps()[call % abi::p2ps_max]; }
  abi::RoundRow& round(unsigned c, uint32_t run) { return channel(c).rounds[run % abi::rounds_max]; }

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
  // `operations`: collectives that the kernel carries.
  void plan(uint64_t op_seq, uint32_t token, uint64_t channel_mask, abi::Protocol protocol = abi::Protocol::simple,
            uint8_t signals = signals_all, uint32_t operations = 1) {
    abi::OpRecord& r = operation(op_seq);
    r.algorithm = static_cast<uint8_t>(abi::Algorithm::ring);
    r.protocol = static_cast<uint8_t>(protocol);
    r.channel_mask = channel_mask;
    r.channel_count = static_cast<uint16_t>(__builtin_popcountll(channel_mask));
    r.signals = signals;
    r.plan_operations = operations;
    r.plan = token;
  }
  void launch(uint64_t op_seq, uint64_t time_ns = 2) {
    abi::OpRecord& r = operation(op_seq);
    r.launch_monotonic_ns = time_ns;
    r.flags = static_cast<uint8_t>(r.flags | abi::op_launched);
    if (header().api.launched_op_seq < op_seq) header().api.launched_op_seq = op_seq;
    if (header().api.launched_plan < r.plan) header().api.launched_plan = r.plan;
  }
  // Entered and launched as kernel `token`.
  uint64_t launch_operation(uint32_t token, uint64_t channel_mask = 3, abi::Protocol protocol = abi::Protocol::simple) {
    const uint64_t op_seq = enter();
    plan(op_seq, token, channel_mask, protocol);
    launch(op_seq);
    return op_seq;
  }
  // Entered, planned and recorded into a graph as kernel `token`.
  uint64_t capture_operation(uint32_t token, uint64_t channel_mask = 3, uint32_t replay_slot = 1) {
    const uint64_t op_seq = enter(1024, abi::op_captured);
    plan(op_seq, token, channel_mask);
    operation(op_seq).replay_slot = replay_slot;
    ++header().api.captured_plans;
    launch(op_seq);
    return op_seq;
  }

  uint64_t enter_p2p(abi::Direction direction, int peer, uint64_t bytes = 4096, uint8_t flags = 0,
                     uint64_t time_ns = 1) {
    const uint64_t call = header().api.entered_p2p + 1;
    abi::P2pRecord& r = p2p(call);
    std::memset(&r, 0, sizeof r);
    r.pair_seq = ++pair_seqs_[direction == abi::Direction::send][peer];
    r.bytes = bytes;
    r.enter_monotonic_ns = time_ns;
    r.peer = peer;
    r.direction = static_cast<uint8_t>(direction);
    r.flags = flags;
    r.commit = call;
    header().api.entered_p2p = call;
    return call;
  }
  void launch_p2p(uint64_t call, uint32_t token, uint64_t channel_mask = 1, uint64_t time_ns = 2) {
    abi::P2pRecord& r = p2p(call);
    r.channel_mask = channel_mask;
    r.signals = signals_all;
    r.plan = token;
    r.launch_monotonic_ns = time_ns;
    r.flags = static_cast<uint8_t>(r.flags | abi::op_launched);
    if (header().api.launched_p2p < call) header().api.launched_p2p = call;
    if (header().api.launched_plan < token) header().api.launched_plan = token;
  }

  // ---- GPU: the rows of one run
  void begin(unsigned c, uint32_t run, uint32_t token, uint64_t device_ns) {
    abi::RoundRow& row = round(c, run);
    row.begin_run = run;
    row.begin_token = token;
    row.begin_device_ns = device_ns;
  }
  // What this run adds to the totals of its channel; before its end, which shows them.
  void count(unsigned c, uint32_t run, uint32_t send_steps, uint32_t recv_steps, uint32_t busy_ns = 0) {
    abi::RoundTotals& totals = totals_[c];
    totals = {run, totals.send_steps + send_steps, totals.recv_steps + recv_steps, totals.busy_ns + busy_ns};
  }
  // Behind its begin.
  void end(unsigned c, uint32_t run, uint64_t device_ns, uint32_t flags = 0) {
    end_after(c, run, device_ns - round(c, run).begin_device_ns, flags);
  }
  void end_after(unsigned c, uint32_t run, uint64_t duration_ns, uint32_t flags = 0) {
    abi::RoundRow& row = round(c, run);
    row.end_word = abi::pack_end(run, flags, duration_ns);
    row.send_steps_total = totals_[c].send_steps;
    row.recv_steps_total = totals_[c].recv_steps;
    row.busy_ns_total = totals_[c].busy_ns;
  }
  void replay(unsigned c, uint32_t run, uint32_t index) {
    abi::RoundRow& row = round(c, run);
    row.replay_run = run;
    row.replay_index = index;
  }

  // ---- GPU: whole kernels, whose runs are counted per channel as the GPU does
  uint32_t run_of(unsigned c) const { return runs_[c]; }
  void begin_kernel(uint64_t channel_mask, uint32_t token, uint64_t device_ns, uint32_t replay_index = 0) {
    bool lowest = true;
    for (unsigned c = 0; c < abi::channels_max; ++c) {
      if ((channel_mask >> c & 1) == 0) continue;
      begin(c, ++runs_[c], token, device_ns);
      if (lowest && replay_index != 0) replay(c, runs_[c], replay_index);
      lowest = false;
    }
  }
  void end_kernel(uint64_t channel_mask, uint64_t device_ns, uint32_t send_steps = 0, uint32_t recv_steps = 0,
                  uint32_t flags = 0) {
    for (unsigned c = 0; c < abi::channels_max; ++c) {
      if ((channel_mask >> c & 1) == 0) continue;
      const uint64_t begun_ns = round(c, runs_[c]).begin_device_ns;
      count(c, runs_[c], send_steps, recv_steps, static_cast<uint32_t>(device_ns - begun_ns));
      end(c, runs_[c], device_ns, flags);
    }
  }
  void run_kernel(uint64_t channel_mask, uint32_t token, uint64_t begin_ns, uint64_t end_ns, uint32_t send_steps = 0,
                  uint32_t recv_steps = 0, uint32_t replay_index = 0) {
    begin_kernel(channel_mask, token, begin_ns, replay_index);
    end_kernel(channel_mask, end_ns, send_steps, recv_steps);
  }

  abi::Lane& lane(unsigned c, abi::Direction d, unsigned group = 0, unsigned peer_index = 0) {
    return channel(c).lanes[static_cast<unsigned>(d)][abi::lane_index(group, peer_index)];
  }
  abi::Lane& open_lane(unsigned c, abi::Direction d, uint32_t run, uint32_t step, uint32_t peer, unsigned group = 0,
                       unsigned peer_index = 0, uint32_t first_warp = 0, uint32_t warps = 4) {
    abi::Lane& l = lane(c, d, group, peer_index);
    l.run = run;
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
  uint32_t runs_[abi::channels_max] = {};
  abi::RoundTotals totals_[abi::channels_max] = {};
  std::map<int, uint64_t> pair_seqs_[2];
};

}  // namespace ccld::test
