#include "probe/agent/comm_tracker.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

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
constexpr uint8_t shared_kernel = static_cast<uint8_t>(wire::RoundFlags::shared_kernel);
constexpr uint8_t not_measured = static_cast<uint8_t>(wire::RoundFlags::not_measured);

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
  // Long enough for everything that is looked at rarely.
  void settle() {
    for (int i = 0; i < 3; ++i) sample(retire_look_ns / ns_per_ms);
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

TEST_CASE("counters that somebody else has written over cost no more than those of a busy communicator") {
  for (const uint64_t garbage : {~uint64_t{0}, ~uint64_t{0} - 1, uint64_t{1} << 63}) {
    Scene s;
    s.frame.launch_operation(5, 1);
    s.sample();
    s.frame.header().api.entered_op_seq = garbage;
    s.frame.header().api.entered_p2p = garbage;
    s.sample();
    CHECK(s.in_flight().operations_total <= abi::ops_max);
  }
}

TEST_CASE("a round has the earliest begin, the latest end and the counts of all its channels") {
  Scene s;
  const uint64_t op = s.frame.launch_operation(5, 3);
  s.frame.begin(0, 1, 5, 1000);
  s.frame.begin(1, 1, 5, 900);
  s.frame.open_lane(0, Direction::send, 1, 100, 4).current_step = 108;
  s.frame.open_lane(0, Direction::recv, 1, 100, 2).current_step = 107;
  s.frame.open_lane(1, Direction::send, 1, 200, 4).current_step = 216;
  s.frame.open_lane(1, Direction::recv, 1, 200, 2).current_step = 216;
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 0);
  CHECK(s.tracker.in_flight());
  s.frame.count(0, 1, 8, 7);
  s.frame.end(0, 1, 5000);
  s.sample();
  CHECK(s.tracker.in_flight());  // one channel still runs
  s.frame.count(1, 1, 16, 16);
  s.frame.end(1, 1, 4000);
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
  CHECK(r.replay == 0);
  CHECK(r.signals == SyntheticFrame::signals_all);
}

TEST_CASE("changes are samples in which a count moved: the paper's rate is their reciprocal") {
  Scene s;
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 1, 5, 1000);
  abi::Lane& send = s.frame.open_lane(0, Direction::send, 1, 0, 4);
  abi::Lane& recv = s.frame.open_lane(0, Direction::recv, 1, 0, 2);
  s.sample();  // 1: nothing yet
  send.current_step = 2;
  s.sample();  // 2
  send.current_step = 3;
  recv.current_step = 8;
  s.sample();  // 3
  s.sample();  // 4
  send.current_step = 8;
  s.frame.count(0, 1, 8, 8);
  s.frame.end(0, 1, 9000);
  s.sample();  // 5
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 1);
  CHECK(m.rounds[0].samples == 5);
  CHECK(m.rounds[0].send_changes == 3);
  CHECK(m.rounds[0].recv_changes == 1);
  CHECK(m.rounds[0].send_steps == 8);
}

TEST_CASE("of many short operations between two samples each is reported with its times and counts") {
  Scene s;
  for (uint32_t token = 1; token <= 100; ++token) {
    s.frame.launch_operation(token, 3);
    s.frame.run_kernel(3, token, token * 100, token * 100 + 50, token, token + 1);
  }
  s.sample();
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 100);
  for (size_t i = 0; i < 100; ++i) {
    CHECK(m.rounds[i].op_seq == i + 1);
    CHECK(m.rounds[i].begin_device_ns == (i + 1) * 100);
    CHECK(m.rounds[i].flags == counts_valid);
    CHECK(m.rounds[i].send_steps == 2 * (i + 1));
    CHECK(m.rounds[i].recv_steps == 2 * (i + 2));
  }
  CHECK(s.tracker.lapped_rounds() == 0);
  CHECK(s.tracker.completed_op_seq() == 100);
}

TEST_CASE("a kernel that is replaced at once keeps its counts, and the next one is followed") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.launch_operation(6, 1);
  s.frame.begin(0, 1, 5, 100);
  s.frame.open_lane(0, Direction::send, 1, 100, 4);
  s.sample();
  s.frame.count(0, 1, 24, 23);
  s.frame.end(0, 1, 200);
  s.frame.begin(0, 2, 6, 210);
  s.frame.open_lane(0, Direction::send, 2, 124, 4).current_step = 126;
  s.sample();
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 1);
  CHECK(m.rounds[0].send_steps == 24);
  CHECK(m.rounds[0].recv_steps == 23);
  CHECK(m.rounds[0].flags == counts_valid);
  CHECK(s.in_flight().operations.at(0).channels.at(0).send_steps() == 2);
}

TEST_CASE("kernels whose rows were overwritten are reported as lapped and counted exactly") {
  Scene s(1);
  const uint32_t kernels = abi::rounds_max + 10;
  for (uint32_t token = 1; token <= kernels; ++token) {
    s.frame.launch_operation(token, 1);
    s.frame.run_kernel(1, token, token * 100, token * 100 + 50);
  }
  s.sample();
  s.settle();
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == kernels);
  CHECK(s.tracker.lapped_rounds() == 10);
  CHECK(m.rounds[9].flags == lapped);
  CHECK(m.rounds[9].end_device_ns == 0);
  CHECK(m.rounds[10].flags == 0);  // its counts cannot be told from those of the ten
  CHECK(m.rounds[10].end_device_ns == 11 * 100 + 50);
  CHECK(m.rounds[11].flags == counts_valid);
  CHECK(s.tracker.summed_kernels().runs == 11);
  CHECK(s.tracker.summed_kernels().busy_ns == 11 * 50);
  CHECK(s.tracker.completed_op_seq() == kernels);
  CHECK_FALSE(s.tracker.in_flight());
}

