#include "schemas/abi/frame_reader.h"

#include <atomic>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "test/unit/schemas/synthetic_frame.h"

namespace ccld::abi {
namespace {

using test::SyntheticFrame;

FrameView open(SyntheticFrame& frame) {
  std::string error;
  const auto view = FrameView::open(frame.memory(), frame.bytes(), &error);
  REQUIRE(error == "");
  REQUIRE(view.has_value());
  return *view;
}

std::string refusal(SyntheticFrame& frame, size_t bytes = 0) {
  std::string error;
  CHECK_FALSE(FrameView::open(frame.memory(), bytes != 0 ? bytes : frame.bytes(), &error).has_value());
  return error;
}

TEST_CASE("a complete frame opens and tells its identity") {
  SyntheticFrame frame(2);
  const FrameView view = open(frame);
  CHECK(view.channel_count() == 2);
  CHECK(view.identity().rank == 3);
  CHECK(FrameView::text(view.identity().comm_name) == "world");
  CHECK(view.state() == CommState::ready);
}

TEST_CASE("a text field without a terminating zero is cut at its end") {
  SyntheticFrame frame;
  memset(frame.header().identity.job, 'x', sizeof frame.header().identity.job);
  CHECK(FrameView::text(open(frame).identity().job) == std::string(64, 'x'));
}

TEST_CASE("frames that cannot be read are refused with a reason") {
  SyntheticFrame frame(2);
  FrameIdentity& id = frame.header().identity;
  SECTION("no magic yet") {
    id.magic = 0;
    CHECK(refusal(frame) == "not a probing frame (or not initialized yet)");
  }
  SECTION("another major version") {
    id.abi_major = 1;
    id.abi_minor = 7;
    CHECK(refusal(frame) == "frame version 1.7, this program reads 5.x");
  }
  SECTION("no end marker") {
    id.end_marker = 1;
    CHECK(refusal(frame).find("end marker") != std::string::npos);
  }
  SECTION("shorter than the header") { CHECK(refusal(frame, 1000).find("truncated: 1000 bytes") == 0); }
  SECTION("shorter than it says") { CHECK(refusal(frame, frame.bytes() - 1).find("truncated") == 0); }
  SECTION("too many channels") {
    id.channel_count = channels_max + 1;
    CHECK(refusal(frame).find("65 channels") != std::string::npos);
  }
  SECTION("operations outside") {
    id.ops_offset = 0xffffff80u;
    CHECK(refusal(frame).find("operations lie outside") != std::string::npos);
  }
  SECTION("point-to-point calls that are not aligned") {
    id.p2ps_offset += 64;
    CHECK(refusal(frame).find("point-to-point calls lie outside") != std::string::npos);
  }
  SECTION("proxies with records too short") {
    id.proxies_stride = 0;
    CHECK(refusal(frame).find("proxies lie outside") != std::string::npos);
  }
  SECTION("channels that overflow") {
    id.channels_stride = 0xffffff80u;
    CHECK(refusal(frame).find("channels lie outside") != std::string::npos);
  }
}

TEST_CASE("a newer minor version with longer records is read by its strides") {
  // Twice the stride: a frame of one channel with room for two holds it at the same place.
  SyntheticFrame frame(2);
  FrameIdentity& id = frame.header().identity;
  id.abi_minor = 9;
  id.channel_count = 1;
  id.channels_stride = 2 * sizeof(DeviceChannel);
  frame.begin(0, 5, 50, 100);
  const FrameView view = open(frame);
  RoundBegin begin;
  CHECK(view.read_begin(0, 5, &begin) == Found::yes);
  CHECK(begin.device_ns == 100);
  CHECK(view.read_begin(1, 5, &begin) == Found::earlier);  // there is no second channel
}

TEST_CASE("a random header never makes the reader look outside the memory") {
  uint64_t state = 1;
  const auto random = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33);
  };
  int opened = 0;
  for (int round = 0; round < 3000; ++round) {
    SyntheticFrame frame(1);
    auto* words = reinterpret_cast<uint32_t*>(&frame.header().identity);
    constexpr unsigned times_word = offsetof(FrameIdentity, proxy_times_offset) / sizeof *words;
    // file_bytes .. p2ps_stride, and the two of the times
    const unsigned word = random() % 6 == 0 ? times_word + random() % 2 : 2 + random() % 10;
    words[word] = random() % 3 == 0 ? random() : words[word] + (random() % 64) * 128 - 4096;
    const auto view = FrameView::open(frame.memory(), frame.bytes(), nullptr);
    if (!view) continue;
    ++opened;
    OpRecord op;
    ProxyRecord proxy;
    Lane lane;
    RoundEnd end;
    P2pRecord p2p;
    for (unsigned i = 0; i < ops_max; ++i) view->read_operation(i, &op);
    for (unsigned i = 0; i < p2ps_max; ++i) view->read_p2p(i, &p2p);
    ProxyOperationTimes times[times_operations];
    for (unsigned i = 0; i < proxies_max; ++i) view->read_proxy(i, &proxy), view->read_proxy_times(i, times);
    for (unsigned c = 0; c < channels_max + 2; ++c) {
      for (unsigned i = 0; i < lanes_per_direction; ++i) view->read_lane(c, Direction::send, i, &lane);
      view->read_end(c, random(), &end);
      view->newest_run(c);
    }
  }
  CHECK(opened > 10);
}

