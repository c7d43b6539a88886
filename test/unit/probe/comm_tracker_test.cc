#include "probe/agent/comm_tracker.h"

#include <catch2/catch.hpp>

#include "test/unit/probe/support.h"
#include "test/unit/schemas/synthetic_frame.h"

namespace ccld::probe {
namespace {

using abi::Direction;
using test::FakeClock;
using test::SyntheticFrame;

constexpr uint8_t counts_valid = static_cast<uint8_t>(wire::RoundFlags::counts_valid);
constexpr uint8_t aborted = static_cast<uint8_t>(wire::RoundFlags::aborted);
constexpr uint8_t no_kernel = static_cast<uint8_t>(wire::RoundFlags::no_kernel);
constexpr uint8_t lapped = static_cast<uint8_t>(wire::RoundFlags::lapped);

struct Scene {
  explicit Scene(unsigned channels = 2) : frame(channels), tracker(view(), 0x77, 3, options(), clock.at) {}

  abi::FrameView view() { return *abi::FrameView::open(frame.memory(), frame.bytes(), nullptr); }
  static TrackerOptions options() {
    TrackerOptions o;
    o.late_ns = 1000 * ns_per_ms;
    o.poll_fresh_ns = 500 * ns_per_ms;
    return o;
  }
  // One millisecond later.
  void sample(uint64_t ms = 1) {
    clock.advance_ms(ms);
    tracker.sample(clock.at);
  }
  RoundsMessage rounds() { return tracker.take_rounds(clock.at, true); }
  InFlightMessage in_flight() { return tracker.in_flight_message(clock.at); }

  FakeClock clock;
  SyntheticFrame frame;
  CommTracker tracker;
};

TEST_CASE("nothing happens on an idle communicator") {
  Scene s;
  s.sample();
  CHECK_FALSE(s.tracker.busy());
  CHECK_FALSE(s.tracker.has_rounds());
  CHECK(s.tracker.movement() == 0);
  const InFlightMessage m = s.in_flight();
  CHECK(m.comm_uid == 0x77);
  CHECK(m.rank == 3);
  CHECK(m.operations.empty());
  CHECK(m.proxy_tick_age_ms == age_never);
  CHECK_FALSE(m.late);
}

TEST_CASE("a round has the earliest begin, the latest end and the counts of all its channels") {
  Scene s;
  const uint64_t op = s.frame.launch_operation(5, 3);
  s.frame.begin(0, 5, 1000);
  s.frame.begin(1, 5, 900);
  s.frame.open_lane(0, Direction::send, 5, 100, 4).current_step = 108;
  s.frame.open_lane(0, Direction::recv, 5, 100, 2).current_step = 107;
  s.frame.open_lane(1, Direction::send, 5, 200, 4).current_step = 216;
  s.frame.open_lane(1, Direction::recv, 5, 200, 2).current_step = 216;
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 0);
  CHECK(s.tracker.in_flight());
  s.frame.end(0, 5, 5000);
  s.sample();
  CHECK(s.tracker.in_flight());  // one channel still runs
  s.frame.end(1, 5, 4000);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == op);
  CHECK_FALSE(s.tracker.in_flight());
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 1);
  const FinishedRound& r = m.rounds[0];
  CHECK(r.op_seq == op);
  CHECK(r.begin_device_ns == 900);
  CHECK(r.end_device_ns == 5000);
  CHECK(r.send_steps == 24);
  CHECK(r.recv_steps == 23);
  CHECK(r.flags == counts_valid);
  CHECK(r.signature.count() == 1024);
  CHECK(r.signature.algorithm() == static_cast<uint8_t>(abi::Algorithm::ring));
  CHECK(r.enter_monotonic_ns == 1);
  CHECK(r.launch_monotonic_ns == 2);
}

