#include "decision/locate/links.h"

#include <string>

#include <catch2/catch.hpp>

namespace ccld::decision {

namespace {

constexpr uint32_t want = 0x1'0000'0005 & 0xffff'ffff;  // just behind the wrap of 32 bits
constexpr uint64_t base = 0xffff'fff0;                  // of the operation, 21 steps before
constexpr Nanoseconds fresh_ns = 500 * ns_per_ms;
constexpr uint32_t stale_ms = 2000;

// Rank 0 sends to rank 1 on channel 2; what their proxies say, the test writes down in steps up to the wanted one: 0
// means that it was reached, -1 that it was not, 1 one step more.
struct Edge {
  explicit Edge(bool one_node = false, bool sees_receiver = true, int ranks = 2) {
    for (int r = 0; r < 2; ++r) {
      CommUp up;
      up.comm = CommUid{1};
      up.rank = Rank{r};
      up.rank_count = ranks;
      up.node = one_node ? 0 : r;
      up.connections = {{2, r == 0 ? abi::Direction::send : abi::Direction::recv, 1 - r, 0, "mlx5_3"}};
      comm.up(up, heard(r), now_ns);
    }
    view.ranks = RankViews(static_cast<size_t>(ranks));
    for (size_t r = 0; r < static_cast<size_t>(ranks); ++r) view.ranks.at(r) = {};
    if (!sees_receiver) view.ranks.at(1).life = Life::silent;
    step = {Rank{0}, Rank{1}, 2, want, want, false};
  }
  ProcessModel& heard(uint32_t rank) {
    Batch b;
    b.process = {"host", "boot", 100 + rank, 0, 1};
    b.sent_monotonic_ns = static_cast<uint64_t>(now_ns);
    return *processes.heard(b, now_ns);
  }
  static ProxyState proxy(abi::Direction direction, int peer, int posted, int received, int transmitted, int done) {
    ProxyState p;
    p.direction = direction;
    p.peer = peer;
    p.channel = 2;
    p.base = base;
    p.step_count = 64;
    const auto counter = [](int off) { return base + 21 + static_cast<uint64_t>(static_cast<int64_t>(off)); };
    p.posted = counter(posted);
    p.received = counter(received);
    p.transmitted = counter(transmitted);
    p.done = counter(done);
    return p;
  }
  void sender(int transmitted, int done, uint32_t tick_ms = 1, int posted = 8) {
    ProxyState p = proxy(abi::Direction::send, 1, posted, 0, transmitted, done);
    p.tick_age_ms = tick_ms;
    snapshot(0, {p});
  }
  void receiver(int posted, int received, int transmitted, uint32_t tick_ms = 1) {
    ProxyState p = proxy(abi::Direction::recv, 0, posted, received, transmitted, -8);
    p.tick_age_ms = tick_ms;
    snapshot(1, {p});
  }
  void snapshot(int rank, std::vector<ProxyState> proxies) {
    InFlight m;
    m.comm = CommUid{1};
    m.rank = Rank{rank};
    m.sample_monotonic_ns = static_cast<uint64_t>(++now_ns);
    m.moved_age_ms = 10'000;
    m.late = true;
    m.proxies = std::move(proxies);
    if (in_flight) m.lanes.resize(1);
    comm.in_flight(m, heard(static_cast<uint32_t>(rank)), now_ns);
  }
  EdgeVerdict judge() const { return judge_edge(comm, view, step, fresh_ns); }
  // "rank component".
  std::string blamed() const {
    const EdgeVerdict v = judge();
    return std::to_string(v.culprit.rank.value) + " " + name(v.culprit.component);
  }