TEST_CASE("a kernel behind a loss on one of its channels has times, and its steps on all channels are in the sums") {
  Scene s;
  constexpr uint32_t behind = 10, newest = behind + abi::rounds_max - 1;
  for (uint32_t token = 1; token <= newest; ++token) {
    const uint64_t mask = token == behind ? 3 : 1;
    s.frame.launch_operation(token, mask);
    s.frame.run_kernel(mask, token, token * 100, token * 100 + 50, token == behind ? 5 : 1, 1);
  }
  s.sample();
  s.settle();
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == newest);
  CHECK(m.rounds[behind - 1].flags == 0);
  CHECK(m.rounds[behind - 1].begin_device_ns == behind * 100);
  CHECK(m.rounds[behind].flags == counts_valid);
  CHECK(s.tracker.summed_kernels().runs == behind);
  CHECK(s.tracker.summed_kernels().send_steps == behind - 1 + 2 * 5);
  CHECK(s.tracker.summed_kernels().recv_steps == behind + 1);
}

TEST_CASE("operations whose records were overwritten are counted and do not block") {
  Scene s(1);
  constexpr uint32_t operations = abi::ops_max + 700;
  for (uint32_t token = 1; token <= operations; ++token) {
    s.frame.launch_operation(token, 1);
    s.frame.run_kernel(1, token, token * 10, token * 10 + 1);
  }
  s.sample();
  s.settle();
  CHECK(s.tracker.completed_op_seq() == operations);
  CHECK(s.tracker.lapped_rounds() == operations - abi::rounds_max);
  CHECK(s.rounds().rounds.size() == abi::ops_max);
}

TEST_CASE("a kernel that hangs is followed however many operations are issued behind it") {
  Scene s(1);
  s.frame.launch_operation(1, 1);
  s.frame.begin(0, 1, 1, 100);
  s.sample();
  for (uint32_t token = 2; token <= 1000; ++token) s.frame.launch_operation(token, 1);
  s.sample(5000);
  CHECK(s.tracker.completed_op_seq() == 0);
  const InFlightMessage m = s.in_flight();
  CHECK(m.operations.at(0).op_seq == 1);
  CHECK(m.operations.at(0).begun);
  CHECK(m.entered_op_seq == 1000);
}

TEST_CASE("the kernel that hangs is known though the host has filled CUDA's queue since the last look") {
  Scene s(1);
  constexpr uint32_t hung = 41, newest = hung + 1024;
  for (uint32_t token = 1; token < hung; ++token) {
    s.frame.launch_operation(token, 1);
    s.frame.run_kernel(1, token, token * 10, token * 10 + 1);
  }
  s.frame.launch_operation(hung, 1);
  s.frame.begin(0, hung, hung, 1000);
  for (uint32_t token = hung + 1; token <= newest; ++token) s.frame.launch_operation(token, 1);
  s.sample();
  s.sample(5000);
  CHECK(s.tracker.completed_op_seq() == hung - 1);
  CHECK(s.tracker.lapped_rounds() == 0);
  const InFlightMessage m = s.in_flight();
  CHECK(m.operations.at(0).op_seq == hung);
  CHECK(m.operations.at(0).begun);
  CHECK(m.entered_op_seq == newest);
}

TEST_CASE("a long queue of operations is worked off in order, each with its own times") {
  Scene s(1);
  for (uint32_t token = 1; token <= 200; ++token) {
    s.frame.plan(s.frame.enter(1, 0, token * 10), token, 1);
    s.frame.launch(token, token * 10 + 5);
  }
  s.sample();
  for (uint32_t token = 1; token <= 200; ++token) {
    s.frame.run_kernel(1, token, token * 100, token * 100 + 50, token, token);
    if (token % 7 == 0) s.sample();
  }
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 200);
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 200);
  for (size_t i = 0; i < 200; ++i) CHECK(m.rounds[i].begin_device_ns == (i + 1) * 100);
}

TEST_CASE("a launch time that is written after the kernel has ended is not lost") {
  Scene s(1);
  const uint64_t op = s.frame.enter();
  s.frame.plan(op, 5, 1);
  s.frame.begin(0, 1, 5, 10);
  s.sample();
  s.frame.count(0, 1, 0, 0);
  s.frame.end(0, 1, 20);
  s.frame.launch(op, 99);
  s.sample();
  CHECK(s.rounds().rounds.at(0).launch_monotonic_ns == 99);
}

TEST_CASE("an abort is an end and is marked") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 1, 5, 10);
  s.frame.count(0, 1, 0, 0);
  s.frame.end(0, 1, 20, abi::round_aborted);
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
  s.frame.plan(copied, 8, 3, abi::Protocol::simple, 0);  // nothing of ours runs for it
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 2);
  s.frame.launch(copied);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 3);
  CHECK_FALSE(s.tracker.in_flight());
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 3);
  CHECK(m.rounds[0].flags == no_kernel);
  CHECK(m.rounds[1].flags == (no_kernel | not_measured));
  CHECK(m.rounds[2].flags == not_measured);
}

TEST_CASE("what the stream itself begins and ends is in flight until the stream says so") {
  Scene s;
  const uint64_t op = s.frame.enter();
  s.frame.plan(op, 9, 0, abi::Protocol::unknown, abi::signal_stream);
  s.frame.launch(op);
  s.sample();
  CHECK(s.tracker.in_flight());
  CHECK_FALSE(s.in_flight().operations.at(0).begun);
  s.frame.header().stream.begun_token = 9;
  s.settle();
  CHECK(s.in_flight().operations.at(0).begun);
  s.frame.header().stream.ended_token = 9;
  s.settle();
  CHECK_FALSE(s.tracker.in_flight());
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 1);
  CHECK(m.rounds[0].flags == not_measured);
  CHECK(m.rounds[0].signals == abi::signal_stream);
}

