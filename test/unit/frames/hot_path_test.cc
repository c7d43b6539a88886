// What the training path writes, as schemas/abi/frame_reader.h reads it.
#include <atomic>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "probe/frames/comm.h"
#include "probe/frames/frame_file.h"
#include "probe/frames/recording.h"
#include "probe/probe.h"
#include "schemas/abi/frame_reader.h"
#include "schemas/wire/link_steps.h"
#include "test/unit/frames/temporary_folder.h"

namespace ccld::probe {
namespace {

class Frame {
 public:
  Frame() {
    CommSetup setup{};
    setup.rank_count = 3;
    setup.channel_count = 1;
    std::string error;
    comm_ = frame_create({folder_.path(), "job"}, setup, &error);
    REQUIRE(comm_ != nullptr);
    view_ = abi::FrameView::open(frame_memory(comm_), frame_size(comm_), &error);
    REQUIRE(view_.has_value());
  }
  ~Frame() { comm_release(comm_); }
  Comm* operator->() { return comm_; }
  Comm* comm() { return comm_; }
  const abi::FrameView& view() const { return *view_; }

  abi::OpRecord operation(uint64_t op_seq) {
    abi::OpRecord copy{};
    REQUIRE(view_->read_operation(op_seq, &copy) == abi::Found::yes);
    return copy;
  }
  abi::P2pRecord p2p(uint64_t call) {
    abi::P2pRecord copy{};
    REQUIRE(view_->read_p2p(call, &copy) == abi::Found::yes);
    return copy;
  }

