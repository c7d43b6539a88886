#include "decision/model/communicator.h"

#include <catch2/catch.hpp>

#include "test/support/telemetry/fake_cluster.h"

namespace ccld::decision {

namespace {

struct Fixture {
  Settings settings;
  ProcessTable processes{settings};
  Communicator comm{CommUid{1}, settings};

  ProcessModel& process(uint32_t pid, Nanoseconds now_ns = ns_per_s) {
    Batch b;
    b.process = {"host", "boot", pid, 0, pid};
    b.sent_monotonic_ns = static_cast<uint64_t>(now_ns);
    return *processes.heard(b, now_ns);
  }
  void up(int rank, int ranks, Nanoseconds now_ns = ns_per_s) {
    CommUp m;
    m.comm = CommUid{1};
    m.rank = Rank{rank};
    m.rank_count = ranks;
    comm.up(m, process(1 + rank, now_ns), now_ns);
  }
  void snapshot(int rank, uint64_t entered, uint64_t completed, Nanoseconds at_ns, uint32_t moved_age_ms = 0,
                uint64_t movement = 0, bool held = false) {
    InFlight m;
    m.held = held;
    m.comm = CommUid{1};
    m.rank = Rank{rank};
    m.sample_monotonic_ns = static_cast<uint64_t>(at_ns);
    m.entered = m.launched = OpSeq{entered};
    m.completed = OpSeq{completed};
    m.moved_age_ms = moved_age_ms;
    m.movement = movement;
    comm.in_flight(m, process(1 + rank, at_ns), at_ns);
  }
};

}  // namespace

TEST_CASE("Ranks are in flight between entering and completing") {
  Fixture f;
  f.up(0, 2);
  f.up(1, 2);
  CHECK(f.comm.ranks_in_flight() == 0);
  f.snapshot(0, 5, 4, 2 * ns_per_s);
  CHECK(f.comm.ranks_in_flight() == 1);
  f.snapshot(0, 5, 5, 3 * ns_per_s);
  CHECK(f.comm.ranks_in_flight() == 0);
  CHECK(f.comm.entered_max() == OpSeq{5});
}

TEST_CASE("It lacks the ranks for which nobody speaks, of those that it has or may have") {
  Fixture f;
  f.snapshot(1, 5, 4, 2 * ns_per_s);  // as after a start of the service in the middle of a job
  CHECK(f.comm.lacks(Rank{0}));
  CHECK_FALSE(f.comm.lacks(Rank{1}));
  f.up(1, 2, 3 * ns_per_s);
  CHECK(f.comm.lacks(Rank{0}));
  CHECK_FALSE(f.comm.lacks(Rank{2}));
  CHECK_FALSE(f.comm.lacks(Rank{-1}));
}

TEST_CASE("That a rank is announced is no movement: a service that starts within a standstill learns its true age") {
  Fixture f;
  f.snapshot(0, 5, 4, 100 * ns_per_s, 20'000);
  f.up(1, 2, 101 * ns_per_s);
  f.up(0, 2, 101 * ns_per_s);
  f.snapshot(1, 4, 4, 101 * ns_per_s, 22'000);
  CHECK(f.comm.moved_ns() == 80 * ns_per_s);
}

TEST_CASE("A snapshot that arrives late or twice changes nothing") {
  Fixture f;
  f.up(0, 2);
  f.snapshot(0, 5, 5, 3 * ns_per_s);
  f.snapshot(0, 5, 4, 2 * ns_per_s);
  CHECK(f.comm.ranks_in_flight() == 0);
  CHECK(f.comm.rank(Rank{0})->completed == OpSeq{5});
}

TEST_CASE("The last movement is that of the sender's clock, not of the arrival") {
  Fixture f;
  f.up(0, 2);
  f.snapshot(0, 5, 4, 10 * ns_per_s, 3000, 7);
  CHECK(f.comm.moved_ns() == 7 * ns_per_s);
  f.snapshot(0, 5, 4, 11 * ns_per_s, 4000, 7);
  CHECK(f.comm.moved_ns() == 7 * ns_per_s);
}

TEST_CASE("A rank that holds for a test of its hardware does not stand still") {
  Fixture f;
  f.up(0, 2);
  f.up(1, 2);
  f.snapshot(0, 5, 4, 10 * ns_per_s, 0, 7);
  f.snapshot(1, 4, 4, 10 * ns_per_s, 0, 7);
  f.snapshot(0, 5, 4, 14 * ns_per_s, 4000, 7);
  f.snapshot(1, 4, 4, 14 * ns_per_s, 4000, 7, true);
  CHECK(f.comm.moved_ns() == 14 * ns_per_s);
  f.snapshot(1, 4, 4, 16 * ns_per_s, 6000, 7);
  CHECK(f.comm.moved_ns() == 14 * ns_per_s);
}

TEST_CASE("A repeated announcement is no movement, also if the first one was lost") {
  Fixture f;
  f.up(0, 2);
  f.snapshot(0, 5, 4, 3 * ns_per_s);
  f.snapshot(1, 5, 4, 3 * ns_per_s);
  const Nanoseconds moved_ns = f.comm.moved_ns();
  f.up(0, 2, 9 * ns_per_s);
  f.up(1, 2, 9 * ns_per_s);
  CHECK(f.comm.moved_ns() == moved_ns);
}

TEST_CASE("Nonsense is refused: ranks out of range, absurd sizes, a second owner of a rank") {
  Fixture f;
  f.up(0, 2);
  f.up(7, 2);
  CHECK(f.comm.ranks().size() == 2);
  CommUp m;
  m.comm = CommUid{1};
  m.rank = Rank{-4};
  m.rank_count = 2;
  f.comm.up(m, f.process(1), ns_per_s);
  m.rank = Rank{0};
  m.rank_count = 1 << 30;
  f.comm.up(m, f.process(1), ns_per_s);
  CHECK(f.comm.rank_count() == 2);
  m.rank_count = 2;
  f.comm.up(m, f.process(99), ns_per_s);
  CHECK(f.comm.rank(Rank{0})->process->id.pid == 1);
}

TEST_CASE("One rank that finished an operation that needs everybody proves that all have begun it") {
  Fixture f;
  f.up(0, 2);
  f.up(1, 2);
  Rounds m;
  m.comm = CommUid{1};
  m.rank = Rank{0};
  Round r;
  r.op = OpSeq{9};
  r.signature = fake::all_reduce();
  r.begin_device_ns = 5;
  r.end_device_ns = 9;
  m.rounds = {r};
  f.comm.rounds(m, f.process(1), ns_per_s);
  CHECK(f.comm.begun_by_all() == OpSeq{9});
  m.rounds[0].op = OpSeq{10};
  m.rounds[0].signature.function = abi::Function::broadcast;
  f.comm.rounds(m, f.process(1), ns_per_s);
  CHECK(f.comm.begun_by_all() == OpSeq{9});
}

TEST_CASE("What was aborted proves nothing of the others") {
  Fixture f;
  f.up(0, 2);
  Rounds m;
  m.comm = CommUid{1};
  m.rank = Rank{0};
  m.rounds.resize(1);
  m.rounds[0].op = OpSeq{9};
  m.rounds[0].signature = fake::all_reduce();
  m.rounds[0].flags = round_aborted;
  f.comm.rounds(m, f.process(1), ns_per_s);
  CHECK(f.comm.begun_by_all() == OpSeq{});
}

TEST_CASE(
    "What a snapshot shows in flight and has ended since has ended after it, however long its GPU was busy before") {
  Fixture f;
  f.up(0, 2);
  f.snapshot(0, 5, 4, 10 * ns_per_s, 8000, 7);
  CHECK(f.comm.moved_ns() == 2 * ns_per_s);
  Rounds m;
  m.comm = CommUid{1};
  m.rank = Rank{0};
  m.rounds.resize(1);
  m.rounds[0].op = OpSeq{5};
  m.rounds[0].signature = fake::all_reduce();
  m.rounds[0].launch_monotonic_ns = 2 * ns_per_s;
  m.rounds[0].begin_device_ns = 77;
  m.rounds[0].end_device_ns = 77 + ns_per_ms;
  f.comm.rounds(m, f.process(1, 10'100 * ns_per_ms), 10'100 * ns_per_ms);
  CHECK(f.comm.moved_ns() >= 10 * ns_per_s);
  CHECK(f.comm.moved_ns() <= 10'100 * ns_per_ms);
}

TEST_CASE("So has a Send or Recv, and one that the snapshot did not show says nothing new") {
  Fixture f;
  f.up(0, 2);
  InFlight s;
  s.comm = CommUid{1};
  s.rank = Rank{0};
  s.sample_monotonic_ns = 10 * ns_per_s;
  s.moved_age_ms = 8000;
  s.movement = 1;
  P2pCall c;
  c.peer = Rank{1};
  c.pair_seq = 4;
  c.launched = true;
  s.p2p = {c};
  s.p2p_total = 1;
  f.comm.in_flight(s, f.process(1, 10 * ns_per_s), 10 * ns_per_s);
  CHECK(f.comm.moved_ns() == 2 * ns_per_s);
  P2pRounds m;
  m.comm = CommUid{1};
  m.rank = Rank{0};
  m.rounds.resize(1);
  m.rounds[0].peer = Rank{1};
  m.rounds[0].launch_monotonic_ns = ns_per_s;
  m.rounds[0].pair_seq = 3;
  f.comm.p2p_rounds(m, f.process(1, 10'100 * ns_per_ms), 10'100 * ns_per_ms);
  CHECK(f.comm.moved_ns() == 2 * ns_per_s);
  m.rounds[0].pair_seq = 4;
  f.comm.p2p_rounds(m, f.process(1, 10'200 * ns_per_ms), 10'200 * ns_per_ms);
  CHECK(f.comm.moved_ns() >= 10 * ns_per_s);
}

namespace {

// Operations 5 and 6 are called together; 6 ends, and snapshots before and after show 5 in flight.
struct EndsOutOfOrder : Fixture {
  EndsOutOfOrder() {
    up(0, 2);
    up(1, 2);
  }
  void shows(int rank, std::vector<uint64_t> operations, uint64_t completed, Nanoseconds at_ns) {
    InFlight m;
    m.comm = CommUid{1};
    m.rank = Rank{rank};
    m.sample_monotonic_ns = static_cast<uint64_t>(at_ns);
    m.entered = m.launched = OpSeq{6};
    m.completed = OpSeq{completed};
    for (uint64_t op : operations) {
      InFlightOp& o = m.operations.emplace_back();
      o.op = OpSeq{op};
      o.signature = fake::all_reduce();
      o.launched = o.begun = true;
    }
    m.operations_total = static_cast<uint32_t>(operations.size());
    comm.in_flight(m, process(1 + rank, at_ns), at_ns);
  }
  void ends(int rank, uint64_t op, Nanoseconds at_ns, uint8_t flags = 0) {
    Rounds m;
    m.comm = CommUid{1};
    m.rank = Rank{rank};
    m.rounds.resize(1);
    m.rounds[0].op = OpSeq{op};
    m.rounds[0].signature = fake::all_reduce();
    m.rounds[0].flags = flags;
    comm.rounds(m, process(1 + rank, at_ns), at_ns);
  }
  const RankModel& first() const { return *comm.rank(Rank{0}); }
};

}  // namespace

TEST_CASE("An operation that a snapshot shows is not over because a later one has ended") {
  EndsOutOfOrder f;
  SECTION("which ended after the snapshot") {
    f.shows(0, {5, 6}, 4, 2 * ns_per_s);
    f.ends(0, 6, 3 * ns_per_s);
  }
  SECTION("which needed no kernel, so that it was reported before the snapshot") {
    f.ends(0, 6, 2 * ns_per_s, round_no_kernel);
    f.shows(0, {5}, 4, 3 * ns_per_s);
  }
  CHECK(f.first().completed == OpSeq{4});
  REQUIRE(f.first().in_flight());
  CHECK(f.first().oldest_in_flight() == OpSeq{5});
  CHECK(f.comm.ranks_in_flight() == 1);
  f.ends(0, 5, 4 * ns_per_s);
  CHECK(f.first().completed == OpSeq{6});
  CHECK(f.comm.ranks_in_flight() == 0);
}

TEST_CASE("A later operation that has ended does not prove that all have begun the ones before") {
  EndsOutOfOrder f;
  f.shows(0, {5, 6}, 4, 2 * ns_per_s);
  f.ends(0, 6, 3 * ns_per_s);
  CHECK(f.comm.begun_by_all() < OpSeq{5});
  f.ends(0, 5, 4 * ns_per_s);
  CHECK(f.comm.begun_by_all() >= OpSeq{5});
}

TEST_CASE("What a snapshot shows that rounds have overtaken may have ended since") {
  EndsOutOfOrder f;
  f.ends(0, 5, 3 * ns_per_s);
  f.ends(0, 6, 3 * ns_per_s);
  f.shows(0, {5, 6}, 4, 2 * ns_per_s);
  CHECK(f.first().completed == OpSeq{6});
  CHECK(f.comm.ranks_in_flight() == 0);
}

TEST_CASE("A rank that left in good order is not in flight, and does not come back") {
  Fixture f;
  f.up(0, 2);
  f.snapshot(0, 5, 4, 2 * ns_per_s);
  CommDown d;
  d.comm = CommUid{1};
  d.rank = Rank{0};
  d.state = abi::CommState::destroyed;
  d.last_entered = OpSeq{5};
  f.comm.down(d, f.process(1), 3 * ns_per_s);
  CHECK(f.comm.ranks_in_flight() == 0);
  f.up(0, 2);  // repeated announcement, overtaken
  CHECK(f.comm.rank(Rank{0})->left());
  CHECK(f.comm.completed_min() == OpSeq{5});
}

TEST_CASE("A barrier is a small AllReduce") {
  Fixture f;
  Signature s = fake::all_reduce(1);
  CHECK(f.comm.is_barrier(s));
  s.datatype = abi::Datatype::int8;
  CHECK(f.comm.is_barrier(s));
  s.count = 1 << 20;
  CHECK_FALSE(f.comm.is_barrier(s));
  s = fake::all_reduce(1);
  s.function = abi::Function::broadcast;
  CHECK_FALSE(f.comm.is_barrier(s));
}

}  // namespace ccld::decision