TEST_CASE("operations are found by number until they are overwritten") {
  SyntheticFrame frame;
  const FrameView view = open(frame);
  OpRecord record;
  CHECK(view.read_operation(1, &record) == Found::busy);
  for (unsigned i = 0; i < ops_max + 1; ++i) frame.enter(1000 + i);
  CHECK(view.read_operation(1, &record) == Found::later);
  CHECK(view.read_operation(2, &record) == Found::yes);
  CHECK(record.count == 1001);
  CHECK(view.read_operation(ops_max + 2, &record) == Found::earlier);
  frame.operations()[2].commit = 0;
  CHECK(view.read_operation(2, &record) == Found::busy);
}

TEST_CASE("point-to-point calls are found by number until they are overwritten") {
  SyntheticFrame frame;
  const FrameView view = open(frame);
  P2pRecord record;
  for (unsigned i = 0; i < p2ps_max + 1; ++i) frame.enter_p2p(Direction::send, i % 2 == 0 ? 4 : 5, 100 + i);
  CHECK(view.read_p2p(1, &record) == Found::later);
  CHECK(view.read_p2p(p2ps_max + 1, &record) == Found::yes);
  CHECK(record.peer == 4);
  CHECK(record.pair_seq == p2ps_max / 2 + 1);
  CHECK(record.bytes == 100 + p2ps_max);
  CHECK(record.plan == 0);
  frame.launch_p2p(p2ps_max + 1, 7, 1, 55);
  CHECK(view.read_p2p(p2ps_max + 1, &record) == Found::yes);
  CHECK((record.plan == 7 && record.launch_monotonic_ns == 55));
  CHECK(view.launched_p2p() == p2ps_max + 1);
  CHECK(view.read_p2p(p2ps_max + 2, &record) == Found::earlier);
}

TEST_CASE("the rows of a kernel count only with its run") {
  SyntheticFrame frame;
  const FrameView view = open(frame);
  RoundBegin begin;
  RoundEnd end;
  RoundCounts counts;
  RoundReplay replay;
  CHECK(view.newest_run(0) == 0);
  CHECK(view.read_begin(0, 7, &begin) == Found::earlier);
  frame.begin(0, 7, 70, 1234);
  CHECK(view.newest_run(0) == 7);
  CHECK(view.read_begin(0, 7, &begin) == Found::yes);
  CHECK((begin.run == 7 && begin.token == 70 && begin.device_ns == 1234));
  CHECK(view.read_end(0, 7, &end) == Found::earlier);
  CHECK(view.read_counts(0, 7, &counts) == Found::earlier);
  CHECK(view.read_replay(0, 7, &replay) == Found::earlier);
  frame.count(0, 6, 100, 200);
  frame.end_after(0, 6, 50);
  frame.count(0, 7, 11, 12);
  frame.end(0, 7, 2234, round_aborted);
  frame.replay(0, 7, 3);
  CHECK(view.read_end(0, 7, &end) == Found::yes);
  CHECK((end.flags == round_aborted && end.duration_ns == 1000 && end.totals.run == 7));
  CHECK(view.read_counts(0, 7, &counts) == Found::yes);
  CHECK((counts.send_steps == 11 && counts.recv_steps == 12));
  CHECK(view.read_replay(0, 7, &replay) == Found::yes);
  CHECK(replay.index == 3);
}