 private:
  TemporaryFolder folder_;
  Comm* comm_ = nullptr;
  std::optional<abi::FrameView> view_;
};

Operation all_reduce(uint64_t count, uint8_t flags = 0) {
  return {abi::Function::all_reduce, abi::Datatype::float32, abi::Reduction::sum, flags, -1, count};
}

constexpr uint8_t all_signals = abi::signal_times | abi::signal_steps | abi::signal_waits;

PlanShape ring() { return {abi::Algorithm::ring, abi::Protocol::ll, 1, 1, all_signals}; }

Plan launch(Frame& frame, std::vector<uint64_t> op_seqs, bool launched = true, bool captured = false) {
  const Plan plan = plan_begins(frame.comm(), captured);
  for (uint64_t op_seq : op_seqs) operation_planned(frame.comm(), op_seq, plan, ring());
  plan_launched(frame.comm(), plan, launched);
  return plan;
}

PointToPoint send_to(int peer, uint64_t bytes = 8) {
  return {abi::Direction::send, abi::Datatype::float32, abi::op_grouped, peer, bytes};
}
PointToPoint recv_from(int peer, uint64_t bytes = 8) {
  return {abi::Direction::recv, abi::Datatype::float32, abi::op_grouped, peer, bytes};
}

// The probe of this process is stopped while this lives.
class Stopped {
 public:
  Stopped() { set_recording(false); }
  ~Stopped() { set_recording(true); }
};

ProxySteps steps(uint64_t connection, uint64_t done = 0) {
  ProxySteps steps{};
  steps.connection = connection;
  steps.peer = 1;
  steps.channel = 0;
  steps.net_device = 2;
  steps.direction = abi::Direction::send;
  steps.done = done;
  return steps;
}

TEST_CASE("An accepted collective gets the next number and can be read with what the caller gave") {
  Frame frame;
  CHECK(operation_entered(frame.comm(), all_reduce(10)) == 1);
  const Operation broadcast{
      abi::Function::broadcast, abi::Datatype::int8, abi::Reduction::none, abi::op_grouped, 5, 77};
  CHECK(operation_entered(frame.comm(), broadcast) == 2);
  CHECK(frame->header->api.entered_op_seq == 2);

  const abi::OpRecord record = frame.operation(2);
  CHECK(record.function == static_cast<uint8_t>(abi::Function::broadcast));
  CHECK(record.datatype == static_cast<uint8_t>(abi::Datatype::int8));
  CHECK(record.reduction == static_cast<uint8_t>(abi::Reduction::none));
  CHECK(record.root == 5);
  CHECK(record.count == 77);
  CHECK(record.flags == abi::op_grouped);
  CHECK(record.enter_monotonic_ns != 0);
  CHECK(record.plan == 0);
  CHECK(record.launch_monotonic_ns == 0);
  CHECK(record.algorithm == static_cast<uint8_t>(abi::Algorithm::unknown));
  CHECK(frame.operation(1).count == 10);
}

TEST_CASE(
    "A launch completes the record of every operation that the kernel carries, in whatever order they are planned") {
  Frame frame;
  for (int i = 0; i < 4; ++i) operation_entered(frame.comm(), all_reduce(1, abi::op_grouped));
  const uint32_t first = launch(frame, {4, 1, 3}).token;
  CHECK(frame->header->api.launched_op_seq == 4);
  CHECK(frame->header->api.launched_plan == first);
  for (uint64_t op_seq : {1u, 3u, 4u}) {
    const abi::OpRecord record = frame.operation(op_seq);
    CHECK(record.plan == first);
    CHECK((record.flags & abi::op_launched) != 0);
    CHECK(record.launch_monotonic_ns >= record.enter_monotonic_ns);
    CHECK(record.algorithm == static_cast<uint8_t>(abi::Algorithm::ring));
    CHECK(record.protocol == static_cast<uint8_t>(abi::Protocol::ll));
    CHECK(record.channel_count == 1);
    CHECK(record.channel_mask == 1);
    CHECK(record.plan_operations == 3);
    CHECK(record.signals == all_signals);
    CHECK(record.replay_slot == 0);
  }
  CHECK((frame.operation(2).flags & abi::op_launched) == 0);
  CHECK(frame.operation(2).plan == 0);

  const uint32_t second = launch(frame, {2}).token;
  CHECK(second == first + 1);
  CHECK((frame.operation(2).flags & abi::op_launched) != 0);
  CHECK(frame.operation(2).plan_operations == 1);
  CHECK(frame->header->api.launched_op_seq == 4);
}

TEST_CASE("Plans that are made before the first of them is launched keep their operations apart") {
  Frame frame;
  for (int i = 0; i < 3; ++i) operation_entered(frame.comm(), all_reduce(1, abi::op_grouped));
  const Plan first = plan_begins(frame.comm(), false);
  operation_planned(frame.comm(), 1, first, ring());
  const Plan second = plan_begins(frame.comm(), false);
  operation_planned(frame.comm(), 2, second, ring());
  operation_planned(frame.comm(), 3, second, ring());
  plan_launched(frame.comm(), first, true);
  CHECK((frame.operation(1).flags & abi::op_launched) != 0);
  CHECK(frame.operation(1).plan_operations == 1);
  CHECK((frame.operation(2).flags & abi::op_launched) == 0);
  plan_launched(frame.comm(), second, true);
  CHECK(frame.operation(3).plan_operations == 2);
  CHECK(frame->header->api.launched_op_seq == 3);
}

TEST_CASE("An operation of many tasks counts once in its kernel") {
  Frame frame;
  operation_entered(frame.comm(), all_reduce(1));
  operation_entered(frame.comm(), all_reduce(1));
  launch(frame, {1, 2, 1, 2, 1, 2});
  CHECK(frame.operation(1).plan_operations == 2);
}

TEST_CASE("A kernel that CUDA refused leaves its operations not launched") {
  Frame frame;
  operation_entered(frame.comm(), all_reduce(1));
  const Plan plan = launch(frame, {1}, false);
  CHECK(frame.operation(1).plan == plan.token);
  CHECK((frame.operation(1).flags & abi::op_launched) == 0);
  CHECK(frame.operation(1).launch_monotonic_ns == 0);
  CHECK(frame->header->api.launched_op_seq == 0);
  CHECK(frame->header->api.launched_plan == 0);
  operation_entered(frame.comm(), all_reduce(1));
  launch(frame, {2});
  CHECK((frame.operation(1).flags & abi::op_launched) == 0);
  CHECK(frame.operation(2).plan_operations == 1);
}

TEST_CASE("A point-to-point call is numbered among those of its direction with its peer") {
  Frame frame;
  operation_entered(frame.comm(), all_reduce(1));
  CHECK(p2p_entered(frame.comm(), send_to(1, 100)) == 1);
  CHECK(p2p_entered(frame.comm(), recv_from(1)) == 2);
  CHECK(p2p_entered(frame.comm(), send_to(2)) == 3);
  CHECK(p2p_entered(frame.comm(), send_to(1)) == 4);
  CHECK(frame->header->api.entered_p2p == 4);
  CHECK(frame->header->api.entered_op_seq == 1);
  CHECK(frame.p2p(1).pair_seq == 1);
  CHECK(frame.p2p(2).pair_seq == 1);
  CHECK(frame.p2p(3).pair_seq == 1);
  CHECK(frame.p2p(4).pair_seq == 2);
  const abi::P2pRecord first = frame.p2p(1);
  CHECK(first.direction == static_cast<uint8_t>(abi::Direction::send));
  CHECK(first.peer == 1);
  CHECK(first.bytes == 100);
  CHECK(first.datatype == static_cast<uint8_t>(abi::Datatype::float32));
  CHECK(first.flags == abi::op_grouped);
  CHECK(first.enter_monotonic_ns != 0);
  CHECK(first.plan == 0);
  CHECK(p2p_entered(frame.comm(), send_to(3)) == 0);  // no such rank
  CHECK(p2p_entered(frame.comm(), send_to(-1)) == 0);
}

TEST_CASE("A kernel of point-to-point calls completes their records and changes no collective") {
  Frame frame;
  operation_entered(frame.comm(), all_reduce(1));
  p2p_entered(frame.comm(), send_to(1));
  p2p_entered(frame.comm(), recv_from(2));
  p2p_entered(frame.comm(), recv_from(1));
  const Plan plan = plan_begins(frame.comm(), false);
  const PlanShape shape{abi::Algorithm::unknown, abi::Protocol::unknown, 1, 1, all_signals | abi::signal_proxy};
  p2p_planned(frame.comm(), 1, plan, shape);
  p2p_planned(frame.comm(), 2, plan, shape);
  plan_launched(frame.comm(), plan, true);
  for (uint64_t call : {1u, 2u}) {
    const abi::P2pRecord record = frame.p2p(call);
    CHECK(record.plan == plan.token);
    CHECK(record.launch_monotonic_ns >= record.enter_monotonic_ns);
    CHECK(record.channel_mask == 1);
    CHECK(record.signals == shape.signals);
    CHECK(record.flags == (abi::op_grouped | abi::op_launched));
  }
  CHECK(frame.p2p(3).plan == 0);
  CHECK((frame.p2p(3).flags & abi::op_launched) == 0);
  CHECK(frame->header->api.launched_p2p == 2);
  CHECK(frame->header->api.launched_plan == plan.token);
  CHECK(frame->header->api.launched_op_seq == 0);
}

TEST_CASE("A point-to-point call for which nothing runs asks nobody to wait for it") {
  Frame frame;
  p2p_entered(frame.comm(), send_to(0));
  p2p_dropped(frame.comm(), 1);
  p2p_dropped(frame.comm(), 0);
  p2p_dropped(frame.comm(), 7);
  p2p_dropped(nullptr, 1);
  CHECK((frame.p2p(1).flags & abi::op_no_kernel) != 0);
}

TEST_CASE("What is recorded into a graph says so and gets a replay slot, as long as there is one") {
  Frame frame;
  operation_entered(frame.comm(), all_reduce(1));
  operation_captured(frame.comm(), 1);
  operation_captured(frame.comm(), 0);
  p2p_entered(frame.comm(), send_to(1));
  p2p_captured(frame.comm(), 1);
  const Plan plan = plan_begins(frame.comm(), true);
  CHECK(plan.replay_slot == 1);
  operation_planned(frame.comm(), 1, plan, ring());
  p2p_planned(frame.comm(), 1, plan, ring());
  plan_launched(frame.comm(), plan, true);
  CHECK((frame.operation(1).flags & abi::op_captured) != 0);
  CHECK(frame.operation(1).replay_slot == 1);
  CHECK((frame.p2p(1).flags & abi::op_captured) != 0);
  CHECK(frame.p2p(1).replay_slot == 1);
  CHECK(frame->header->api.captured_plans == 1);
  CHECK(launch(frame, {}).replay_slot == 0);
  CHECK(plan_begins(frame.comm(), true, false).replay_slot == 0);  // it would use none
  for (unsigned slot = 2; slot <= abi::replay_slots_max; ++slot)
    REQUIRE(launch(frame, {}, true, true).replay_slot == slot);
  CHECK(launch(frame, {}, true, true).replay_slot == 0);
  CHECK(frame->header->api.captured_plans == abi::replay_slots_max + 2);
}

TEST_CASE("While the probe is stopped calls are numbered and counted, but not recorded, and kernels get no token") {
  Frame frame;
  operation_entered(frame.comm(), all_reduce(1));
  p2p_entered(frame.comm(), send_to(1));
  {
    Stopped stopped;
    CHECK(operation_entered(frame.comm(), all_reduce(2)) == 2);
    CHECK(p2p_entered(frame.comm(), send_to(1)) == 0);
    const Plan plan = launch(frame, {2});
    CHECK(plan.token == 0);
    CHECK(plan.replay_slot == 0);
  }
  CHECK(frame->header->api.unseen_while_stopped == 2);
  CHECK(frame->header->api.entered_op_seq == 2);
  CHECK(frame->header->api.entered_p2p == 2);
  CHECK(frame->header->api.launched_plan == 0);
  abi::OpRecord copy{};
  CHECK(frame.view().read_operation(2, &copy) != abi::Found::yes);

  CHECK(operation_entered(frame.comm(), all_reduce(3)) == 3);
  CHECK(p2p_entered(frame.comm(), send_to(1)) == 3);
  CHECK(frame.p2p(3).pair_seq == 3);
  CHECK(launch(frame, {3}).token == 1);
}

TEST_CASE("An operation whose kernel comes while the probe is stopped asks nobody to wait for it") {
  Frame frame;
  operation_entered(frame.comm(), all_reduce(1));
  Stopped stopped;
  launch(frame, {1});
  CHECK((frame.operation(1).flags & abi::op_no_kernel) != 0);
}

TEST_CASE("A group that was only simulated leaves all numbers to the calls that come next") {
  Frame frame;
  group_begins(frame.comm());
  operation_entered(frame.comm(), all_reduce(10));
  launch(frame, {1});
  group_begins(frame.comm());
  p2p_entered(frame.comm(), send_to(1));

  group_begins(frame.comm());
  operation_entered(frame.comm(), all_reduce(20));
  operation_entered(frame.comm(), all_reduce(30));
  for (const PointToPoint& call : {send_to(1), send_to(2), recv_from(1)}) p2p_entered(frame.comm(), call);
  group_simulated(frame.comm());
  CHECK(frame.view().entered_op_seq() == 1);
  CHECK(frame.view().entered_p2p() == 1);

  group_begins(frame.comm());
  CHECK(operation_entered(frame.comm(), all_reduce(40)) == 2);
  CHECK(frame.operation(2).count == 40);
  for (const PointToPoint& call : {send_to(1), send_to(2), recv_from(1)}) p2p_entered(frame.comm(), call);
  CHECK(frame.p2p(2).pair_seq == 2);
  CHECK(frame.p2p(3).pair_seq == 1);
  CHECK(frame.p2p(4).pair_seq == 1);
}

TEST_CASE("Operations that run nothing do not keep later ones from being launched") {
  Frame frame;
  operation_entered(frame.comm(), all_reduce(0, abi::op_no_kernel));
  operation_entered(frame.comm(), all_reduce(1));
  launch(frame, {2});
  CHECK(frame->header->api.launched_op_seq == 2);
  CHECK(frame.operation(1).flags == abi::op_no_kernel);
  operation_entered(frame.comm(), all_reduce(1));
  launch(frame, {3});
  CHECK((frame.operation(3).flags & abi::op_launched) != 0);
}

TEST_CASE("Operations of which nothing can be seen say so, also when that turns out at the launch") {
  Frame frame;
  const PlanShape unseen{abi::Algorithm::symmetric, abi::Protocol::unknown, 0, 0, 0};
  PlanShape by_stream = unseen;
  by_stream.signals = abi::signal_stream;
  for (int i = 0; i < 3; ++i) operation_entered(frame.comm(), all_reduce(1));
  Plan plan = plan_begins(frame.comm(), true);
  operation_planned(frame.comm(), 1, plan, unseen);
  CHECK((frame.operation(1).flags & abi::op_no_kernel) != 0);
  CHECK(frame.operation(1).replay_slot == 0);  // nothing numbers its replays
  plan_launched(frame.comm(), plan, true);
  CHECK((frame.operation(1).flags & abi::op_launched) != 0);

  plan = plan_begins(frame.comm(), false);
  operation_planned(frame.comm(), 2, plan, by_stream);
  CHECK(frame.operation(2).signals == abi::signal_stream);
  CHECK((frame.operation(2).flags & abi::op_no_kernel) == 0);
  plan_launched(frame.comm(), plan, true);

  plan = plan_begins(frame.comm(), false);
  operation_planned(frame.comm(), 3, plan, by_stream);
  plan_loses_signals(frame.comm(), plan, abi::signal_stream);
  plan_launched(frame.comm(), plan, true);
  CHECK(frame.operation(3).signals == 0);
  CHECK((frame.operation(3).flags & abi::op_no_kernel) != 0);
  CHECK(frame.operation(2).signals == abi::signal_stream);
}

TEST_CASE("The ring remembers the newest operations and admits that older ones are gone") {
  Frame frame;
  const uint64_t count = abi::ops_max + 10;
  for (uint64_t i = 1; i <= count; ++i) {
    REQUIRE(operation_entered(frame.comm(), all_reduce(i)) == i);
    launch(frame, {i});
  }
  abi::OpRecord copy{};
  CHECK(frame.view().read_operation(10, &copy) == abi::Found::later);
  CHECK(frame.view().read_operation(count + 1, &copy) == abi::Found::earlier);
  for (uint64_t i = 11; i <= count; ++i) {
    const abi::OpRecord record = frame.operation(i);
    CHECK(record.count == i);
    CHECK(record.plan == i);
    CHECK((record.flags & abi::op_launched) != 0);
  }
}

TEST_CASE("A group of more operations than the ring holds launches those that are still there") {
  Frame frame;
  const uint64_t count = 3 * abi::ops_max;
  std::vector<uint64_t> all;
  for (uint64_t i = 1; i <= count; ++i) all.push_back(operation_entered(frame.comm(), all_reduce(i, abi::op_grouped)));
  launch(frame, all);
  CHECK(frame->header->api.launched_op_seq == count);
  for (uint64_t i = count - abi::ops_max + 1; i <= count; ++i)
    CHECK((frame.operation(i).flags & abi::op_launched) != 0);
}

TEST_CASE("Tokens are never 0 and the launched number stays ahead of their wrap") {
  Frame frame;
  frame->user.plans = 0xfffffffeu;
  frame->user.launched_plans = 0xfffffffeu;
  CHECK(launch(frame, {}).token == 0xffffffffu);
  CHECK(frame->header->api.launched_plan == 0xffffffffu);
  CHECK(launch(frame, {}).token == 1);
  CHECK(frame->header->api.launched_plan == 0x100000001u);
}

TEST_CASE("Nothing happens without a communicator or after it was detached") {
  CHECK(operation_entered(nullptr, all_reduce(1)) == 0);
  CHECK(plan_begins(nullptr, true).token == 0);
  operation_planned(nullptr, 1, Plan{1, 0}, ring());
  p2p_planned(nullptr, 1, Plan{1, 0}, ring());
  plan_loses_signals(nullptr, Plan{1, 0}, abi::signal_stream);
  plan_launched(nullptr, Plan{1, 0}, true);
  CHECK(p2p_entered(nullptr, send_to(1)) == 0);
  operation_captured(nullptr, 1);
  p2p_captured(nullptr, 1);
  proxy_visited(nullptr, steps(1));

  Frame frame;
  frame->detached = true;
  CHECK(operation_entered(frame.comm(), all_reduce(1)) == 0);
  CHECK(plan_begins(frame.comm(), false).token == 0);
  CHECK(p2p_entered(frame.comm(), send_to(1)) == 0);
  proxy_visited(frame.comm(), steps(1));
  CHECK(frame->header->api.entered_op_seq == 0);
  CHECK(frame->header->api.entered_p2p == 0);
  CHECK(frame->header->proxy.ticks == 0);
}

TEST_CASE("A reader beside a fast writer never accepts a mixture of two operations") {
  Frame frame;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint64_t> mixtures{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        // The oldest one still there is the next to be overwritten: the reader meets the writer in it.
        const uint64_t newest = frame.view().entered_op_seq();
        const uint64_t oldest = newest >= abi::ops_max ? newest - abi::ops_max + 1 : newest;
        for (uint64_t op_seq : {oldest, newest}) {
          abi::OpRecord copy{};
          if (op_seq == 0 || frame.view().read_operation(op_seq, &copy) != abi::Found::yes) continue;
          accepted.fetch_add(1, std::memory_order_relaxed);
          const bool launched = (copy.flags & abi::op_launched) != 0;
          const bool whole =
              copy.count == op_seq * 3 && copy.root == static_cast<int32_t>(op_seq & 0xffff) &&
              (!launched || (copy.plan != 0 && copy.launch_monotonic_ns != 0 && copy.channel_mask == op_seq));
          if (!whole) mixtures.fetch_add(1, std::memory_order_relaxed);
        }
      }
    });
  }
  // Ends by work done, not by time; the bound only keeps a broken reader from hanging the test.
  for (uint64_t i = 1; i <= 2000000 && (i <= 100000 || accepted.load(std::memory_order_relaxed) < 20000); ++i) {
    Operation operation = all_reduce(i * 3);
    operation.root = static_cast<int32_t>(i & 0xffff);
    const uint64_t op_seq = operation_entered(frame.comm(), operation);
    const Plan plan = plan_begins(frame.comm(), false);
    operation_planned(frame.comm(), op_seq, plan, {abi::Algorithm::tree, abi::Protocol::simple, 1, op_seq, all_signals});
    plan_launched(frame.comm(), plan, true);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(accepted.load() > 0);
  CHECK(mixtures.load() == 0);
}