TEST_CASE("changes are samples in which a count moved: the paper's rate is their reciprocal") {
  Scene s;
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 5, 1000);
  abi::Lane& send = s.frame.open_lane(0, Direction::send, 5, 0, 4);
  abi::Lane& recv = s.frame.open_lane(0, Direction::recv, 5, 0, 2);
  s.sample();  // 1: nothing yet
  send.current_step = 2;
  s.sample();  // 2
  send.current_step = 3;
  recv.current_step = 8;
  s.sample();  // 3
  s.sample();  // 4
  send.current_step = 8;
  s.frame.end(0, 5, 9000);
  s.sample();  // 5
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 1);
  CHECK(m.rounds[0].samples == 5);
  CHECK(m.rounds[0].send_changes == 3);
  CHECK(m.rounds[0].recv_changes == 1);
  CHECK(m.rounds[0].send_steps == 8);
}

TEST_CASE("many short operations between two samples are all reported, counts only while the lanes are theirs") {
  Scene s;
  for (uint32_t token = 1; token <= 40; ++token) {
    s.frame.launch_operation(token, 3);
    for (unsigned c = 0; c < 2; ++c) {
      s.frame.begin(c, token, token * 100);
      s.frame.open_lane(c, Direction::send, token, token * 10, 4).current_step = token * 10 + 10;
      s.frame.end(c, token, token * 100 + 50);
    }
  }
  s.sample();
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 40);
  for (size_t i = 0; i < 40; ++i) {
    CHECK(m.rounds[i].op_seq == i + 1);
    CHECK(m.rounds[i].begin_device_ns == (i + 1) * 100);
    CHECK(m.rounds[i].flags == (i == 39 ? counts_valid : 0));
  }
  CHECK(m.rounds[39].send_steps == 20);
  CHECK(s.tracker.lapped_rounds() == 0);
}

TEST_CASE("the kernel that follows at once tells where the one before has ended") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.launch_operation(6, 1);
  s.frame.begin(0, 5, 100);
  abi::Lane& send = s.frame.open_lane(0, Direction::send, 5, 100, 4);
  s.frame.open_lane(0, Direction::recv, 5, 100, 2);
  s.sample();
  send.current_step = 104;
  s.sample();
  s.frame.end(0, 5, 200);
  s.frame.begin(0, 6, 210);
  s.frame.open_lane(0, Direction::send, 6, 124, 4).current_step = 126;
  SECTION("same connections") {
    s.frame.open_lane(0, Direction::recv, 6, 124, 2);
    s.sample();
    const RoundsMessage m = s.rounds();
    REQUIRE(m.rounds.size() == 1);
    CHECK(m.rounds[0].send_steps == 24);
    CHECK(m.rounds[0].recv_steps == 24);
    CHECK(m.rounds[0].flags == counts_valid);
    CHECK(s.in_flight().operations.at(0).channels.at(0).send_steps() == 2);
  }
  SECTION("another peer: unknown") {
    s.frame.open_lane(0, Direction::recv, 6, 124, 3);
    s.sample();
    CHECK(s.rounds().rounds.at(0).flags == 0);
  }
  SECTION("a kernel in between: unknown") {
    s.frame.open_lane(0, Direction::recv, 7, 148, 2);
    s.sample();
    CHECK(s.rounds().rounds.at(0).flags == 0);
  }
}

TEST_CASE("kernels whose rows were overwritten are reported as lapped and counted") {
  Scene s(1);
  const uint32_t kernels = abi::rounds_max + 10;
  for (uint32_t token = 1; token <= kernels; ++token) {
    s.frame.launch_operation(token, 1);
    s.frame.begin(0, token, token * 100);
    s.frame.end(0, token, token * 100 + 50);
  }
  s.sample();
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == kernels);
  CHECK(s.tracker.lapped_rounds() == 10);
  CHECK(m.rounds[9].flags == lapped);
  CHECK(m.rounds[9].end_device_ns == 0);
  CHECK(m.rounds[10].flags == 0);
  CHECK(s.tracker.completed_op_seq() == kernels);
}