TEST_CASE("counts are the difference to the kernel before, also over the end of the totals") {
  SyntheticFrame frame;
  const FrameView view = open(frame);
  RoundCounts counts;
  RoundEnd end;
  frame.count(0, 1, 0xfffffff0u, 3, 1000);
  frame.end_after(0, 1, 1000);
  CHECK(view.read_counts(0, 1, &counts) == Found::yes);  // nothing was before it
  CHECK((counts.send_steps == 0xfffffff0u && counts.recv_steps == 3));
  frame.count(0, 2, 32, 5, 500);
  frame.end_after(0, 2, 500);
  CHECK(view.read_counts(0, 2, &counts) == Found::yes);
  CHECK((counts.run == 2 && counts.send_steps == 32 && counts.recv_steps == 5));
  CHECK(view.read_end(0, 2, &end) == Found::yes);
  CHECK((end.totals.send_steps == 16 && end.totals.recv_steps == 8 && end.totals.busy_ns == 1500));
  frame.end_after(0, 1 + rounds_max, 1);
  CHECK(view.read_counts(0, 2, &counts) == Found::later);
  CHECK(view.read_counts(0, 3, &counts) == Found::earlier);
}

TEST_CASE("the end in a place is told from those of the laps before and behind") {
  SyntheticFrame frame;
  const FrameView view = open(frame);
  RoundEnd end;
  // Every lap of the tag, twice, and over the end of the runs.
  for (const uint32_t first : {0u, 5u, 127u, 0u - 130u * rounds_max}) {
    for (uint32_t lap = 0; lap < 2 * 128 + 2; ++lap) {
      const uint32_t run = first + lap * rounds_max;
      if (run == 0) continue;
      CAPTURE(run);
      CHECK(view.read_end(0, run, &end) == Found::earlier);
      frame.begin(0, run, 1, 1000);
      CHECK(view.read_end(0, run, &end) == Found::earlier);
      if (lap > 0 && run - rounds_max != 0) {  // a run of 0 does not exist but after the end of the runs
        CHECK(view.read_end(0, run - rounds_max, &end) == Found::yes);
        CHECK((end.totals.run == run - rounds_max && end.duration_ns == 7));
      }
      frame.end(0, run, 1007);
      CHECK(view.read_end(0, run, &end) == Found::yes);
      CHECK((end.totals.run == run && end.duration_ns == 7));
      CHECK(view.read_end(0, run - rounds_max, &end) == Found::later);
      CHECK(view.read_end(0, run - 100 * rounds_max, &end) == Found::later);
      CHECK(view.read_end(0, run + rounds_max, &end) == Found::earlier);
      CHECK(view.read_end(0, run + 100 * rounds_max, &end) == Found::earlier);
    }
    frame.round(0, first) = {};
  }
}

TEST_CASE("an end that is seen before its begin has its own run") {
  SyntheticFrame frame;
  const FrameView view = open(frame);
  RoundEnd end;
  const uint32_t run = 7 + 127 * rounds_max;  // the tag of the run behind it is 0
  frame.begin(0, run, 1, 100);
  frame.end(0, run, 200);
  frame.end_after(0, run + rounds_max, 300);
  CHECK(view.read_end(0, run, &end) == Found::later);
  CHECK(view.read_end(0, run + rounds_max, &end) == Found::yes);
  CHECK(end.duration_ns == 300);
}

TEST_CASE("a reader that comes late is told which run took the place") {
  SyntheticFrame frame;
  const FrameView view = open(frame);
  frame.begin(0, 7 + rounds_max, 900, 9999);
  RoundBegin begin;
  CHECK(view.read_begin(0, 7, &begin) == Found::later);
  CHECK((begin.run == 7 + rounds_max && begin.token == 900));
  CHECK(view.read_begin(0, 7 + 2 * rounds_max, &begin) == Found::earlier);
}

