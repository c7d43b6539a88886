#include "decision/whatif/slow_steps.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace ccld::decision::whatif {
namespace {

constexpr double ms = 1e6;
constexpr double healthy_ms = 20;  // of an operation; one in which something is slow takes 100 unless said otherwise
using Longer = std::map<std::pair<Ends, Interval>, double>;  // milliseconds; all others take 0.1

// A communicator of eight ranks on two hosts with one clock.
class Job {
 public:
  explicit Job(std::vector<Ends> connections) : connections_(std::move(connections)) {}

  // The operations of a window, whose steps are all there for the whole operation.
  std::optional<SlowCollectives> window(const Longer& longer_ms, Late late = {Late::nobody}, double transfer_ms = 100) {
    return window_of({{longer_ms, transfer_ms}}, late, 10);
  }
  // `count` operations of each kind.
  struct Kind {
    Longer longer_ms;
    double transfer_ms = 100;
  };
  std::optional<SlowCollectives> window_of(const std::vector<Kind>& kinds, const Late& late, size_t count) {
    std::vector<CollectiveRound> rounds(count * kinds.size());
    for (size_t i = 0; i < rounds.size(); ++i) {
      CollectiveRound& r = rounds[i];
      r.group = next_group_++;
      r.kind = i % kinds.size();
      r.transfer_ns = kinds[r.kind].transfer_ms * ms;
      r.begins_ns.assign(8, 0);
      r.begins_ns.back() = last_begins_ms * ms;
      for (Rank rank : unknown) r.begins_ns[static_cast<size_t>(rank.value)] = NAN;
      r.posted_ns.assign(8, 0);
      r.out_of_sight = out_of_sight;
      for (const Ends& ends : connections_)
        if (ends != rare || i % 10 == 0)
          r.links.emplace_back(Edge{ends.first, ends.second, 0}, intervals(ends, kinds[r.kind].longer_ms));
    }
    return slow_collectives(comm_, rounds, late, turn_wait_ms * ms, past_, settings_);
  }
  void end_windows(uint64_t count) {
    while (count-- > 0) past_.end_window();
  }
  double turn_wait_ms = 0;
  double last_begins_ms = 0;  // rank 7
  std::vector<Rank> unknown;  // of which nothing is reported
  std::optional<Ends> rare;   // of ten operations only one reports this connection
  std::set<int32_t> out_of_sight;
  std::map<int32_t, double> away;  // by rank: part of an operation in which its proxy does not poll
  double round_ms = 100;           // of an operation with what its ranks wait for the last one

 private:
  EdgeIntervals intervals(const Ends& ends, const Longer& longer_ms) const {
    EdgeIntervals i;
    i.net_device = ends.first / 4 != ends.second / 4 ? 0 : -1;
    for (size_t which = 0; which < interval_count; ++which) {
      const auto it = longer_ms.find({ends, static_cast<Interval>(which)});
      const bool in_node = static_cast<Interval>(which) == Interval::posted_to_consumed;
      i.known[which] = in_node == (i.net_device < 0);
      i.ns[which] = (it == longer_ms.end() ? 0.1 : it->second) * ms;
    }
    i.wire_at_least_ns = i.ns[static_cast<size_t>(Interval::sent_to_arrived)];
    i.steps = 100, i.first_step = 50;
    const auto away_part = [&](int32_t rank) { return away.contains(rank) ? away.at(rank) : 0; };
    i.round_ns = round_ms * ms;
    i.sender_away_part = away_part(ends.first), i.receiver_away_part = away_part(ends.second);
    return i;
  }

  Settings settings_;
  Communicator comm_{CommUid{1}, settings_};
  StepPast past_{settings_};
  std::vector<Ends> connections_;
  int next_group_ = 0;
};

const std::vector<Ends> ring{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 0}};
// Rank 0 has the children 1 and 4, rank 1 has 2 and 3, rank 4 has 5 and 6; steps go up and down.
const std::vector<Ends> tree{{1, 0}, {0, 1}, {2, 1}, {1, 2}, {3, 1}, {1, 3}, {4, 0}, {0, 4}, {5, 4}, {4, 5}};