TEST_CASE("operations whose records were overwritten are counted and do not block") {
  Scene s(1);
  for (uint32_t token = 1; token <= 1000; ++token) {
    s.frame.launch_operation(token, 1);
    s.frame.begin(0, token, 1);
    s.frame.end(0, token, 2);
  }
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 1000);
  CHECK(s.tracker.lapped_rounds() == 1000 - abi::rounds_max);
  CHECK(s.rounds().rounds.size() == abi::ops_max);
}

TEST_CASE("a kernel that hangs is followed however many operations are issued behind it") {
  Scene s(1);
  s.frame.launch_operation(1, 1);
  s.frame.begin(0, 1, 100);
  s.sample();
  for (uint32_t token = 2; token <= 1000; ++token) s.frame.launch_operation(token, 1);
  s.sample(5000);
  CHECK(s.tracker.completed_op_seq() == 0);
  const InFlightMessage m = s.in_flight();
  CHECK(m.operations.at(0).op_seq == 1);
  CHECK(m.operations.at(0).begun);
  CHECK(m.entered_op_seq == 1000);
}

TEST_CASE("a launch time that is written after the kernel has ended is not lost") {
  Scene s(1);
  const uint64_t op = s.frame.enter();
  s.frame.plan(op, 5, 1);
  s.frame.begin(0, 5, 10);
  s.sample();
  s.frame.end(0, 5, 20);
  s.frame.launch(op, 99);
  s.sample();
  CHECK(s.rounds().rounds.at(0).launch_monotonic_ns == 99);
}

TEST_CASE("an abort is an end and is marked") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 5, 10);
  s.frame.end(0, 5, 20, abi::round_aborted);
  s.sample();
  CHECK((s.rounds().rounds.at(0).flags & aborted) != 0);
}

TEST_CASE("operations without a kernel complete on their own, those in a graph too") {
  Scene s;
  s.frame.enter(0, abi::op_no_kernel);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 1);
  const uint64_t captured = s.frame.enter(5, abi::op_captured);
  s.frame.plan(captured, 7, 3);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 2);
  const uint64_t copied = s.frame.enter(5);
  s.frame.plan(copied, 8, 0);  // no channel: nothing of ours runs for it
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 2);
  s.frame.launch(copied);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 3);
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 3);
  for (const FinishedRound& r : m.rounds) CHECK(r.flags == no_kernel);
}

TEST_CASE("an operation that is not launched stays in flight") {
  Scene s;
  s.frame.enter();
  s.sample();
  s.sample(5000);
  CHECK(s.tracker.late(s.clock.at));
  const InFlightMessage m = s.in_flight();
  REQUIRE(m.operations.size() == 1);
  CHECK_FALSE(m.operations[0].launched);
  CHECK(m.operations[0].plan == 0);
  CHECK(m.operations[0].launch_age_ms == 0);
  CHECK(m.operations[0].channels.empty());
  CHECK(m.entered_op_seq == 1);
  CHECK(m.launched_op_seq == 0);
}

TEST_CASE("kernels of one group may run in another order than the operations were entered") {
  Scene s(1);
  const uint64_t first = s.frame.enter(), second = s.frame.enter();
  s.frame.plan(second, 10, 1);
  s.frame.plan(first, 11, 1);
  s.frame.launch(second);
  s.frame.launch(first);
  s.frame.begin(0, 10, 100);
  s.frame.open_lane(0, Direction::send, 10, 0, 1).current_step = 4;
  s.sample();
  // The kernel that runs is the second operation's.
  InFlightMessage m = s.in_flight();
  REQUIRE(m.operations.size() == 2);
  CHECK_FALSE(m.operations[0].begun);
  CHECK(m.operations[1].begun);
  CHECK(m.operations[1].channels.size() == 1);
  CHECK(m.lanes.size() == 1);
  s.frame.end(0, 10, 200);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 0);
  s.frame.begin(0, 11, 300);
  s.frame.end(0, 11, 400);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 2);
  const RoundsMessage r = s.rounds();
  REQUIRE(r.rounds.size() == 2);
  CHECK(r.rounds[0].begin_device_ns == 300);
  CHECK(r.rounds[1].begin_device_ns == 100);
}