TEST_CASE("runs may wrap") {
  SyntheticFrame frame;
  const FrameView view = open(frame);
  RoundBegin begin;
  const uint32_t before = 0xffffff81u, after = before + rounds_max;
  REQUIRE(after < before);
  frame.begin(0, after, 1, 5);
  CHECK(view.read_begin(0, before, &begin) == Found::later);
  frame.begin(0, before, 1, 5);
  CHECK(view.read_begin(0, after, &begin) == Found::earlier);
}

TEST_CASE("a lane belongs to one run") {
  SyntheticFrame frame;
  const FrameView view = open(frame);
  Lane lane;
  CHECK_FALSE(view.read_lane(0, Direction::recv, 0, &lane));
  frame.open_lane(0, Direction::recv, 9, 100, 2).current_step = 112;
  CHECK(view.read_lane_of(0, Direction::recv, 0, 9, &lane));
  CHECK(lane.current_step - lane.base_step == 12);
  CHECK(lane_peer(lane.peer_and_warps) == 2);
  CHECK_FALSE(view.read_lane_of(0, Direction::recv, 0, 8, &lane));
  CHECK_FALSE(view.read_lane(0, Direction::recv, lanes_per_direction, &lane));
  CHECK_FALSE(view.read_lane(99, Direction::recv, 0, &lane));
}

TEST_CASE("counts of a running kernel are sums over its lanes, also over the wrap of the steps") {
  SyntheticFrame frame;
  const FrameView view = open(frame);
  frame.open_lane(1, Direction::send, 9, 0xfffffff0u, 2).current_step = 0x10;
  frame.open_lane(1, Direction::send, 9, 50, 3, 0, 1).current_step = 53;
  frame.open_lane(1, Direction::recv, 9, 7, 1).current_step = 8;
  frame.open_lane(1, Direction::recv, 8, 7, 1, 1).current_step = 1000;  // left over from the run before
  const LaneCounts counts = view.count_lanes(1, 9);
  CHECK(counts.send == 32 + 3);
  CHECK(counts.recv == 1);
  CHECK_FALSE(counts.overwritten);
  CHECK(view.count_lanes(1, 8).overwritten);
}

#if !defined(__SANITIZE_THREAD__)  // which has no notion of a store of 16 bytes that is whole
TEST_CASE("rows are never torn while a writer stores them whole") {
  SyntheticFrame frame;
  const FrameView view = open(frame);
  struct alignas(16) Row {
    uint32_t run, token;
    uint64_t ns;
  };
  typedef uint32_t Vector __attribute__((vector_size(16), may_alias));
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> newest{0};
  std::thread writer([&] {
    for (uint32_t n = 1; !stop.load(std::memory_order_relaxed); ++n) {
      const uint32_t run = 5 + n * rounds_max;
      *reinterpret_cast<volatile Vector*>(&frame.channel(0).rounds[5]) = Vector{run, ~run, run, run};
      newest.store(run, std::memory_order_relaxed);
    }
  });
  int read = 0;
  for (int i = 0; i < 300000 || read < 1000; ++i) {
    RoundBegin begin;
    const uint32_t run = newest.load(std::memory_order_relaxed);
    if (run == 0 || view.read_begin(0, run, &begin) != Found::yes) continue;
    ++read;
    if (begin.token != ~run || begin.device_ns != (uint64_t{run} << 32 | run)) FAIL("torn row of run " << run);
  }
  stop = true;
  writer.join();
  CHECK(read >= 1000);
}
#endif

// ---- waits ---------------------------------------------------------------------------------------------------------

LaneObservation observe(Direction direction, unsigned group, unsigned peer_index, uint32_t current) {
  LaneObservation o;
  o.direction = direction;
  o.index = static_cast<uint8_t>(lane_index(group, peer_index));
  o.lane.current_step = current;
  return o;
}

LaneObservation announce(LaneObservation o, WaitKind kind, uint32_t want, uint32_t seen) {
  o.lane.wait_kind = static_cast<uint32_t>(kind);
  o.lane.want_step = want;
  o.lane.seen_step = seen;
  o.lane_polls = true;
  return o;
}