  bool in_flight = false;  // the ranks report endpoints
  Settings settings;
  ProcessTable processes{settings};
  Communicator comm{CommUid{1}, settings};
  HangView view;
  StuckEdge step;
  Nanoseconds now_ns = 100 * ns_per_s;
};

}  // namespace

TEST_CASE("A step that was sent and has not arrived is on the wire, with the device that took it") {
  Edge e;
  e.sender(0, 0);
  e.receiver(8, -1, -1);
  CHECK(e.blamed() == "0 link");
  const EdgeVerdict v = e.judge();
  CHECK(v.single);
  CHECK(v.culprit.peer == Rank{1});
  CHECK(v.culprit.channel == 2);
  CHECK(v.culprit.net_name == "mlx5_3");
  CHECK(v.confidence > 0.9);
}

TEST_CASE("The first stage that has the step and does not pass it on is named") {
  Edge e;
  e.sender(0, 0);
  e.receiver(8, 0, -1);
  CHECK(e.blamed() == "1 proxy");  // received, not given to the GPU
  e.receiver(8, 0, 0);
  CHECK(e.blamed() == "1 gpu");  // given, not seen
  e.receiver(8, -1, -1);
  e.sender(-1, -1);
  CHECK(e.blamed() == "0 nic");  // its proxy looks, and the device takes nothing
  e.sender(-1, -1, stale_ms);
  CHECK(e.blamed() == "0 proxy");  // its proxy does not look any more
}

TEST_CASE("Who sends through another rank's proxy is not accused of one that nobody sees") {
  Edge e;
  e.in_flight = true;
  e.snapshot(0, {});
  e.receiver(8, -1, -1);
  CHECK(e.blamed() == "0 proxy");  // its own, which has not begun
  CommUp up;
  up.comm = CommUid{1};
  up.rank_count = 2;
  up.hidden = abi::hidden_pxn;
  e.comm.up(up, e.heard(0), e.now_ns);
  CHECK(e.blamed() == "0 link");
  CHECK(e.judge().confidence <= 0.5);
  CHECK_FALSE(e.judge().single);
  CHECK(e.judge().culprit.reason.find("not measured") != std::string::npos);
  e.step.slot = true;
  CHECK(e.blamed() == "0 link");
  CHECK(e.judge().confidence < 0.5);
  CHECK(e.judge().culprit.reason.find("not measured") != std::string::npos);
  // What the receiver's own proxy shows counts as ever.
  e.step.slot = false;
  e.receiver(8, 0, -1);
  CHECK(e.blamed() == "1 proxy");
}

TEST_CASE("Of the proxies beside a rank that sends by another one's, the one that has stopped within its work is named") {
  Edge e(false, true, 4);
  e.in_flight = true;
  // Ranks 0, 2 and 3 are on one node.
  for (int r : {0, 2, 3}) {
    CommUp up;
    up.comm = CommUid{1};
    up.rank = Rank{r};
    up.rank_count = 4;
    up.hidden = r == 0 ? uint32_t{abi::hidden_pxn} : 0u;
    e.comm.up(up, e.heard(static_cast<uint32_t>(r)), e.now_ns);
  }
  e.snapshot(0, {});
  e.receiver(8, -1, -1);
  const auto beside = [&](int rank, uint32_t tick_ms, int done) {
    ProxyState p = Edge::proxy(abi::Direction::recv, 1, 8, 0, 0, done);
    p.tick_age_ms = tick_ms;
    e.snapshot(rank, {p});
  };
  beside(2, 1, -1);
  beside(3, 1, -1);
  CHECK(e.blamed() == "0 link");
  beside(3, stale_ms, -1);
  CHECK(e.blamed() == "3 proxy");
  CHECK(e.judge().single);
  CHECK(e.judge().culprit.reason.find("PXN") != std::string::npos);
  beside(3, stale_ms, 64 - 21);  // it has done all, and may rest
  CHECK(e.blamed() == "0 link");
  beside(3, stale_ms, -1);
  beside(2, stale_ms, -1);  // which of the two is not known
  CHECK(e.blamed() == "0 link");
}

TEST_CASE("A receive that was not posted is the receiver's proxy") {
  Edge e;
  e.sender(-1, -1);
  e.receiver(-1, -1, -1);
  CHECK(e.blamed() == "1 proxy");
}

TEST_CASE(
    "Of two proxies the one that has stopped is named, and a receiver that cannot speak is not accused by its age") {
  Edge e;
  e.sender(0, 0);
  e.receiver(8, -1, -1, stale_ms);
  CHECK(e.blamed() == "1 proxy");
  e.sender(0, -1, stale_ms);
  e.receiver(8, -1, -1);
  CHECK(e.blamed() == "0 proxy");
  Edge lost(false, false);
  lost.sender(0, 0);
  lost.receiver(8, -1, -1, stale_ms);
  CHECK(lost.blamed() == "0 link");
}

TEST_CASE("A proxy that has nothing left to send may rest") {
  Edge e;
  e.sender(0, 0, stale_ms);
  e.receiver(8, -1, -1);
  CHECK(e.blamed() == "0 link");
}

TEST_CASE("A proxy that has moved no step of what its GPU has in flight has not begun, and is no hard evidence") {
  Edge e;
  e.in_flight = true;
  e.snapshot(0, {});
  e.receiver(8, -1, -1);
  CHECK(e.blamed() == "0 proxy");
  CHECK_FALSE(e.judge().given);
  e.sender(0, 0);
  e.snapshot(1, {});
  CHECK(e.blamed() == "1 proxy");
  CHECK_FALSE(e.judge().given);
  // What it did for another connection, of more steps than the GPU has posted to this one.
  e.sender(1, 1);
  e.receiver(8, -1, -1);
  CHECK(e.blamed() == "0 proxy");
}

TEST_CASE("A sender whose kernel has ended and whose proxy has nothing in hand has sent all its steps") {
  Edge e;
  e.in_flight = true;
  e.snapshot(0, {});
  e.receiver(8, -1, -1);
  e.view.ranks.at(0).progress = Progress::done;
  CHECK(e.blamed() == "0 link");
}

TEST_CASE("Between GPUs of one node nothing tells which of the two is at fault") {
  Edge e(true);
  e.snapshot(0, {});
  e.snapshot(1, {});
  const EdgeVerdict v = e.judge();
  CHECK_FALSE(v.single);
  CHECK(v.culprit.rank == Rank{0});
  CHECK(v.culprit.peer == Rank{1});
}

TEST_CASE("A slot that is not given back is the proxy's, unless the network has not said sent for what was in it") {
  Edge e;
  e.step.slot = true;
  e.step.posted = want - 1;
  e.sender(-1, -8, 1, -1);
  CHECK(e.blamed() == "0 proxy");  // sent, and the slot not given
  e.sender(-1, -9, 1, -1);
  CHECK(e.blamed() == "0 nic");
  e.sender(-1, -9, stale_ms, -1);
  CHECK(e.blamed() == "0 proxy");
  e.sender(-1, -8, 1, 0);
  CHECK(e.blamed() == "0 gpu");  // given, and not seen
  CHECK(e.judge().given);
  e.snapshot(0, {});
  CHECK_FALSE(e.judge().given);  // nothing of the connection was seen: it may still be set up
}

TEST_CASE("Of several operations in a proxy's hands the one that the step belongs to counts") {
  Edge e;
  ProxyState before = Edge::proxy(abi::Direction::send, 1, 8, 0, -30, -30);
  before.base = base - 64;
  before.tick_age_ms = stale_ms;
  ProxyState mine = Edge::proxy(abi::Direction::send, 1, 8, 0, -1, -1);
  ProxyState behind = Edge::proxy(abi::Direction::send, 1, 8, 0, 40, 40);
  behind.base = base + 64;
  e.receiver(8, -1, -1);
  e.snapshot(0, {before, behind, mine});
  CHECK(e.blamed() == "0 nic");
}

TEST_CASE("A step is delivered when the receiver's GPU could see it") {
  Edge e;
  CHECK_FALSE(delivered(e.comm, e.step));
  e.receiver(8, 0, -1);
  CHECK_FALSE(delivered(e.comm, e.step));
  e.receiver(8, 0, 0);
  CHECK(delivered(e.comm, e.step));
  e.step.posted = want - 1;
  CHECK_FALSE(delivered(e.comm, e.step));
  Edge inside(true);
  CHECK(delivered(inside.comm, inside.step));
}

}  // namespace ccld::decision