Longer on_the_wire(const Ends& ends, double by_ms) {
  return {{{ends, Interval::sent_to_arrived}, by_ms}, {{ends, Interval::awaited_to_arrived}, by_ms}};
}
Longer in_front_of(const Ends& ends, double by_ms) { return {{{ends, Interval::posted_to_consumed}, by_ms}}; }
Longer both(Longer a, const Longer& b) { return a.insert(b.begin(), b.end()), a; }

void check_only(const std::optional<SlowCollectives>& slow, Ends ends, Component component) {
  REQUIRE(slow.has_value());
  REQUIRE(slow->links.size() == 1);
  CHECK(slow->links[0].sender == Rank{ends.first});
  CHECK(slow->links[0].receiver == Rank{ends.second});
  CHECK(slow->links[0].component == component);
}

}  // namespace

TEST_CASE("A wire on which steps wait is told from the other one, from the first window on") {
  Job job(ring);
  const auto slow = job.window(on_the_wire({3, 4}, 10));
  check_only(slow, {3, 4}, Component::link);
  CHECK(!slow->by_past);
  CHECK(slow->operations.size() == 10);
  CHECK(slow->operations[0].lost_part > 0.9);
}

TEST_CASE("Operations that lose no more than a lack of processors explains are not slow") {
  for (const double turn_wait_ms : {0, 8}) {  // of which an operation of 100 ms may lose 15, a step on its way 1.5
    Job job(ring);
    for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
    job.turn_wait_ms = turn_wait_ms;
    CHECK(job.window(on_the_wire({3, 4}, 10)).has_value() == (turn_wait_ms == 0));
    CHECK(job.window(in_front_of({1, 2}, 10)).has_value() == (turn_wait_ms == 0));
    CHECK(job.window(on_the_wire({3, 4}, 40), {Late::nobody}, 400));
  }
}

TEST_CASE("A wire is slow if each step is on it for longer than a lack of processors explains") {
  Job job(ring);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
  job.turn_wait_ms = 8;
  check_only(job.window(on_the_wire({3, 4}, 15)), {3, 4}, Component::link);
  CHECK(!job.window(in_front_of({1, 2}, 15)));
  // In both directions: a lack of processors may be the reason.
  CHECK(!job.window(both(on_the_wire({3, 4}, 15), on_the_wire({7, 0}, 15))));
}

TEST_CASE("What a step takes longer is lost once for each eight of them: so many are under way at a time") {
  Job job(ring);
  const auto slow =
      job.window(on_the_wire({3, 4}, 2), {Late::nobody}, 1000);  // 100 steps of 2.3 ms in 1000 ms, not 0.4
  REQUIRE(slow.has_value());
  CHECK(slow->operations[0].lost_part == Approx(100.0 / 8 * 1.9 / 1000));
}

TEST_CASE("As far as steps that wait explain it, all that operations take longer than before is lost") {
  Job job(ring);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, 100));
  const Longer wire = on_the_wire({3, 4}, 40);  // 100 of them in 1000 ms: four at a time
  CHECK(job.window(wire, {Late::nobody}, 1000)->operations[0].lost_part == Approx(0.9));
  // A late host makes no transfer longer; a late GPU may.
  CHECK(job.window(on_the_wire({3, 4}, 10), {Late::hosts}, 1000)->operations[0].lost_part == Approx(0.9));
  CHECK(job.window(on_the_wire({3, 4}, 10), {Late::gpus}, 1000)->operations[0].lost_part < 0.2);
  // But not by more than its own work takes longer.
  CHECK(job.window(on_the_wire({3, 4}, 10), {Late::gpus, 2}, 1000)->operations[0].lost_part == Approx(0.8));
  CHECK(job.window(on_the_wire({3, 4}, 10), {Late::gpus, 12}, 1000)->operations[0].lost_part < 0.2);
  // Something else makes them longer, too.
  CHECK(job.window(wire, {Late::nobody}, 10000)->operations[0].lost_part == Approx(100.0 / 8 * 39.9 / 10000));
}

