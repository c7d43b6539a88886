// The device code compiled for the host. That it also compiles for GPUs, and what it shows there, is for the NCCL
// builds to test.
#include "probe/device/frame_writer_device.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <thread>

#include "schemas/abi/frame_reader.h"

namespace ccld::device {
namespace {

struct AlignedDelete {
  void operator()(abi::DeviceChannel* channel) const {
    ::operator delete (channel, std::align_val_t{alignof(abi::DeviceChannel)});
  }
};
using Channel = std::unique_ptr<abi::DeviceChannel, AlignedDelete>;

Channel empty_channel() {
  void* memory = ::operator new (sizeof(abi::DeviceChannel), std::align_val_t{alignof(abi::DeviceChannel)});
  memset(memory, 0, sizeof(abi::DeviceChannel));
  return Channel(static_cast<abi::DeviceChannel*>(memory));
}

// Sets what a test expects to 0 and asks whether nothing else was written.
bool is_untouched(const abi::DeviceChannel& channel) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&channel);
  for (size_t i = 0; i < sizeof(channel); ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

TEST_CASE("A kernel's begin, replay, counts and end go to the row of its run and touch nothing else") {
  Channel channel = empty_channel();
  const uint32_t run = 5 * abi::rounds_max + 7;
  round_replays(channel.get(), run, 12);
  round_begins(channel.get(), run, 42, 0x123456789abcdef0u);
  abi::RoundRow& row = channel->rounds[7];
  CHECK(row.replay_run == run);
  CHECK(row.replay_index == 12);
  CHECK(row.begin_run == run);
  CHECK(row.begin_token == 42);
  CHECK(row.begin_device_ns == 0x123456789abcdef0u);
  CHECK(row.end_word == 0);
  round_ends(channel.get(), run, abi::round_aborted, 30, 20, 700, 500);
  CHECK(row.end_word == abi::pack_end(run, abi::round_aborted, 500));
  CHECK(row.send_steps_total == 30);
  CHECK(row.recv_steps_total == 20);
  CHECK(row.busy_ns_total == 700);
  CHECK(row.begin_device_ns == 0x123456789abcdef0u);
  row = {};
  CHECK(is_untouched(*channel));
}

TEST_CASE("A later kernel replaces the row of the one that ran rounds_max kernels before it") {
  Channel channel = empty_channel();
  round_begins(channel.get(), 3, 1, 100);
  round_ends(channel.get(), 3, 0, 1, 1, 100, 100);
  round_begins(channel.get(), 3 + abi::rounds_max, 2, 300);
  CHECK(channel->rounds[3].begin_run == 3 + abi::rounds_max);
  CHECK(channel->rounds[3].begin_token == 2);
  // So a reader sees that the newer one has not ended.
  CHECK(abi::run_of_end(3, 3 + abi::rounds_max, channel->rounds[3].end_word) == 3);
}

TEST_CASE("A lane shows its kernel, peer and warps, starts its count at the base, and follows every post") {
  Channel channel = empty_channel();
  lane_opens(channel.get(), direction_send, 2, 1, 42, 0x100000010u, pack_peer_and_warps(7, 4, 3));
  abi::Lane& lane = channel->lanes[1][abi::lane_index(2, 1)];
  CHECK(lane.run == 42);
  CHECK(lane.base_step == 0x10);
  CHECK(lane.current_step == 0x10);
  CHECK((lane.peer_and_warps & abi::lane_in_use) != 0);
  CHECK(abi::lane_peer(lane.peer_and_warps) == 7);
  CHECK(abi::lane_first_warp(lane.peer_and_warps) == 4);
  CHECK(abi::lane_warp_count(lane.peer_and_warps) == 3);
  lane_posts(channel.get(), direction_send, 2, 1, 0x100000014u);
  CHECK(lane.current_step - lane.base_step == 4);
  lane = {};
  CHECK(is_untouched(*channel));
}

TEST_CASE("A count goes on over the wrap of 32 bits") {
  Channel channel = empty_channel();
  lane_opens(channel.get(), direction_recv, 0, 0, 1, 0xfffffffeu, pack_peer_and_warps(1, 0, 1));
  lane_posts(channel.get(), direction_recv, 0, 0, 0x100000003u);
  const abi::Lane& lane = channel->lanes[0][0];
  CHECK(lane.current_step - lane.base_step == 5);
}

TEST_CASE("A wait says what it wants and of which kind it is, and leaves the count alone") {
  Channel channel = empty_channel();
  lane_opens(channel.get(), direction_send, 1, 0, 9, 8, pack_peer_and_warps(3, 0, 4));
  lane_waits(channel.get(), direction_send, 1, 0, 9, 8, 1234);
  const abi::Lane& credit = channel->lanes[1][abi::lane_index(1, 0)];
  CHECK(credit.want_step == 9);
  CHECK(credit.seen_step == 8);
  CHECK(credit.poll_tick == 1234);
  CHECK(credit.wait_kind == static_cast<uint32_t>(abi::WaitKind::credit));
  CHECK(credit.current_step == 8);
  CHECK(credit.run == 9);
  lane_waits(channel.get(), direction_recv, 1, 0, 2, 1, 5);
  CHECK(channel->lanes[0][abi::lane_index(1, 0)].wait_kind == static_cast<uint32_t>(abi::WaitKind::data));
}

TEST_CASE(
    "Directions, groups and peers have lanes of their own; those beyond the limits share one and stay inside the "
    "frame") {
  Channel channel = empty_channel();
  uint32_t step = 0;
  for (uint32_t direction : {direction_recv, direction_send}) {
    for (uint32_t group = 0; group < abi::lane_groups; ++group) {
      for (uint32_t peer = 0; peer < abi::lane_peers; ++peer) {
        lane_opens(channel.get(), direction, group, peer, 1, ++step, pack_peer_and_warps(peer, 0, 1));
      }
    }
  }
  uint32_t expected = 0;
  for (const auto& lanes : channel->lanes) {
    for (const abi::Lane& lane : lanes) CHECK(lane.base_step == ++expected);
  }
  lane_posts(channel.get(), direction_send, abi::lane_groups + 1, abi::lane_peers + 2, 77);
  CHECK(channel->lanes[1][abi::lane_index(1, 2)].current_step == 77);
}

TEST_CASE("A polling warp changes its tick and no other") {
  Channel channel = empty_channel();
  warp_polls(channel.get(), 31, 6);
  CHECK(channel->warp_poll_tick[31] == 6);
  channel->warp_poll_tick[31] = 0;
  CHECK(is_untouched(*channel));
  CHECK(tick_of(5000) != tick_of(5000 + 1024));
}

TEST_CASE("Without a frame nothing is written") {
  round_begins(nullptr, 1, 1, 1);
  round_replays(nullptr, 1, 1);
  round_ends(nullptr, 1, 0, 1, 1, 1, 1);
  lane_opens(nullptr, direction_send, 0, 0, 1, 1, 0);
  lane_posts(nullptr, direction_send, 0, 0, 1);
  lane_waits(nullptr, direction_send, 0, 0, 1, 1, 1);
  warp_polls(nullptr, 0, 1);
}

#if !defined(__SANITIZE_THREAD__)  // whose builds have no 16-byte store
TEST_CASE("A row is never seen half written") {
  Channel channel = empty_channel();
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint32_t run = 1; !stop.load(std::memory_order_relaxed); run += abi::rounds_max)
      round_begins(channel.get(), run, run, uint64_t{run} << 32 | run);
  });
  unsigned half_written = 0;
  uint64_t last_seen = 0;
  for (int changes = 0; changes < 10000;) {
    const abi::reading::Row16 row = abi::reading::load_row(&channel->rounds[1].begin_run);
    const uint64_t run = static_cast<uint32_t>(row.low);
    if (row.high != (run << 32 | run) || row.low != row.high) ++half_written;
    if (row.low != last_seen) ++changes;
    last_seen = row.low;
  }
  stop = true;
  writer.join();
  CHECK(half_written == 0);
}
#endif

}  // namespace
}  // namespace ccld::device