TEST_CASE("operations of a group that was only simulated are none, and their numbers come again") {
  Scene s(1);
  s.frame.launch_operation(1, 1);
  s.frame.run_kernel(1, 1, 10, 20);
  s.frame.enter(10, 0, 30);
  s.frame.enter(11, 0, 30);
  s.sample();
  s.settle();
  CHECK(s.tracker.in_flight());
  s.frame.header().api.entered_op_seq = 1;
  s.sample();
  CHECK_FALSE(s.tracker.in_flight());
  CHECK(s.tracker.completed_op_seq() == 1);
  CHECK(s.in_flight().entered_op_seq == 1);
  CHECK(s.frame.launch_operation(2, 1) == 2);
  s.frame.run_kernel(1, 2, 40, 50);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 2);
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 2);
  CHECK(m.rounds[1].op_seq == 2);
  CHECK(m.rounds[1].flags == counts_valid);
  CHECK(s.tracker.lapped_rounds() == 0);
}

TEST_CASE("an operation that NCCL refused is retired once two later ones have run in turn") {
  Scene s(1);
  s.frame.enter(1, 0, 10);  // refused
  s.frame.enter(2, 0, 20);
  s.frame.plan(2, 1, 1);
  s.frame.launch(2, 30);
  s.frame.run_kernel(1, 1, 100, 110);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 0);  // the first may still be on its way, in the same group
  s.frame.enter(3, 0, 40);
  s.frame.plan(3, 2, 1);
  s.frame.launch(3, 50);
  s.frame.run_kernel(1, 2, 200, 210);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 3);
  CHECK_FALSE(s.tracker.in_flight());
  const RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 3);
  CHECK(m.rounds[0].flags == (no_kernel | not_measured));
  CHECK(m.rounds[1].flags == counts_valid);
}

TEST_CASE("calls that were made while the probe was stopped are nobody's loss and not in flight") {
  Scene s(1);
  s.frame.launch_operation(1, 1);
  s.frame.run_kernel(1, 1, 10, 20);
  s.sample();
  s.frame.header().api.entered_op_seq += 500;  // numbered, not recorded
  s.frame.header().api.entered_p2p += 3000;
  s.frame.header().api.unseen_while_stopped += 3500;
  s.sample();
  s.settle();
  CHECK_FALSE(s.tracker.in_flight());
  CHECK(s.tracker.lapped_rounds() == 0);
  CHECK(s.tracker.lapped_calls() == 0);
  CHECK(s.tracker.completed_op_seq() == 501);
  CHECK(s.tracker.unseen_while_stopped() == 3500);
  const uint64_t op = s.frame.launch_operation(2, 1);
  s.frame.run_kernel(1, 2, 30, 40, 1, 1);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == op);
  CHECK(s.rounds().rounds.size() == 2);
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
  s.frame.begin(0, 1, 10, 100);
  s.frame.open_lane(0, Direction::send, 1, 0, 1).current_step = 4;
  s.sample();
  // The kernel that runs is the second operation's.
  InFlightMessage m = s.in_flight();
  REQUIRE(m.operations.size() == 2);
  CHECK_FALSE(m.operations[0].begun);
  CHECK(m.operations[1].begun);
  CHECK(m.operations[1].channels.size() == 1);
  CHECK(m.lanes.size() == 1);
  s.frame.count(0, 1, 0, 0);
  s.frame.end(0, 1, 200);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 0);
  s.frame.begin(0, 2, 11, 300);
  s.frame.count(0, 2, 0, 0);
  s.frame.end(0, 2, 400);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 2);
  const RoundsMessage r = s.rounds();
  REQUIRE(r.rounds.size() == 2);
  CHECK(r.rounds[0].begin_device_ns == 300);
  CHECK(r.rounds[1].begin_device_ns == 100);
}

TEST_CASE("operations that share a kernel each get a round, with the kernel's times and counts") {
  Scene s(1);
  const uint64_t a = s.frame.enter(), b = s.frame.enter();
  for (const uint64_t op : {a, b}) {
    s.frame.plan(op, 10, 1, abi::Protocol::simple, SyntheticFrame::signals_all, 2);
    s.frame.launch(op);
  }
  s.frame.begin_kernel(1, 10, 100);
  s.sample();
  CHECK(s.in_flight().kernel_plan == 10);
  s.frame.end_kernel(1, 200, 7, 8);
  s.sample();
  const RoundsMessage r = s.rounds();
  REQUIRE(r.rounds.size() == 2);
  for (const FinishedRound& round : r.rounds) {
    CHECK(round.end_device_ns == 200);
    CHECK(round.send_steps == 7);
    CHECK(round.flags == (counts_valid | shared_kernel));
  }
}

TEST_CASE("a wrong channel mask is not a hang: a later kernel proves that this one is over") {
  Scene s(2);
  s.frame.launch_operation(5, 2);  // says channel 1, but ran somewhere else
  s.frame.launch_operation(6, 1);
  s.frame.run_kernel(1, 6, 100, 200);
  s.sample();
  s.settle();
  CHECK(s.tracker.completed_op_seq() == 2);
  const RoundsMessage r = s.rounds();
  CHECK(r.rounds.at(0).flags == lapped);
  CHECK(r.rounds.at(1).end_device_ns == 200);
}

TEST_CASE("a kernel that never shows its end is over when the next one has begun") {
  Scene s(2);
  s.frame.launch_operation(5, 3);
  s.frame.launch_operation(6, 3);
  s.frame.begin_kernel(3, 5, 100);
  s.frame.end(0, 1, 150);
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 0);
  s.frame.begin_kernel(3, 6, 200);
  s.sample();
  s.sample();
  CHECK(s.tracker.completed_op_seq() == 1);
  CHECK(s.rounds().rounds.at(0).flags == lapped);
  CHECK(s.in_flight().kernel_plan == 6);
}