TEST_CASE("What seems to have become slow while operations are as long as before is not slow: clocks are not exact") {
  Job job(ring);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}));
  CHECK(!job.window(on_the_wire({3, 4}, 5)));
  check_only(job.window(on_the_wire({3, 4}, 5), {Late::nobody}, 150), {3, 4}, Component::link);
}

TEST_CASE("Beside a late GPU, what is shorter than stages are sampled must have made operations longer by most of it") {
  Job job(ring);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}));
  const Longer wire = on_the_wire({3, 4}, 5);  // lost, of 130 ms: 47 %; they are longer by 23 %
  const Late sampled_seldom{Late::gpus, 1.3, 10 * ms}, sampled_often{Late::gpus, 1.3, 2 * ms};
  CHECK(!job.window(wire, sampled_seldom, 130));
  check_only(job.window(wire, sampled_often, 130), {3, 4}, Component::link);
  check_only(job.window(wire, {Late::gpus}, 130), {3, 4}, Component::link);  // it is not known how often
  check_only(job.window(wire, {Late::hosts, INFINITY, 10 * ms}, 130), {3, 4}, Component::link);
  check_only(job.window(wire, sampled_seldom, 170), {3, 4}, Component::link);
}

TEST_CASE("Where there are few operations in a window, those before it count, too") {
  Job job(ring);
  CHECK(!job.window_of({{on_the_wire({3, 4}, 10)}}, {Late::nobody}, 1));
  CHECK(!job.window_of({{on_the_wire({3, 4}, 10)}}, {Late::nobody}, 1));
  const auto slow = job.window_of({{on_the_wire({3, 4}, 10)}}, {Late::nobody}, 1);
  check_only(slow, {3, 4}, Component::link);
  CHECK(slow->operations.size() == 1);  // of this window
}

TEST_CASE("Where a window reports few operations of one connection, those before it count for that one") {
  Job job(ring);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
  job.rare = Ends{1, 2};
  const Longer queues = both(in_front_of({0, 1}, 5), in_front_of({1, 2}, 9));
  job.window(queues);
  job.window(queues);
  check_only(job.window(queues), {1, 2}, Component::gpu);
}

TEST_CASE("What is slow in one kind of operations only is found, and what is slow in several is one loss") {
  Job job(ring);
  const auto one = job.window_of({{{}, 500}, {on_the_wire({3, 4}, 10), 100}}, {Late::nobody}, 5);
  check_only(one, {3, 4}, Component::link);
  CHECK(one->operations.size() == 5);
  const auto both_kinds =
      job.window_of({{on_the_wire({3, 4}, 10), 500}, {on_the_wire({3, 4}, 10), 100}}, {Late::nobody}, 5);
  check_only(both_kinds, {3, 4}, Component::link);
  CHECK(both_kinds->operations.size() == 10);
}

TEST_CASE("Where both directions of the only wire have become slow, the past tells both") {
  Job job(ring);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
  const auto slow = job.window(both(on_the_wire({3, 4}, 10), on_the_wire({7, 0}, 9)));
  REQUIRE(slow.has_value());
  CHECK(slow->links.size() == 2);
  CHECK(slow->by_past);
}

TEST_CASE("Slowness does not become usual, however long it lasts") {
  Job job(ring);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
  for (int i = 0; i < 50; ++i) CHECK(job.window(both(on_the_wire({3, 4}, 10), on_the_wire({7, 0}, 9))).has_value());
}

TEST_CASE("Operations that take longer than usual teach nothing until the past is forgotten") {
  Job job(ring);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
  for (int i = 0; i < 30; ++i) CHECK(!job.window({}));
  const Longer wire = on_the_wire({3, 4}, 5);
  check_only(job.window(wire), {3, 4}, Component::link);
  job.end_windows(past_windows_max);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}));
  CHECK(!job.window(wire));  // they take as long as before
}

TEST_CASE("A connection that is as it was, no slower than its peers, is not slow because these are quicker") {
  for (const double before_ms : {1.0, 0.1}) {  // on the other wire
    Job job(ring);
    for (int i = 0; i < 3; ++i)
      job.window(both(on_the_wire({3, 4}, 1), on_the_wire({7, 0}, before_ms)), {Late::nobody}, healthy_ms);
    const auto slow = job.window(on_the_wire({3, 4}, 1.1), {Late::hosts}, 26);
    CHECK(slow.has_value() == (before_ms < 1));  // then it is slow from the start
  }
}