TEST_CASE("an announced wait counts while its step is not reached and it polls") {
  LaneObservation lane = announce(observe(Direction::recv, 0, 0, 12), WaitKind::data, 13, 12);
  SECTION("it waits") {
    derive_waits(&lane, 1, true);
    CHECK(lane.wait == WaitKind::data);
    CHECK(lane.want_step == 13);
    CHECK(lane.seen_step == 12);
    CHECK(lane.certain);
  }
  SECTION("the step was reached meanwhile") {
    lane.lane.current_step = 13;
    derive_waits(&lane, 1, true);
    CHECK(lane.wait == WaitKind::none);
  }
  SECTION("the GPU does not poll: it is silent, not waiting") {
    lane.lane_polls = false;
    derive_waits(&lane, 1, true);
    CHECK(lane.wait == WaitKind::none);
  }
  SECTION("over the wrap of the steps") {
    lane.lane.current_step = 0xffffffffu;
    lane.lane.want_step = 1;
    derive_waits(&lane, 1, true);
    CHECK(lane.wait == WaitKind::data);
  }
  SECTION("a kind of a newer writer is no wait") {
    lane.lane.wait_kind = 77;
    derive_waits(&lane, 1, true);
    CHECK(lane.wait == WaitKind::none);
  }
}

TEST_CASE("polling warps of LL mean that a receive lane of the group waits for its next step") {
  std::vector<LaneObservation> lanes = {observe(Direction::recv, 0, 0, 12), observe(Direction::send, 0, 0, 12)};
  for (auto& l : lanes) l.warps_poll = true;
  derive_waits(lanes.data(), lanes.size(), false);
  CHECK(lanes[0].wait == WaitKind::data);
  CHECK(lanes[0].want_step == 13);
  CHECK(lanes[0].seen_step == 12);
  CHECK(lanes[0].certain);
  CHECK(lanes[1].wait == WaitKind::none);
}

TEST_CASE("where every wait is announced, polling warps say nothing more") {
  LaneObservation lane = observe(Direction::recv, 0, 0, 12);
  lane.warps_poll = true;
  derive_waits(&lane, 1, true);
  CHECK(lane.wait == WaitKind::none);
}

TEST_CASE("of several receive lanes in a polling group none is certain") {
  std::vector<LaneObservation> lanes = {observe(Direction::recv, 1, 0, 4), observe(Direction::recv, 1, 1, 5),
                                        observe(Direction::recv, 2, 0, 6)};
  for (auto& l : lanes) l.warps_poll = true;
  derive_waits(lanes.data(), lanes.size(), false);
  CHECK((lanes[0].wait == WaitKind::data && lanes[0].want_step == 5 && !lanes[0].certain));
  CHECK((lanes[1].wait == WaitKind::data && lanes[1].want_step == 6 && !lanes[1].certain));
  CHECK((lanes[2].wait == WaitKind::data && lanes[2].want_step == 7 && lanes[2].certain));
}

TEST_CASE("The times of a proxy are read whole or not at all") {
  SyntheticFrame frame(1);
  ProxyOperationTimes times[times_operations];
  const auto read = [&] { return FrameView::open(frame.memory(), frame.bytes(), nullptr)->read_proxy_times(3, times); };
  CHECK_FALSE(read());  // nothing was ever told
  frame.proxy_times(3).version = 5;
  frame.proxy_times(3).operations[2].base = 77;
  CHECK_FALSE(read());  // they change right now
  frame.proxy_times(3).version = 6;
  REQUIRE(read());
  CHECK(times[2].base == 77);
  frame.header().identity.proxy_times_offset = 0;  // of a version that tells none
  CHECK_FALSE(read());
}

TEST_CASE("a group that waits for credit does not wait for data") {
  std::vector<LaneObservation> lanes = {observe(Direction::recv, 0, 0, 12),
                                        announce(observe(Direction::send, 0, 0, 8), WaitKind::credit, 9, 8),
                                        observe(Direction::recv, 1, 0, 3)};
  for (auto& l : lanes) l.warps_poll = true;
  derive_waits(lanes.data(), lanes.size(), false);
  CHECK(lanes[0].wait == WaitKind::none);
  CHECK(lanes[1].wait == WaitKind::credit);
  CHECK(lanes[2].wait == WaitKind::data);  // another group
  // The credit came: the group goes on to its receive.
  lanes[1].lane.current_step = 9;
  derive_waits(lanes.data(), lanes.size(), false);
  CHECK(lanes[0].wait == WaitKind::data);
}

}  // namespace
}  // namespace ccld::abi