TEST_CASE("point-to-point calls are in flight until their kernel has ended") {
  Scene s(1);
  const uint64_t send = s.frame.enter_p2p(Direction::send, 4, 4096);
  const uint64_t recv = s.frame.enter_p2p(Direction::recv, 2, 8192);
  s.sample();
  InFlightMessage m = s.in_flight();
  CHECK(m.entered_p2p == 2);
  CHECK(m.p2p_total == 2);
  REQUIRE(m.p2p.size() == 2);
  CHECK((m.p2p[0].call() == 1 && m.p2p[0].peer() == 4 && m.p2p[0].launched() == 0));
  s.frame.launch_p2p(send, 7);
  s.frame.launch_p2p(recv, 7);
  s.frame.begin_kernel(1, 7, 500);
  s.frame.open_lane(0, Direction::send, 1, 0, 4);
  s.sample();
  m = s.in_flight();
  CHECK(m.kernel_plan == 7);
  CHECK((m.p2p.at(1).begun() == 1 && m.p2p[1].launched() == 1 && m.p2p[1].plan() == 7));
  CHECK(m.lanes.size() == 1);
  CHECK(m.operations_total == 0);
  s.frame.end_kernel(1, 900, 3, 3);
  s.sample();
  CHECK_FALSE(s.tracker.in_flight());
  const P2pRoundsMessage r = s.tracker.take_p2p(s.clock.at, true);
  REQUIRE(r.rounds.size() == 2);
  CHECK(r.comm_uid == 0x77);
  const FinishedP2p& second = r.rounds[1];
  CHECK((second.peer == 2 && second.direction == static_cast<uint8_t>(Direction::recv) && second.pair_seq == 1));
  CHECK((second.bytes == 8192 && second.begin_device_ns == 500 && second.end_device_ns == 900 && second.plan == 7));
  CHECK((second.enter_monotonic_ns == 1 && second.launch_monotonic_ns == 2));
  CHECK(second.flags == (shared_kernel | counts_valid));
  CHECK((second.send_steps == 3 && second.recv_steps == 3));
  CHECK_FALSE(s.tracker.has_p2p());
}

TEST_CASE("every replay of a graph is a round, and in flight only while the GPU runs it") {
  Scene s;
  const uint64_t op = s.frame.capture_operation(5);
  s.sample();
  CHECK_FALSE(s.tracker.in_flight());
  CHECK(s.tracker.replays());
  CHECK(s.tracker.completed_op_seq() == op);
  REQUIRE(s.rounds().rounds.size() == 1);  // that it was recorded
  s.sample(5000);
  CHECK_FALSE(s.tracker.late(s.clock.at));

  for (uint32_t n = 1; n <= 20; ++n) s.frame.run_kernel(3, 5, n * 100, n * 100 + 10, n, n, n);
  s.frame.begin_kernel(3, 5, 3000, 21);
  s.sample();
  RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 20);
  for (uint32_t n = 1; n <= 20; ++n) {
    CHECK(m.rounds[n - 1].op_seq == op);
    CHECK(m.rounds[n - 1].replay == n);
    CHECK(m.rounds[n - 1].begin_device_ns == n * 100);
    CHECK(m.rounds[n - 1].send_steps == 2 * n);
    CHECK(m.rounds[n - 1].flags == counts_valid);
  }
  s.sample(5000);
  CHECK(s.tracker.late(s.clock.at));
  const InFlightMessage f = s.in_flight();
  REQUIRE(f.operations.size() == 1);
  CHECK((f.operations[0].op_seq == op && f.operations[0].replay == 21 && f.operations[0].begun));
  CHECK((f.kernel_plan == 5 && f.kernel_replay == 21));
  CHECK(f.operations[0].channels.size() == 2);
  s.frame.end_kernel(3, 4000);
  s.sample();
  CHECK_FALSE(s.tracker.in_flight());
}

TEST_CASE("an index of a replay that is seen last is not lost, and replays keep their order") {
  Scene s(1);
  s.frame.capture_operation(5, 1);
  s.sample();
  s.rounds();
  s.frame.run_kernel(1, 5, 100, 110, 1, 1);
  s.sample();
  CHECK(s.rounds().rounds.empty());
  s.frame.run_kernel(1, 5, 200, 210, 2, 2, 2);
  s.frame.replay(0, 1, 1);
  s.sample();
  RoundsMessage m = s.rounds();
  REQUIRE(m.rounds.size() == 2);
  CHECK((m.rounds[0].replay == 1 && m.rounds[1].replay == 2));
  // One that never comes is missed by the next.
  s.frame.run_kernel(1, 5, 300, 310, 3, 3);
  s.frame.run_kernel(1, 5, 400, 410, 4, 4, 4);
  s.sample();
  s.sample();
  m = s.rounds();
  REQUIRE(m.rounds.size() == 1);
  CHECK(m.rounds[0].replay == 4);
  CHECK(s.tracker.lapped_rounds() == 1);
  CHECK_FALSE(s.tracker.in_flight());
}

TEST_CASE("replays that were lapped are counted by their index, and the next ones are whole again") {
  Scene s;
  s.frame.capture_operation(5);
  s.sample();
  s.rounds();
  for (uint32_t n = 1; n <= abi::rounds_max + 30; ++n) s.frame.run_kernel(3, 5, n * 100, n * 100 + 10, n, n, n);
  s.sample();
  const uint32_t next = abi::rounds_max + 31;
  s.frame.run_kernel(3, 5, next * 100, next * 100 + 10, 1, 1, next);
  s.sample();
  const RoundsMessage m = s.rounds();
  REQUIRE_FALSE(m.rounds.empty());
  CHECK(m.rounds.back().replay == next);
  CHECK(m.rounds.back().flags == counts_valid);
  CHECK(s.tracker.lapped_rounds() + m.rounds.size() == next);
  CHECK_FALSE(s.tracker.in_flight());
}