TEST_CASE("Steps that wait for a GPU do not become usual while nobody knows for which") {
  Job job(ring);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
  job.unknown = {Rank{5}};
  for (int i = 0; i < 10; ++i) CHECK(!job.window(in_front_of({1, 2}, 9)));
  job.unknown = {};
  check_only(job.window(in_front_of({1, 2}, 9)), {1, 2}, Component::gpu);
}

TEST_CASE("Where many connections have become slow alike nobody is named, and nothing is learnt") {
  std::vector<Ends> all{{0, 4}, {4, 0}, {1, 5}, {5, 1}};
  Job job(all);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
  Longer longer;
  for (const Ends& ends : all) longer.merge(on_the_wire(ends, 10));
  for (int i = 0; i < 10; ++i) CHECK(!job.window(longer));
  longer = on_the_wire({0, 4}, 10);
  check_only(job.window(longer), {0, 4}, Component::link);
}

TEST_CASE("A slow part is found where the slots were always taken: others take less then") {
  Job job(ring);
  Longer usual;
  for (const Ends& ends : {Ends{3, 4}, Ends{7, 0}})
    usual.merge(Longer{{{ends, Interval::posted_to_handed}, 8},
                       {{ends, Interval::awaited_to_handed}, 8},
                       {{ends, Interval::awaited_to_arrived}, 9}});
  for (int i = 0; i < 3; ++i) CHECK(!job.window(usual, {Late::nobody}, healthy_ms));
  const auto slow = job.window({{{{7, 0}, Interval::arrived_to_given}, 8}});
  REQUIRE(slow.has_value());
  REQUIRE(slow->links.size() == 1);
  CHECK(slow->links[0].component == Component::proxy);
  CHECK(slow->links[0].at == Rank{0});
}

TEST_CASE("A wire to a GPU that does not take its steps only fills up behind it") {
  Job job(ring);
  Longer longer = on_the_wire({3, 4}, 10);
  longer[{{3, 4}, Interval::given_to_consumed}] = 20;
  const auto slow = job.window(longer);
  CHECK((!slow || slow->links[0].component == Component::gpu));
}

TEST_CASE("What waits for a late rank is no cause beside what waits longer elsewhere") {
  Job job(ring);
  const auto slow = job.window(both(on_the_wire({3, 4}, 10), on_the_wire({7, 0}, 0.1)), {Late::hosts});
  check_only(slow, {3, 4}, Component::link);
}

TEST_CASE(
    "Beside a late rank a wire loses no more than operations may have become longer, as far as their past tells") {
  for (const double varies_ms : {2, 40}) {  // from window to window
    Job job(ring);
    for (int i = 0; i < 6; ++i) CHECK(!job.window({}, {Late::nobody}, 100 + varies_ms * (i % 3 - 1)));
    // Ranks that wait for a late one leave it the processors: an operation is shorter than it was without both.
    const auto slow = job.window(on_the_wire({3, 4}, 10), {Late::hosts}, 95);
    CHECK(slow.has_value() == (varies_ms == 40));
    if (slow) check_only(slow, {3, 4}, Component::link);
  }
}

TEST_CASE("A queue along several healthy connections that is no longer than a rank is late is no slow wire") {
  const std::vector<Ends> across{{0, 4}, {4, 1}, {1, 5}, {5, 2}, {2, 6}, {6, 3}, {3, 7}, {7, 0}};
  Longer queue;
  for (const Ends& ends : {Ends{4, 1}, {1, 5}, {5, 2}}) queue.merge(on_the_wire(ends, 10));
  for (const double late_ms : {20, 40}) {
    Job job(across);
    job.last_begins_ms = late_ms;
    CHECK(job.window(queue).has_value() == (late_ms < 30));
    // A device has two connections in a ring.
    CHECK(job.window(both(on_the_wire({4, 1}, 10), on_the_wire({1, 5}, 10))));
  }
}

