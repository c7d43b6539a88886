// What the training path writes, as schemas/abi/frame_reader.h reads it.
#include <atomic>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "probe/frames/comm.h"
#include "probe/frames/frame_file.h"
#include "probe/probe.h"
#include "schemas/abi/frame_reader.h"
#include "test/unit/frames/temporary_folder.h"

namespace ccld::probe {
namespace {

class Frame {
 public:
  Frame() {
    CommSetup setup{};
    setup.rank_count = 2;
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

 private:
  TemporaryFolder folder_;
  Comm* comm_ = nullptr;
  std::optional<abi::FrameView> view_;
};

Operation all_reduce(uint64_t count, uint8_t flags = 0) {
  return {abi::Function::all_reduce, abi::Datatype::float32, abi::Reduction::sum, flags, -1, count};
}

uint32_t launch(Frame& frame, std::vector<uint64_t> op_seqs, bool launched = true) {
  const uint32_t plan = plan_begins(frame.comm());
  for (uint64_t op_seq : op_seqs)
    operation_planned(frame.comm(), op_seq, plan, abi::Algorithm::ring, abi::Protocol::ll, 1, 1);
  plan_launched(frame.comm(), plan, launched);
  return plan;
}

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
  const uint32_t first = launch(frame, {4, 1, 3});
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
  }
  CHECK((frame.operation(2).flags & abi::op_launched) == 0);
  CHECK(frame.operation(2).plan == 0);

  const uint32_t second = launch(frame, {2});
  CHECK(second == first + 1);
  CHECK((frame.operation(2).flags & abi::op_launched) != 0);
  CHECK(frame->header->api.launched_op_seq == 4);
}

TEST_CASE("A kernel that CUDA refused leaves its operations not launched") {
  Frame frame;
  operation_entered(frame.comm(), all_reduce(1));
  const uint32_t plan = launch(frame, {1}, false);
  CHECK(frame.operation(1).plan == plan);
  CHECK((frame.operation(1).flags & abi::op_launched) == 0);
  CHECK(frame.operation(1).launch_monotonic_ns == 0);
  CHECK(frame->header->api.launched_op_seq == 0);
  CHECK(frame->header->api.launched_plan == 0);
}

TEST_CASE("A kernel of point-to-point operations counts as a launch and changes no collective") {
  Frame frame;
  operation_entered(frame.comm(), all_reduce(1));
  p2p_entered(frame.comm());
  p2p_entered(frame.comm());
  CHECK(frame->header->api.entered_p2p == 2);
  CHECK(frame->header->api.entered_op_seq == 1);
  const uint32_t plan = launch(frame, {});
  CHECK(frame->header->api.launched_plan == plan);
  CHECK(frame->header->api.launched_op_seq == 0);
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

TEST_CASE("Operations whose kernels write no rounds say so") {
  Frame frame;
  operation_entered(frame.comm(), all_reduce(1));
  const uint32_t plan = plan_begins(frame.comm());
  operation_planned(frame.comm(), 1, plan, abi::Algorithm::symmetric, abi::Protocol::unknown, 0, 0);
  CHECK((frame.operation(1).flags & abi::op_no_kernel) != 0);
  plan_launched(frame.comm(), plan, true);
  CHECK((frame.operation(1).flags & abi::op_launched) != 0);
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
  CHECK(launch(frame, {}) == 0xffffffffu);
  CHECK(frame->header->api.launched_plan == 0xffffffffu);
  CHECK(launch(frame, {}) == 1);
  CHECK(frame->header->api.launched_plan == 0x100000001u);
}

TEST_CASE("Nothing happens without a communicator or after it was detached") {
  CHECK(operation_entered(nullptr, all_reduce(1)) == 0);
  CHECK(plan_begins(nullptr) == 0);
  operation_planned(nullptr, 1, 1, abi::Algorithm::ring, abi::Protocol::ll, 1, 1);
  plan_launched(nullptr, 1, true);
  p2p_entered(nullptr);
  proxy_visited(nullptr, steps(1));

  Frame frame;
  frame->detached = true;
  CHECK(operation_entered(frame.comm(), all_reduce(1)) == 0);
  CHECK(plan_begins(frame.comm()) == 0);
  p2p_entered(frame.comm());
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
    const uint32_t plan = plan_begins(frame.comm());
    operation_planned(frame.comm(), op_seq, plan, abi::Algorithm::tree, abi::Protocol::simple, 1, op_seq);
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