TEST_CASE(
    "short kernels that overwrite the rows again and again are known as sums, and the newest of them one by one") {
  Scene s;
  s.frame.capture_operation(5);
  s.sample();
  s.rounds();
  // One graph on two channels, a kernel every 5 us, looked at every 10 ms, for 100 ms. The second channel is read
  // later: meanwhile the GPU goes on there.
  constexpr uint32_t per_look = 2000;
  uint32_t ahead = 0, replays = 0;
  uint64_t reported = 0;
  const auto at = [](uint32_t n) { return uint64_t{n} * 5000; };
  for (int look = 1; look <= 10; ++look) {
    while (replays < static_cast<uint32_t>(look) * per_look) {
      ++replays;
      s.frame.run_kernel(1, 5, at(replays), at(replays) + 4000, 3, 3, replays);
    }
    for (; ahead < replays + 7; ++ahead) s.frame.run_kernel(2, 5, at(ahead + 1), at(ahead + 1) + 4000, 2, 2);
    s.sample(10000);
    for (const FinishedRound& round : s.rounds().rounds) {
      ++reported;
      REQUIRE(round.begin_device_ns == at(round.replay));  // channels of one replay are put together
      REQUIRE(round.end_device_ns == at(round.replay) + 4000);
      if ((round.flags & counts_valid) != 0) {
        CHECK(round.send_steps == 5);
      }
    }
  }
  CHECK(reported > 10 * (abi::rounds_max - 20));
  const SummedRuns sums = s.tracker.summed_kernels();
  // Nothing is missing; one of each look, with times and without counts, is in both.
  CHECK(sums.runs + reported >= replays);
  CHECK(sums.runs + reported <= replays + 10 + 7);
  CHECK(sums.busy_ns == sums.runs * 4000);
  CHECK(s.tracker.lapped_rounds() + reported <= replays);
  CHECK(s.tracker.lapped_rounds() + reported >= replays - abi::rounds_max);
}

TEST_CASE("graphs beyond what can be remembered are forgotten, oldest first, and counted") {
  Scene s(1);
  for (uint32_t token = 1; token <= captured_max + 2; ++token) {
    s.frame.capture_operation(token, 1);
    if (token % 100 == 0) s.sample();
  }
  s.sample();
  CHECK(s.tracker.forgotten_captures() == 2);
  s.rounds();
  s.frame.run_kernel(1, 1, 10, 20, 0, 0, 1);  // forgotten
  s.frame.run_kernel(1, 3, 30, 40, 0, 0, 1);
  s.sample();
  CHECK(s.rounds().rounds.size() == 1);
}

TEST_CASE("movement and its age tell a stuck kernel from a running one") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 1, 5, 100);
  abi::Lane& send = s.frame.open_lane(0, Direction::send, 1, 0, 4);
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
  s.frame.begin(0, 1, 5, 100);
  abi::Lane& recv = s.frame.open_lane(0, Direction::recv, 1, 8, 4);
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
  CHECK(m.lanes[0].wait_age_ms() >= 99 - slow_look_ns / ns_per_ms);
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
  s.frame.begin(0, 1, 5, 100);
  s.frame.open_lane(0, Direction::recv, 1, 8, 4).poll_tick = 99;
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
  s.frame.begin(0, 1, 5, 100);
  s.frame.open_lane(0, Direction::recv, 1, 8, 4, 0, 0, 2, 3).current_step = 20;  // warps 2 to 4
  s.frame.open_lane(0, Direction::send, 1, 8, 6, 0, 0, 2, 3).current_step = 20;
  s.sample();
  for (int i = 0; i < 16; ++i) {
    ++s.frame.channel(0).warp_poll_tick[9];  // another group
    s.sample();
  }
  CHECK(s.in_flight().lanes.at(0).wait_kind() == 0);
  for (int i = 0; i < 16; ++i) {
    ++s.frame.channel(0).warp_poll_tick[4];
    s.sample();
  }
  const InFlightMessage m = s.in_flight();
  REQUIRE(m.lanes.size() == 2);
  CHECK(m.lanes[0].wait_kind() == static_cast<uint8_t>(abi::WaitKind::data));
  CHECK(m.lanes[0].want_step() == 21);
  CHECK(m.lanes[0].wait_certain() == 1);
  CHECK(m.lanes[0].poll_age_ms() < slow_look_ns / ns_per_ms);
  CHECK(m.lanes[0].wait_age_ms() >= 7);
  CHECK(m.lanes[1].wait_kind() == 0);
  CHECK(m.operations[0].channels[0].polling_age_ms() < slow_look_ns / ns_per_ms);
  CHECK(m.operations[0].channels[0].running_age_ms() == 32);
}

TEST_CASE("lanes of the kernel before are not those of the one that has not built its own") {
  Scene s(1);
  s.frame.open_lane(0, Direction::recv, 0, 8, 4).current_step = 40;
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 1, 5, 100);
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
  ++s.frame.header().proxy.ticks;
  s.sample();
  CHECK(s.tracker.movement() == before + 1);
}

