#include "probe/hold/hold.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include <catch2/catch.hpp>

#include "probe/agent/clock.h"
#include "test/unit/schemas/synthetic_frame.h"

namespace ccld::probe {
namespace {

using abi::HoldState;
using Clock = std::chrono::steady_clock;

constexpr uint64_t uid = 0x77, long_ns = 60 * ns_per_s;

uint64_t now_ns() { return static_cast<uint64_t>(Clock::now().time_since_epoch().count()); }
uint64_t in_a_minute() { return now_ns() + long_ns; }
// NCCL has had nothing to do at any time.
uint64_t always_idle() { return UINT64_MAX; }
uint64_t never_idle() { return 0; }

// A rank of a communicator and the thread that trains on it: calls collectives until it is told to end.
struct Rank {
  explicit Rank(uint64_t comm_uid = uid, Hold* of = nullptr) : hold(of) {
    comm.setup = {3, 8, 1, 2, 22907};
    comm.header = &frame.header();
    comm.identity.comm_uid = comm_uid;
    comm.identity.channels.resize(1);
  }
  ~Rank() { end(); }

  // As the hooks do.
  void call(bool captured = false) {
    if (hold != nullptr && has_to_hold(comm, true)) hold->here(comm, true, captured);
    __atomic_store_n(&comm.header->api.entered_op_seq, ++comm.user.op_seq, __ATOMIC_RELEASE);
  }
  void call_p2p() {
    if (hold != nullptr && has_to_hold(comm, false)) hold->here(comm, false, false);
    ++p2p;
  }
  void train() {
    thread = std::thread([this] {
      while (!ends) {
        call();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  void end() {
    ends = true;
    if (thread.joinable()) thread.join();
  }
  uint64_t called() { return __atomic_load_n(&comm.header->api.entered_op_seq, __ATOMIC_ACQUIRE); }
  void wait_until_called(uint64_t count) {
    while (called() < count) std::this_thread::yield();
  }

  Hold* hold;
  test::SyntheticFrame frame;
  Comm comm;
  std::atomic<bool> ends{false};
  std::atomic<uint64_t> p2p{0};
  std::thread thread;
};

struct Scene {
  Scene() { hold.add(&rank.comm); }
  ~Scene() {
    hold.end();
    rank.end();
    hold.remove(&rank.comm);
  }
  std::string begin(uint64_t budget_ns = long_ns, uint64_t of = uid) {
    std::string refusal;
    Hold::Place place{};
    if (!hold.begin(of, budget_ns, &place, &refusal)) return "not here";
    CHECK((place.rank == 3 && place.rank_count == 8 && place.cuda_device == 1 && place.channels.size() == 1));
    return refusal;
  }
  Hold hold;
  Rank rank{uid, &hold};
};

TEST_CASE("a rank holds before the collective it was told, and goes on when the test ends") {
  Scene s;
  s.rank.train();
  REQUIRE(s.begin().empty());
  s.rank.wait_until_called(5);
  CHECK(s.hold.operations() >= 5);
  const uint64_t before = s.hold.operations() + 200;
  REQUIRE(s.hold.before(before) == HoldState::coming);
  REQUIRE(s.hold.wait(in_a_minute(), always_idle) == HoldState::holds);
  CHECK(s.rank.called() == before - 1);
  CHECK(s.hold.holds());
  CHECK(s.hold.until_ns() > now_ns());
  CHECK(s.hold.until_ns() <= in_a_minute());
  s.hold.end();
  s.rank.wait_until_called(before + 5);
  CHECK(!s.hold.holds());
  CHECK(s.hold.until_ns() == UINT64_MAX);
}

TEST_CASE("a collective that was called already cannot be held, and a later one can") {
  Scene s;
  s.rank.train();
  REQUIRE(s.begin().empty());
  s.rank.wait_until_called(5);
  CHECK(s.hold.before(3) == HoldState::passed);
  REQUIRE(s.hold.before(s.hold.operations() + 100) == HoldState::coming);
  REQUIRE(s.hold.wait(in_a_minute(), always_idle) == HoldState::holds);
  // Another rank has passed that one: all go on to a later one.
  const uint64_t later = s.rank.called() + 50;
  REQUIRE(s.hold.before(later) == HoldState::coming);
  REQUIRE(s.hold.wait(in_a_minute(), always_idle) == HoldState::holds);
  CHECK(s.rank.called() == later - 1);
}

TEST_CASE("it waits for the work that NCCL still has, and for a collective that does not come") {
  Scene s;
  REQUIRE(s.begin().empty());
  REQUIRE(s.hold.before(4) == HoldState::coming);
  CHECK(s.hold.wait(now_ns() + 20 * ns_per_ms, always_idle) == HoldState::coming);
  s.rank.train();
  CHECK(s.hold.wait(now_ns() + 200 * ns_per_ms, never_idle) == HoldState::coming);
  CHECK(s.hold.wait(in_a_minute(), always_idle) == HoldState::holds);
}

TEST_CASE("while one thread holds all calls of the process do, also Send and Recv and on communicators that are new") {
  Scene s;
  Rank other(0x88, &s.hold);
  s.hold.add(&other.comm);
  REQUIRE(s.begin().empty());
  REQUIRE(s.hold.before(3) == HoldState::coming);
  other.call_p2p();  // nobody holds yet
  CHECK(other.p2p == 1);
  s.rank.train();
  REQUIRE(s.hold.wait(in_a_minute(), always_idle) == HoldState::holds);
  Rank later(0x99, &s.hold);
  s.hold.add(&later.comm);
  other.thread = std::thread([&] { other.call_p2p(); });
  later.thread = std::thread([&] { later.call(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(other.p2p == 1);
  CHECK(later.called() == 0);
  s.hold.end();
  other.end();
  later.end();
  CHECK(other.p2p == 2);
  CHECK(later.called() == 1);
  s.hold.remove(&other.comm);
  s.hold.remove(&later.comm);
}

TEST_CASE("a process goes on by itself when it has held for as long as it may, in all holds of a test together") {
  Scene s;
  s.rank.train();
  const uint64_t begun_ns = now_ns();
  REQUIRE(s.begin(300 * ns_per_ms).empty());
  REQUIRE(s.hold.before(s.hold.operations() + 20) == HoldState::coming);
  REQUIRE(s.hold.wait(in_a_minute(), always_idle) == HoldState::holds);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  REQUIRE(s.hold.before(s.rank.called() + 2) == HoldState::coming);
  REQUIRE(s.hold.wait(in_a_minute(), always_idle) == HoldState::holds);
  CHECK(s.hold.until_ns() < now_ns() + 200 * ns_per_ms);
  const uint64_t before = s.rank.called();
  s.rank.wait_until_called(before + 5);
  CHECK(now_ns() - begun_ns >= 300 * ns_per_ms);
  CHECK(s.hold.wait(in_a_minute(), always_idle) == HoldState::over);
  CHECK(s.hold.before(before + 1000) == HoldState::over);
}

TEST_CASE("a call that is recorded into a graph does not wait, and the test hears of it") {
  Scene s;
  REQUIRE(s.begin().empty());
  REQUIRE(s.hold.before(1) == HoldState::coming);
  s.rank.call(true);
  CHECK(s.rank.called() == 1);
  CHECK(s.hold.wait(in_a_minute(), always_idle) == HoldState::refused);
  CHECK(s.hold.before(9) == HoldState::refused);
}

TEST_CASE("who cannot hold says why, and is not asked") {
  Scene s;
  CHECK(s.begin(long_ns, 0x99) == "not here");
  {
    Rank second(uid, &s.hold);
    s.hold.add(&second.comm);
    CHECK(s.begin().find("several ranks") != std::string::npos);
    CHECK(s.hold.before(1) == HoldState::over);
    s.hold.remove(&second.comm);
  }
  s.rank.comm.header->api.captured_plans = 1;
  CHECK(s.begin().find("CUDA graphs") != std::string::npos);
  s.rank.comm.header->api.captured_plans = 0;
  s.rank.comm.header->state.hidden = abi::hidden_device_api;
  CHECK(s.begin().find("device API") != std::string::npos);
  s.rank.call();  // waits for nothing
}

TEST_CASE("a communicator that ends is tested no more") {
  Scene s;
  auto gone = std::make_unique<Rank>(0x88, &s.hold);
  s.hold.add(&gone->comm);
  REQUIRE(s.begin(long_ns, 0x88).empty());
  REQUIRE(s.hold.before(5) == HoldState::coming);
  s.hold.remove(&gone->comm);
  gone.reset();
  CHECK(s.hold.wait(in_a_minute(), always_idle) == HoldState::over);
  CHECK(s.hold.before(7) == HoldState::over);
  CHECK(s.hold.operations() == 0);
}

TEST_CASE("a communicator that ends while a call holds in it lets it go on, and nobody holds any more") {
  Scene s;
  Rank ends(0x88, &s.hold);
  s.hold.add(&ends.comm);
  ends.train();
  REQUIRE(s.begin(long_ns, 0x88).empty());
  const uint64_t before = s.hold.operations() + 200;
  REQUIRE(s.hold.before(before) == HoldState::coming);
  REQUIRE(s.hold.wait(in_a_minute(), always_idle) == HoldState::holds);
  s.hold.remove(&ends.comm);
  CHECK(!s.hold.holds());
  ends.wait_until_called(before + 5);
  s.rank.call();
  CHECK(!s.hold.holds());
}

}  // namespace
}  // namespace ccld::probe