TEST_CASE("Around a ring of GPUs the slow one is where the queues end") {
  Job job(ring);
  Longer queues = in_front_of({1, 2}, 9);
  for (const Ends& ends : {Ends{0, 1}, Ends{5, 6}, Ends{6, 7}}) queues.merge(in_front_of(ends, 5));
  queues[{{7, 0}, Interval::given_to_consumed}] = 5;
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
  check_only(job.window(queues), {1, 2}, Component::gpu);
}

TEST_CASE("A GPU is not named while some rank, which may be the late one, is not known") {
  Job job(ring);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
  job.unknown = {Rank{5}};
  CHECK(!job.window(in_front_of({1, 2}, 9)));
  job.unknown = {};
  check_only(job.window(in_front_of({1, 2}, 9)), {1, 2}, Component::gpu);
}

TEST_CASE("A GPU is not named if nobody reports what it sends") {
  std::vector<Ends> some = ring;
  some.erase(std::find(some.begin(), some.end(), Ends{2, 3}));
  Job job(some);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
  CHECK(!job.window(in_front_of({1, 2}, 9)));
}

TEST_CASE("A GPU is not named if it also sends to a collective network, which may keep its steps") {
  const std::vector<Ends> chain{{3, 2}, {2, 1}, {1, 0}, {0, 1}, {1, 2}, {2, 3}};  // rank 0 stands for the node
  for (const bool is_head : {false, true}) {
    Job job(chain);
    if (is_head) job.out_of_sight = {0};
    for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
    const auto slow = job.window(in_front_of({1, 0}, 10));
    if (is_head)
      CHECK(!slow);
    else
      check_only(slow, {1, 0}, Component::gpu);
    check_only(job.window(in_front_of({2, 3}, 10)), {2, 3}, Component::gpu);  // the end of the chain
  }
}

TEST_CASE("In a tree the GPU that is slow has all its inputs; one that waits for a child has not") {
  Job job(tree);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
  // Rank 1 does not take what its children and its parent send; rank 0 waits for it, and rank 4's steps for rank 0.
  Longer queues;
  for (const Ends& ends : {Ends{2, 1}, Ends{3, 1}, Ends{0, 1}}) queues.merge(in_front_of(ends, 8));
  queues[{{4, 0}, Interval::given_to_consumed}] = 8;
  const auto slow = job.window(queues);
  REQUIRE(slow.has_value());
  REQUIRE(slow->links.size() == 1);
  CHECK(slow->links[0].at == Rank{1});
  CHECK(slow->links[0].component == Component::gpu);
}

TEST_CASE("Where queues end in two places, or a rank comes late, no GPU is named") {
  Job job(ring);
  for (int i = 0; i < 3; ++i) CHECK(!job.window({}, {Late::nobody}, healthy_ms));
  CHECK(!job.window(both(in_front_of({1, 2}, 8), in_front_of({5, 6}, 8))));
  CHECK(!job.window(in_front_of({1, 2}, 8), {Late::gpus}));
}

TEST_CASE("A proxy that delays what it sends and what it receives is one cause") {
  Job job(ring);
  Longer longer{{{{3, 4}, Interval::arrived_to_given}, 8},
                {{{7, 0}, Interval::posted_to_handed}, 0.1},
                {{{4, 5}, Interval::posted_to_consumed}, 0.1}};
  check_only(job.window(longer), {3, 4}, Component::proxy);
}

TEST_CASE("That the proxy at a slow wire polls less than others does not make it the proxy") {
  Job job(ring);
  job.away = {{3, 0.3}};
  check_only(job.window(on_the_wire({3, 4}, 10)), {3, 4}, Component::link);
}

TEST_CASE("What a proxy misses while its rank waits for a late one is no part of the transfer") {
  Job job(ring);
  job.away = {{3, 0.3}};
  job.round_ms = 250;
  check_only(job.window(on_the_wire({3, 4}, 10)), {3, 4}, Component::link);
}

TEST_CASE("A lone connection without a past says nothing") {
  Job job({{3, 4}});
  CHECK(!job.window(on_the_wire({3, 4}, 10)));
}

}  // namespace ccld::decision::whatif