TEST_CASE("the stages of a link tell where its steps waited") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 1, 5, 100);
  abi::Lane& send = s.frame.open_lane(0, Direction::send, 1, 100, 4);
  abi::Lane& recv = s.frame.open_lane(0, Direction::recv, 1, 100, 2, 1);
  abi::ProxyRecord& out = s.frame.proxy(0, Direction::send, 0, 4, 100, 3);
  abi::ProxyRecord& in = s.frame.proxy(1, Direction::recv, 0, 2, 100, 3);
  // A second connection to the same peer, for another kind of traffic.
  s.frame.proxy(2, Direction::send, 0, 4, 5000, 3);
  s.sample();
  // Step i: posted by the GPU at i ms, transmitted 2 ms later, done 5 ms later; received at i + 1, handed over at i +
  // 2, consumed at i + 3.
  const auto reached = [](int ms, int delay) { return static_cast<uint32_t>(std::min(std::max(ms - delay, 0), 40)); };
  const int64_t t0 = s.clock.at.realtime_ns;
  for (int ms = 1; ms <= 50; ++ms) {
    send.current_step = 100 + reached(ms, 0);
    out.transmitted = 100 + reached(ms, 2);
    out.done = 100 + reached(ms, 5);
    in.posted = 100 + reached(ms, 0);
    in.received = 100 + reached(ms, 1);
    in.transmitted = 100 + reached(ms, 2);
    recv.current_step = 100 + reached(ms, 3);
    ++s.frame.header().proxy.ticks;
    if (ms == 43) s.frame.count(0, 1, 40, 40);
    if (ms == 43) s.frame.end(0, 1, 9000);
    s.sample();
    if (ms == 43) CHECK(s.tracker.completed_op_seq() == 1);
    // `done` is reached by the last step at 45 ms: until then the link is open, and the round waits for it.
    if (ms == 43) CHECK(s.tracker.take_rounds(s.clock.at, false).rounds.empty());
    if (ms == 43) CHECK(s.tracker.busy());
    if (ms == 45) CHECK_FALSE(s.tracker.busy());
  }
  const RoundsMessage m = s.tracker.take_rounds(s.clock.at, false);
  REQUIRE(m.rounds.size() == 1);
  REQUIRE(m.links.size() == 2);
  const auto ms_after = [t0](int64_t mean) { return static_cast<double>(mean - t0) / 1e6; };
  CHECK(m.link_first_step == std::vector<uint32_t>{20, 20});
  const double mean = 30.5 - 0.5;  // of the steps 21 to 40, which happened half a sample before they were seen
  const wire::LinkStages& sender = m.links[1];
  CHECK(sender.direction() == static_cast<uint8_t>(Direction::send));
  CHECK(sender.peer() == 4);
  CHECK(sender.net_device() == 3);
  CHECK(sender.steps() == 40);
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