TEST_CASE("operations that share a kernel end together") {
  Scene s(1);
  const uint64_t a = s.frame.enter(), b = s.frame.enter();
  s.frame.plan(a, 10, 1);
  s.frame.plan(b, 10, 1);
  s.frame.launch(a);
  s.frame.launch(b);
  s.frame.begin(0, 10, 100);
  s.sample();
  s.frame.end(0, 10, 200);
  s.sample();
  const RoundsMessage r = s.rounds();
  REQUIRE(r.rounds.size() == 2);
  CHECK(r.rounds[0].end_device_ns == 200);
  CHECK(r.rounds[1].end_device_ns == 200);
}

TEST_CASE("a wrong channel mask is not a hang: a later kernel that ended proves it") {
  Scene s(2);
  s.frame.launch_operation(5, 2);  // says channel 1, but ran somewhere else
  s.frame.launch_operation(6, 1);
  s.frame.begin(0, 6, 100);
  s.frame.end(0, 6, 200);
  for (int i = 0; i < 20; ++i) s.sample();
  CHECK(s.tracker.completed_op_seq() == 2);
  const RoundsMessage r = s.rounds();
  CHECK(r.rounds.at(0).flags == lapped);
  CHECK(r.rounds.at(1).end_device_ns == 200);
}

TEST_CASE("movement and its age tell a stuck kernel from a running one") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 5, 100);
  abi::Lane& send = s.frame.open_lane(0, Direction::send, 5, 0, 4);
  s.sample();
  const uint64_t before = s.tracker.movement();
  send.current_step = 1;
  s.sample();
  CHECK(s.tracker.movement() == before + 1);
  send.poll_tick = 9;  // polling is not moving
  s.frame.channel(0).warp_poll_tick[0] = 9;
  for (int i = 0; i < 300; ++i) s.sample();
  CHECK(s.tracker.movement() == before + 1);
  CHECK(s.in_flight().moved_age_ms == 300);
  CHECK_FALSE(s.tracker.late(s.clock.at));
  s.sample(700);
  CHECK(s.tracker.late(s.clock.at));
  CHECK(s.in_flight().late);
  send.current_step = 2;
  s.sample();
  CHECK_FALSE(s.tracker.late(s.clock.at));
}

TEST_CASE("a lane's announced wait has an age, and ends when the GPU stops polling") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 5, 100);
  abi::Lane& recv = s.frame.open_lane(0, Direction::recv, 5, 8, 4);
  recv.current_step = 12;
  s.sample();
  for (int i = 0; i < 100; ++i) {
    s.frame.wait(recv, abi::WaitKind::data, 13, 12);
    s.sample();
  }
  InFlightMessage m = s.in_flight();
  REQUIRE(m.lanes.size() == 1);
  CHECK(m.lanes[0].peer() == 4);
  CHECK(m.lanes[0].wait_kind() == static_cast<uint8_t>(abi::WaitKind::data));
  CHECK(m.lanes[0].wait_certain() == 1);
  CHECK(m.lanes[0].want_step() == 13);
  CHECK(m.lanes[0].seen_step() == 12);
  CHECK(m.lanes[0].base_step() == 8);
  CHECK(m.lanes[0].wait_age_ms() == 99);
  CHECK(m.lanes[0].poll_age_ms() == 0);
  CHECK(m.lanes[0].moved_age_ms() == 100);
  CHECK(m.lanes[0].token() == 5);
  for (int i = 0; i < 600; ++i) s.sample();  // frozen
  m = s.in_flight();
  CHECK(m.lanes[0].wait_kind() == 0);
  CHECK(m.lanes[0].poll_age_ms() == 600);
}