TEST_CASE("A connection keeps its record and shows the newest steps") {
  Frame frame;
  proxy_visited(frame.comm(), steps(0x1000, 5));
  proxy_visited(frame.comm(), steps(0x2000, 7));
  proxy_visited(frame.comm(), steps(0x1000, 6));
  CHECK(frame->header->proxy.ticks == 3);
  CHECK(frame->header->proxy.connections == 2);
  CHECK(frame->header->proxy.dropped == 0);
  CHECK(frame->proxies[0].connection == 0x1000);
  CHECK(frame->proxies[0].ticks == 2);
  CHECK(frame->proxies[0].done == 6);
  CHECK(frame->proxies[0].net_device == 2);
  CHECK(frame->proxies[1].connection == 0x2000);
  CHECK(frame->proxies[1].done == 7);
}

TEST_CASE("A connection sums the time in which its proxy did not poll, operation by operation") {
  constexpr uint64_t ms = 1000000;
  Frame frame;
  const abi::ProxyRecord& record = frame->proxies[0];
  uint64_t done = 0;
  const auto visit = [&](uint64_t at_ms, uint64_t operation, bool found_work = true) {
    ProxySteps s = steps(0x1000, done += found_work);
    s.operation = operation;
    s.base = operation * 8;
    s.now_ns = at_ms * ms;
    proxy_visited(frame.comm(), s);
  };
  visit(100, 1);
  CHECK((record.began_ns == 100 * ms && record.visited_ns == 100 * ms && record.away_ns == 0));
  visit(109, 1);  // too short for a coarse clock
  CHECK(record.away_ns == 0);
  visit(150, 1);
  CHECK((record.away_ns == 41 * ms && record.away_before_ns == 0));
  visit(190, 1, false);  // nothing came meanwhile
  CHECK((record.away_ns == 41 * ms && record.visited_ns == 190 * ms));
  visit(950, 2);  // nothing was to be done in between
  CHECK((record.began_ns == 950 * ms && record.away_ns == 41 * ms && record.away_before_ns == 41 * ms));
  visit(970, 2);
  CHECK((record.away_ns == 61 * ms && record.away_before_ns == 41 * ms));
  CHECK(record.visited_ns == 970 * ms);
}