TEST_CASE("steps of a tree that nobody saw before the next kernel began are those of its links") {
  for (const uint32_t of_proxy : {2U, 5U}) {
    INFO(of_proxy);
    Scene s(1);
    // A child in the same node, and one behind a network.
    s.frame.launch_operation(5, 1);
    s.frame.begin(0, 1, 5, 100);
    abi::Lane& near = s.frame.open_lane(0, Direction::recv, 1, 700, 1);
    abi::Lane& far = s.frame.open_lane(0, Direction::recv, 1, 300, 2, 0, 1);
    abi::ProxyRecord& proxy = s.frame.proxy(0, Direction::recv, 0, 2, 300, 3);
    proxy.step_count = of_proxy;
    ++s.frame.header().proxy.ticks;
    near.current_step = 701;
    s.sample();
    proxy.posted = proxy.received = proxy.transmitted = proxy.done = 302;
    ++s.frame.header().proxy.ticks;
    s.frame.count(0, 1, 0, 4);
    s.frame.end(0, 1, 9000);
    s.frame.launch_operation(6, 1);
    s.frame.begin(0, 2, 6, 10'000);
    near = far = abi::Lane{};
    s.sample();
    const RoundsMessage m = s.rounds();
    if (of_proxy > 4) {  // it does not fit what the kernel counted, so nothing is concluded
      REQUIRE(m.links.size() == 1);
      CHECK(m.links[0].steps() == 1);
      continue;
    }
    REQUIRE(m.links.size() == 2);
    for (const wire::LinkStages& l : m.links) CHECK(l.steps() == 2);
    CHECK(m.links[1].peer() == 2);
    CHECK(m.links[1].wire_mean_realtime_ns() != 0);
  }
}

TEST_CASE("over many short rounds the stages tell how long steps waited, though each wait is shorter than a sample") {
  Scene s(1);
  abi::ProxyRecord& proxy = s.frame.proxy(0, Direction::send, 0, 4, 0, 3);
  constexpr int rounds = 400, steps = 4;
  constexpr double apart_ms = 0.3, wait_ms = 0.25, length_ms = 1.6;  // of steps; of each in the proxy; of a kernel
  double waited_ms = 0;
  int told = 0;
  for (uint64_t round = 1; round <= rounds; ++round) {
    const uint64_t token = 4 + round, base = steps * (round - 1);
    const double begin_ms = std::fmod(0.618 * static_cast<double>(round), 1);  // after the sample before
    const auto reached = [&](double ms) { return std::clamp(static_cast<int>(std::floor(ms / apart_ms)), 0, steps); };
    s.frame.launch_operation(token, 1);
    s.frame.begin(0, round, token, 100 * round);
    abi::Lane& lane = s.frame.open_lane(0, Direction::send, round, static_cast<uint32_t>(base), 4);
    proxy.base = base;
    bool ended = false;
    for (int sample = 1; !ended; ++sample) {
      const double ms = sample - begin_ms;
      lane.current_step = static_cast<uint32_t>(base) + static_cast<uint32_t>(reached(ms));
      proxy.transmitted = proxy.done = base + static_cast<uint64_t>(reached(ms - wait_ms));
      ++s.frame.header().proxy.ticks;
      ended = ms >= length_ms;
      if (ended) s.frame.count(0, round, steps, 0);
      if (ended) s.frame.end(0, round, 100 * round + 50);
      s.sample();
    }
    for (const wire::LinkStages& l : s.rounds().links) {
      ++told;
      waited_ms += static_cast<double>(l.wire_mean_realtime_ns() - l.gpu_mean_realtime_ns()) / 1e6;
    }
  }
  CHECK(told == rounds);
  CHECK(waited_ms / told == Approx(wait_ms).margin(0.02));
}

TEST_CASE("stages come at the same times, however often the process is sampled") {
  static constexpr int rounds = 300, steps = 20;
  const auto mean_error_ms = [](uint64_t apart_ms) {
    Scene s(1);
    abi::ProxyRecord& proxy = s.frame.proxy(0, Direction::send, 0, 4, 0, 3);
    double error_ms = 0;
    int told = 0;
    for (uint64_t round = 1; round <= rounds; ++round) {
      const uint64_t token = 4 + round, base = steps * (round - 1);
      const auto now_ms = [&] { return static_cast<double>(s.clock.at.realtime_ns % 100'000'000'000) / 1e6; };
      const double begin_ms =
          now_ms() + static_cast<double>(apart_ms) * std::fmod(0.618 * static_cast<double>(round), 1);
      const auto reached = [=](double ms) { return std::clamp(static_cast<int>(std::floor(ms)), 0, int{steps}); };
      s.frame.launch_operation(token, 1);
      s.frame.begin(0, round, token, 100 * round);
      abi::Lane& lane = s.frame.open_lane(0, Direction::send, round, static_cast<uint32_t>(base), 4);
      proxy.base = base;
      for (bool ended = false; !ended;) {
        const double ms = now_ms() + static_cast<double>(apart_ms) - begin_ms;
        lane.current_step = static_cast<uint32_t>(base) + static_cast<uint32_t>(reached(ms));
        proxy.transmitted = proxy.done = base + static_cast<uint64_t>(reached(ms));
        ++s.frame.header().proxy.ticks;
        ended = ms >= steps + 1;
        if (ended) s.frame.count(0, round, steps, 0);
        if (ended) s.frame.end(0, round, 100 * round + 50);
        s.sample(apart_ms);
      }
      for (const wire::LinkStages& l : s.rounds().links) {
        const double mean_ms = (wire::first_counted_step(steps) + 1 + steps) / 2.0;
        error_ms += static_cast<double>(l.wire_mean_realtime_ns() % 100'000'000'000) / 1e6 - begin_ms - mean_ms;
        ++told;
      }
    }
    CHECK(told == rounds);
    return error_ms / told;
  };
  const double often = mean_error_ms(1), seldom = mean_error_ms(6);
  CHECK(often == Approx(0).margin(0.1));
  CHECK(seldom == Approx(0).margin(0.3));
}

TEST_CASE("what a proxy tells of its times goes before what samples say of them") {
  for (const bool whole : {true, false}) {
    INFO(whole);
    Scene s(1);
    s.frame.launch_operation(5, 1);
    s.frame.begin(0, 1, 5, 100);
    abi::Lane& lane = s.frame.open_lane(0, Direction::send, 1, 300, 2);
    abi::ProxyRecord& proxy = s.frame.proxy(0, Direction::send, 0, 2, 300, 3);
    proxy.step_count = 4;
    s.sample();
    const Instant began = s.clock.at;
    s.sample();
    abi::ProxyTimes& times = s.frame.proxy_times(0);
    times.version = 2;
    abi::ProxyOperationTimes& of = times.operations[0];
    of.base = 300;
    of.began_ns = began.monotonic_ns;
    of.steps[abi::stage_transmitted] = of.steps[abi::stage_done] = whole ? 4 : 3;
    of.sum_ns[abi::stage_transmitted] = 4 * 250'000;
    of.sum_ns[abi::stage_done] = 4 * 1'700'000;
    times.operations[1] = of;  // of an earlier operation
    times.operations[1].base = 296;
    times.operations[1].sum_ns[abi::stage_done] = 0;
    lane.current_step = 304;
    proxy.transmitted = proxy.done = 304;
    ++s.frame.header().proxy.ticks;
    s.frame.count(0, 1, 4, 0);
    s.frame.end(0, 1, 9000);
    s.sample(4);
    const RoundsMessage m = s.rounds();
    REQUIRE(m.links.size() == 1);
    const wire::LinkStages& l = m.links[0];
    const auto us_after = [&](int64_t ns) { return (ns - began.realtime_ns) / 1000; };
    if (whole) {
      CHECK(us_after(l.wire_mean_realtime_ns()) == 250);
      CHECK(us_after(l.done_mean_realtime_ns()) == 1700);
      CHECK(l.gpu_mean_realtime_ns() == l.wire_mean_realtime_ns());  // samples saw both at the same time
    } else {
      CHECK(us_after(l.wire_mean_realtime_ns()) == 3000);  // halfway between two samples
      CHECK(l.done_mean_realtime_ns() == l.wire_mean_realtime_ns());
    }
  }
}

TEST_CASE("the stages of a Send and of a Recv go with the first call with that peer") {
  Scene s(1);
  s.frame.enter_p2p(Direction::recv, 4, 64);  // an earlier kernel's
  s.frame.launch_p2p(1, 6);
  s.frame.begin_kernel(1, 6, 50);
  s.frame.end_kernel(1, 60, 0, 0);
  s.sample();
  s.tracker.take_p2p(s.clock.at, true);
  const uint64_t calls[] = {s.frame.enter_p2p(Direction::recv, 4, 4096), s.frame.enter_p2p(Direction::recv, 4, 4096),
                            s.frame.enter_p2p(Direction::send, 2, 8192), s.frame.enter_p2p(Direction::send, 3, 8192)};
  for (uint64_t call : calls) s.frame.launch_p2p(call, 7);
  s.frame.begin_kernel(1, 7, 500);
  abi::Lane& recv = s.frame.open_lane(0, Direction::recv, 2, 0, 4, 0);
  abi::Lane& send = s.frame.open_lane(0, Direction::send, 2, 0, 2, 0);
  abi::Lane& within_node = s.frame.open_lane(0, Direction::send, 2, 0, 3, 1);
  abi::ProxyRecord& in = s.frame.proxy(0, Direction::recv, 0, 4, 0, 1);
  abi::ProxyRecord& out = s.frame.proxy(1, Direction::send, 0, 2, 0, 1);
  // Both proxies take 2 ms for a step; the network has the last one only when the kernel has ended.
  const auto reached = [](int ms, int delay) { return static_cast<uint32_t>(std::min(std::max(ms - delay, 0), 10)); };
  for (int ms = 1; ms <= 20; ++ms) {
    send.current_step = within_node.current_step = reached(ms, 0);
    out.transmitted = out.done = reached(ms, 2);
    in.posted = in.received = reached(ms, 0);
    in.transmitted = recv.current_step = reached(ms, 2);
    ++s.frame.header().proxy.ticks;
    if (ms == 11) s.frame.end_kernel(1, 900, 10, 10);
    s.sample();
    if (ms == 11) CHECK(s.tracker.take_p2p(s.clock.at, false).rounds.size() == 0);
  }
  const P2pRoundsMessage m = s.tracker.take_p2p(s.clock.at, false);
  REQUIRE(m.rounds.size() == 4);
  REQUIRE(m.links.size() == 2);
  CHECK(m.link_first_step.size() == 2);
  const wire::LinkStages &from_4 = m.links[0], &to_2 = m.links[1];
  CHECK((from_4.peer() == 4 && from_4.direction() == static_cast<uint8_t>(Direction::recv) && from_4.op_seq() == 2));
  CHECK((to_2.peer() == 2 && to_2.direction() == static_cast<uint8_t>(Direction::send) && to_2.op_seq() == 1));
  CHECK((to_2.net_device() == 1 && to_2.steps() == 10));
  CHECK(to_2.wire_mean_realtime_ns() - to_2.gpu_mean_realtime_ns() == 2'000'000);
  CHECK(from_4.done_mean_realtime_ns() - from_4.wire_mean_realtime_ns() == 2'000'000);
  CHECK_FALSE(s.tracker.busy());
}

TEST_CASE("a proxy that never finishes holds its round back for a bounded time only") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 1, 5, 100);
  abi::Lane& send = s.frame.open_lane(0, Direction::send, 1, 100, 4);
  s.frame.proxy(0, Direction::send, 0, 4, 100, 3);
  for (int i = 0; i < 5; ++i) {
    ++send.current_step;
    s.sample();
  }
  s.frame.count(0, 1, 5, 0);
  s.frame.end(0, 1, 9000);
  s.sample();
  CHECK(s.tracker.take_rounds(s.clock.at, false).rounds.empty());
  s.sample(link_settle_ns / ns_per_ms);
  CHECK_FALSE(s.tracker.busy());
  CHECK(s.tracker.take_rounds(s.clock.at, false).rounds.size() == 1);
}

TEST_CASE("short rounds and lanes without a proxy send no stages of proxies") {
  Scene s(1);
  s.frame.launch_operation(5, 1);
  s.frame.begin(0, 1, 5, 100);
  abi::Lane& send = s.frame.open_lane(0, Direction::send, 1, 100, 4);
  s.sample();
  s.frame.count(0, 1, 0, 0);
  s.frame.end(0, 1, 200);
  s.sample();
  CHECK(s.rounds().links.empty());  // it gave no step
  s.frame.launch_operation(6, 1);
  s.frame.begin(0, 2, 6, 300);
  s.frame.open_lane(0, Direction::send, 2, 100, 4);
  for (int i = 0; i < 5; ++i) {
    ++send.current_step;
    s.sample();
  }
  s.frame.count(0, 2, 0, 0);
  s.frame.end(0, 2, 400);
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
  s.frame.begin(0, 1, 5, 100);
  s.frame.open_lane(0, Direction::send, 1, 100, 4).current_step = 108;
  s.sample();
  s.frame.open_lane(0, Direction::send, 1, 40, 6).current_step = 44;
  s.sample();
  CHECK(s.in_flight().operations.at(0).channels.at(0).send_steps() == 12);
}

TEST_CASE("only so many operations are listed, the running one always") {
  Scene s(1);
  for (int i = 0; i < 40; ++i) s.frame.enter();
  s.frame.plan(30, 9, 1);
  s.frame.launch(30);
  s.frame.begin(0, 1, 9, 1);
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
      s.frame.run_kernel(1, token, token, token + 7, 3, 4);
    }
    s.sample();
  }
  CHECK(s.tracker.dropped_rounds() == 5000 - rounds_pending_max);
  const SummedRuns sums = s.tracker.summed_kernels();  // what they did is not lost
  CHECK(sums.runs == 5000 - rounds_pending_max);
  CHECK(sums.busy_ns == sums.runs * 7);
  CHECK((sums.send_steps == sums.runs * 3 && sums.recv_steps == sums.runs * 4));
  const RoundsMessage m = s.rounds();
  CHECK(m.rounds.size() == rounds_pending_max);
  CHECK(m.rounds.back().op_seq == 5000);
}

TEST_CASE("rounds without times displace none that have them") {
  Scene s(1);
  uint32_t token = 0;
  constexpr int bursts = 10;
  for (int burst = 0; burst < bursts; ++burst) {
    for (int i = 0; i < 1000; ++i) {
      s.frame.launch_operation(++token, 1);
      s.frame.run_kernel(1, token, token * 100, token * 100 + 50);
    }
    s.sample();
    s.sample(200000);  // looks for kernels that left no rows
  }
  size_t timed = 0;
  for (const FinishedRound& round : s.rounds().rounds) timed += round.end_device_ns != 0;
  CHECK(timed == bursts * abi::rounds_max);
}

TEST_CASE("without a listener no rounds are kept") {
  Scene s(1);
  TrackerOptions options = Scene::options();
  options.keep_rounds = false;
  CommTracker tracker(s.view(), 1, 0, options, s.clock.at);
  s.frame.launch_operation(1, 1);
  s.frame.run_kernel(1, 1, 1, 2);
  tracker.sample(s.clock.at);
  CHECK(tracker.completed_op_seq() == 1);
  CHECK_FALSE(tracker.has_rounds());
}

}  // namespace
}  // namespace ccld::probe