TEST_CASE("ticks from before the kernel do not make it look as if it polled") {
  Scene s(1);
  s.frame.channel(0).warp_poll_tick[0] = 17;
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 5, 100);
  s.frame.open_lane(0, Direction::recv, 5, 8, 4).poll_tick = 99;
  s.sample();
  s.sample();
  const InFlightMessage m = s.in_flight();
  CHECK(m.lanes.at(0).poll_age_ms() == age_never);
  CHECK(m.operations.at(0).channels.at(0).polling_age_ms() == age_never);
  CHECK(m.lanes.at(0).wait_kind() == 0);
}

TEST_CASE("a polling warp of LL is a wait for data of its group's receive lane") {
  Scene s(1);
  s.frame.launch_operation(5, 1, abi::Protocol::ll);
  s.frame.begin(0, 5, 100);
  s.frame.open_lane(0, Direction::recv, 5, 8, 4, 0, 0, 2, 3).current_step = 20;  // warps 2 to 4
  s.frame.open_lane(0, Direction::send, 5, 8, 6, 0, 0, 2, 3).current_step = 20;
  s.sample();
  for (int i = 0; i < 10; ++i) {
    ++s.frame.channel(0).warp_poll_tick[9];  // another group
    s.sample();
  }
  CHECK(s.in_flight().lanes.at(0).wait_kind() == 0);
  for (int i = 0; i < 10; ++i) {
    ++s.frame.channel(0).warp_poll_tick[4];
    s.sample();
  }
  const InFlightMessage m = s.in_flight();
  REQUIRE(m.lanes.size() == 2);
  CHECK(m.lanes[0].wait_kind() == static_cast<uint8_t>(abi::WaitKind::data));
  CHECK(m.lanes[0].want_step() == 21);
  CHECK(m.lanes[0].wait_certain() == 1);
  CHECK(m.lanes[0].poll_age_ms() == 0);
  CHECK(m.lanes[0].wait_age_ms() == 9);
  CHECK(m.lanes[1].wait_kind() == 0);
  CHECK(m.operations[0].channels[0].polling_age_ms() == 0);
  CHECK(m.operations[0].channels[0].running_age_ms() == 20);
}

TEST_CASE("lanes of the kernel before are not those of the one that has not built its own") {
  Scene s(1);
  s.frame.open_lane(0, Direction::recv, 4, 8, 4).current_step = 40;
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 5, 100);
  s.sample();
  CHECK(s.in_flight().lanes.empty());
  CHECK(s.in_flight().operations.at(0).channels.at(0).recv_steps() == 0);
}

TEST_CASE("proxies are reported with the ages of visit and progress") {
  Scene s(1);
  abi::ProxyRecord& p = s.frame.proxy(0, Direction::send, 0, 4, 16);
  s.frame.launch_operation(5, 1);
  s.sample();
  for (int i = 0; i < 10; ++i) {
    ++p.ticks;
    ++s.frame.header().proxy.ticks;
    if (i < 4) p.posted += 1;
    s.sample();
  }
  s.sample(30);
  const InFlightMessage m = s.in_flight();
  REQUIRE(m.proxies.size() == 1);
  CHECK(m.proxies[0].peer() == 4);
  CHECK(m.proxies[0].base() == 16);
  CHECK(m.proxies[0].posted() == 20);
  CHECK(m.proxies[0].tick_age_ms() == 30);
  CHECK(m.proxies[0].moved_age_ms() == 36);
  CHECK(m.proxy_tick_age_ms == 30);
}