TEST_CASE("A proxy tells when the steps of each of its operations reached their stages") {
  Frame frame;
  const abi::ProxyTimes& times = frame->proxy_times[0];
  static uint64_t now_ns;
  static int reads;
  now_ns = 1000, reads = 0;
  const auto visit = [&](uint64_t operation, uint64_t base, uint64_t count, uint64_t transmitted, uint64_t done) {
    ProxySteps s = steps(0x1000, base + done);
    s.operation = operation;
    s.base = s.posted = s.received = base;
    s.transmitted = base + transmitted;
    s.step_count = count;
    s.exact_ns = [] { return ++reads, now_ns; };
    proxy_visited(frame.comm(), s);
  };
  visit(1, 8, 4, 0, 0);
  now_ns = 1100;
  visit(1, 8, 4, 0, 0);
  CHECK(reads == 1);  // nothing has moved
  visit(1, 8, 4, 1, 0);
  now_ns = 1400;
  visit(1, 8, 4, 4, 2);
  const abi::ProxyOperationTimes& first = times.operations[0];
  CHECK((first.base == 8 && first.began_ns == 1000));
  CHECK((first.steps[abi::stage_transmitted] == 4 && first.sum_ns[abi::stage_transmitted] == 100 + 3 * 400));
  CHECK((first.steps[abi::stage_done] == 2 && first.sum_ns[abi::stage_done] == 2 * 400));
  now_ns = 1500;
  visit(1, 8, 4, 4, 4);
  CHECK((first.steps[abi::stage_done] == 4 && first.sum_ns[abi::stage_done] == 2 * 400 + 2 * 500));
  // Of many steps the later ones count.
  constexpr uint64_t many = 40;
  const uint64_t from = ccld::wire::first_counted_step(many);
  now_ns = 2000;
  visit(2, 12, many, 0, 0);
  now_ns = 2100;
  visit(2, 12, many, from, 0);
  now_ns = 2300;
  visit(2, 12, many, many, 0);
  CHECK((first.base == 8 && first.steps[abi::stage_done] == 4));
  const abi::ProxyOperationTimes& second = times.operations[1];
  CHECK((second.base == 12 && second.began_ns == 2000));
  CHECK((second.steps[abi::stage_transmitted] == many - from &&
         second.sum_ns[abi::stage_transmitted] == (many - from) * 300));
  CHECK((times.version != 0 && times.version % 2 == 0 && times.operations_begun == 2));
  // Where the clock is too slow nothing is told.
  ProxySteps s = steps(0x2000, 3);
  proxy_visited(frame.comm(), s);
  CHECK(frame->proxy_times[1].version == 0);
}

TEST_CASE("All records can be used, and connections beyond them are counted once each") {
  Frame frame;
  for (int visit = 0; visit < 2; ++visit) {
    for (uint64_t i = 1; i <= abi::proxies_max + 3; ++i) proxy_visited(frame.comm(), steps(i * 64, i));
  }
  CHECK(frame->header->proxy.connections == abi::proxies_max);
  CHECK(frame->header->proxy.dropped == 3);
  for (uint64_t i = 1; i <= abi::proxies_max; ++i) {
    CHECK(frame->proxies[i - 1].connection == i * 64);
    CHECK(frame->proxies[i - 1].ticks == 2);
    CHECK(frame->proxies[i - 1].done == i);
  }
}

}  // namespace
}  // namespace ccld::probe