TEST_CASE("a proxy that moves is movement of its communicator") {
  Scene s(1);
  abi::ProxyRecord& p = s.frame.proxy(0, Direction::send, 0, 4, 16);
  s.frame.launch_operation(5, 1);
  s.sample();
  s.sample();
  const uint64_t before = s.tracker.movement();
  p.transmitted = 18;
  s.sample();
  CHECK(s.tracker.movement() == before + 1);
}

TEST_CASE("the stages of a link tell where its steps waited") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 5, 100);
  abi::Lane& send = s.frame.open_lane(0, Direction::send, 5, 100, 4);
  abi::Lane& recv = s.frame.open_lane(0, Direction::recv, 5, 100, 2, 1);
  abi::ProxyRecord& out = s.frame.proxy(0, Direction::send, 0, 4, 100, 3);
  abi::ProxyRecord& in = s.frame.proxy(1, Direction::recv, 0, 2, 100, 3);
  // A second connection to the same peer, for another kind of traffic.
  s.frame.proxy(2, Direction::send, 0, 4, 5000, 3);
  s.sample();
  // Step i: posted by the GPU at i ms, transmitted 2 ms later, done 5 ms later; received at i + 1, handed over at i +
  // 2, consumed at i + 3.
  const auto reached = [](int ms, int delay) { return static_cast<uint32_t>(std::min(std::max(ms - delay, 0), 20)); };
  const int64_t t0 = s.clock.at.realtime_ns;
  for (int ms = 1; ms <= 30; ++ms) {
    send.current_step = 100 + reached(ms, 0);
    out.transmitted = 100 + reached(ms, 2);
    out.done = 100 + reached(ms, 5);
    in.posted = 100 + reached(ms, 0);
    in.received = 100 + reached(ms, 1);
    in.transmitted = 100 + reached(ms, 2);
    recv.current_step = 100 + reached(ms, 3);
    if (ms == 23) s.frame.end(0, 5, 9000);
    s.sample();
    if (ms == 23) CHECK(s.tracker.completed_op_seq() == 1);
    // `done` is reached by the last step at 25 ms: until then the link is open, and the round waits for it.
    if (ms == 23) CHECK(s.tracker.take_rounds(s.clock.at, false).rounds.empty());
    if (ms == 23) CHECK(s.tracker.busy());
    if (ms == 25) CHECK_FALSE(s.tracker.busy());
  }
  const RoundsMessage m = s.tracker.take_rounds(s.clock.at, false);
  REQUIRE(m.rounds.size() == 1);
  REQUIRE(m.links.size() == 2);
  const auto ms_after = [t0](int64_t mean) { return static_cast<double>(mean - t0) / 1e6; };
  const double mean = 10.5;  // of the steps 1 to 20
  const wire::LinkStages& sender = m.links[1];
  CHECK(sender.direction() == static_cast<uint8_t>(Direction::send));
  CHECK(sender.peer() == 4);
  CHECK(sender.net_device() == 3);
  CHECK(sender.steps() == 20);
  CHECK(sender.op_seq() == 1);
  CHECK(ms_after(sender.gpu_mean_realtime_ns()) == Approx(mean));
  CHECK(sender.ready_mean_realtime_ns() == sender.gpu_mean_realtime_ns());
  CHECK(ms_after(sender.wire_mean_realtime_ns()) == Approx(mean + 2));
  CHECK(ms_after(sender.done_mean_realtime_ns()) == Approx(mean + 5));
  const wire::LinkStages& receiver = m.links[0];
  CHECK(receiver.group() == 1);
  CHECK(ms_after(receiver.ready_mean_realtime_ns()) == Approx(mean));
  CHECK(ms_after(receiver.wire_mean_realtime_ns()) == Approx(mean + 1));
  CHECK(ms_after(receiver.done_mean_realtime_ns()) == Approx(mean + 2));
  CHECK(ms_after(receiver.gpu_mean_realtime_ns()) == Approx(mean + 3));
}

TEST_CASE("a proxy that never finishes holds its round back for a bounded time only") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 5, 100);
  abi::Lane& send = s.frame.open_lane(0, Direction::send, 5, 100, 4);
  s.frame.proxy(0, Direction::send, 0, 4, 100, 3);
  for (int i = 0; i < 5; ++i) {
    ++send.current_step;
    s.sample();
  }
  s.frame.end(0, 5, 9000);
  s.sample();
  CHECK(s.tracker.take_rounds(s.clock.at, false).rounds.empty());
  s.sample(link_settle_ns / ns_per_ms);
  CHECK_FALSE(s.tracker.busy());
  CHECK(s.tracker.take_rounds(s.clock.at, false).rounds.size() == 1);
}

TEST_CASE("short rounds and lanes without a proxy send no stages of proxies") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 5, 100);
  abi::Lane& send = s.frame.open_lane(0, Direction::send, 5, 100, 4);
  s.sample();
  s.frame.end(0, 5, 200);
  s.sample();
  CHECK(s.rounds().links.empty());  // two samples say nothing
  s.frame.launch_operation(6, 1);
  s.frame.begin(0, 6, 300);
  s.frame.open_lane(0, Direction::send, 6, 100, 4);
  for (int i = 0; i < 5; ++i) {
    ++send.current_step;
    s.sample();
  }
  s.frame.end(0, 6, 400);
  s.sample();
  const RoundsMessage m = s.rounds();
  REQUIRE(m.links.size() == 1);
  CHECK(m.links[0].net_device() == -1);
  CHECK(m.links[0].gpu_mean_realtime_ns() > 0);
  CHECK(m.links[0].done_mean_realtime_ns() == 0);
}

TEST_CASE("a lane that serves two peers one after the other counts for both") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 5, 100);
  s.frame.open_lane(0, Direction::send, 5, 100, 4).current_step = 108;
  s.sample();
  s.frame.open_lane(0, Direction::send, 5, 40, 6).current_step = 44;
  s.sample();
  s.frame.end(0, 5, 200);
  s.sample();
  CHECK(s.rounds().rounds.at(0).send_steps == 12);
}

TEST_CASE("only so many operations are listed, the running one always") {
  Scene s(1);
  for (int i = 0; i < 40; ++i) s.frame.enter();
  s.frame.plan(30, 9, 1);
  s.frame.launch(30);
  s.frame.begin(0, 9, 1);
  s.sample();
  const InFlightMessage m = s.in_flight();
  CHECK(m.operations_total == 40);
  REQUIRE(m.operations.size() == operations_reported_max);
  CHECK(m.operations.front().op_seq == 1);
  CHECK(m.operations.back().op_seq == 30);
  CHECK(m.operations.back().begun);
}

TEST_CASE("more finished rounds than one flush carries are dropped and counted") {
  Scene s(1);
  uint32_t token = 0;
  for (int burst = 0; burst < 100; ++burst) {
    for (int i = 0; i < 50; ++i) {
      s.frame.launch_operation(++token, 1);
      s.frame.begin(0, token, token);
      s.frame.end(0, token, token);
    }
    s.sample();
  }
  CHECK(s.tracker.dropped_rounds() == 5000 - rounds_pending_max);
  const RoundsMessage m = s.rounds();
  CHECK(m.rounds.size() == rounds_pending_max);
  CHECK(m.rounds.back().op_seq == 5000);
}

TEST_CASE("without a listener no rounds are kept") {
  Scene s(1);
  TrackerOptions options = Scene::options();
  options.keep_rounds = false;
  CommTracker tracker(s.view(), 1, 0, options, s.clock.at);
  s.frame.launch_operation(1, 1);
  s.frame.begin(0, 1, 1);
  s.frame.end(0, 1, 2);
  tracker.sample(s.clock.at);
  CHECK(tracker.completed_op_seq() == 1);
  CHECK_FALSE(tracker.has_rounds());
}

}  // namespace
}  // namespace ccld::probe
