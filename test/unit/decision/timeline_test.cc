// One timeline of a job: what it keeps, from window to window, and how the clocks of its GPUs are compared.
#include <catch2/catch.hpp>

#include <algorithm>
#include <optional>
#include <vector>

#include "decision/timeline/matching.h"
#include "schemas/wire/link_steps.h"
#include "test/unit/decision/whatif_job.h"

namespace ccld::decision::whatif {

TEST_CASE("A timeline keeps stages of Send and Recv that go over the network, and only so many") {
  Settings settings;
  size_t gpus_in_all = 0;
  Timeline t(settings, gpus_in_all);
  int process = 0;
  P2pRounds m;
  m.comm = CommUid{1};
  m.rank = Rank{0};
  LinkStages l = Job::stages(0, 3, 1, {1, 1, 2, 3});
  l.direction = abi::Direction::send;
  m.links = {l, l, l};
  m.links[1].net_device = -1;
  m.links[2].op = OpSeq{4};
  t.add({&process, 0}, m);
  REQUIRE(t.links(CommUid{1}, Rank{0}, Rank{1}, 3));
  CHECK(t.links(CommUid{1}, Rank{0}, Rank{1}, 3)->size() == 1);
  CHECK(t.links(CommUid{1}, Rank{0}, Rank{1}, 4));
  CHECK_FALSE(t.links(CommUid{1}, Rank{1}, Rank{0}, 3));
  m.links.assign((1 << 19) + 1, l);
  m.links.back().op = OpSeq{5};
  t.add({&process, 0}, m);
  CHECK(t.links(CommUid{1}, Rank{0}, Rank{1}, 3)->size() < m.links.size());
  CHECK_FALSE(t.links(CommUid{1}, Rank{0}, Rank{1}, 5));
  t.clear(0);
  CHECK_FALSE(t.links(CommUid{1}, Rank{0}, Rank{1}, 3));
}

TEST_CASE("A timeline keeps stages of so many collectives, and of those that probes prefer") {
  Settings settings;
  size_t gpus_in_all = 0;
  Timeline t(settings, gpus_in_all);
  int process = 0;
  constexpr uint64_t operations = 120;
  Rounds m;
  m.comm = CommUid{1};
  m.rank = Rank{0};
  m.rounds.resize(1);
  for (uint64_t op = 1; op <= operations; ++op) {
    m.rounds[0].op = OpSeq{op}, m.rounds[0].begin_device_ns = 10 * op, m.rounds[0].end_device_ns = 10 * op + 5;
    m.links.assign(1 << 13, Job::stages(0, op, 1, {1, 1, 2, 3}));
    t.add({&process, 0}, m);
  }
  size_t rows = 0;
  int least_kept = 99, most_left_out = -1;
  for (uint64_t op = 1; op <= operations; ++op) {
    const auto* const links = t.links(CommUid{1}, OpSeq{op});
    if (links)
      rows += links->size(), least_kept = std::min(least_kept, wire::link_priority(op));
    else
      most_left_out = std::max(most_left_out, wire::link_priority(op));
  }
  CHECK(rows <= 1 << 19);
  CHECK(rows >= 1 << 17);
  CHECK(most_left_out < least_kept);
  t.clear(0);
  CHECK_FALSE(t.links(CommUid{1}, OpSeq{1}));
}

TEST_CASE("Clocks are compared by the ends of collectives, whatever they began with") {
  Job job(4);
  for (int i = 0; i < 10; ++i) job.collective(1, {0, 1, 2, 3}, 2, [](int g) { return 3.0 + g; });
  const Matches m = match_kernels(job.timeline);
  const Clocks c = compare_clocks(job.timeline, m, {}, job.settings);
  CHECK(c.components == 1);
  for (const Collective& op : m.collectives) {
    std::vector<double> ends;
    for (Place p : op.members)
      ends.push_back(c.common_ns(
          p.gpu, job.timeline.gpus()[static_cast<size_t>(p.gpu)].kernels[static_cast<size_t>(p.kernel)].end_ns));
    for (double end : ends) CHECK(end == Approx(ends[0]).margin(1000));
  }
}

TEST_CASE("Ends of collectives that would have a Recv end before its Send has begun do not compare clocks") {
  Job job(2);
  job.leaves_later_ms = [](int g) { return g == 1 ? 5.0 : 0; };  // it has no processor
  for (int i = 0; i < 10; ++i) {
    job.collective(1, {0, 1}, 2, [](int) { return 3.0; });
    for (int transfers = 0; transfers < 2; ++transfers) {
      job.transfer(2, 0, 1, true, 1, 1);
      job.transfer(2, 1, 0, false, 1, 1);
    }
  }
  const Matches m = match_kernels(job.timeline);
  const Clocks c = compare_clocks(job.timeline, m, {}, job.settings);
  REQUIRE(c.components == 1);
  const double apart_ns = c.common_ns(0, job.clock_ns(0, 100)) - c.common_ns(1, job.clock_ns(1, 100));
  CHECK(apart_ns == Approx(0).margin(0.5 * ms));
}

TEST_CASE("A timeline is bounded, and says what it left out") {
  Settings settings;
  settings.whatif_gpus_max = 1;
  settings.whatif_kernels_max = 2;
  size_t gpus_in_all = 0;
  Timeline t(settings, gpus_in_all);
  Rounds m;
  m.comm = CommUid{1};
  m.rounds.resize(3);
  for (size_t i = 0; i < 3; ++i) {
    m.rounds[i].op = OpSeq{i + 1};
    m.rounds[i].begin_device_ns = 10 * i + 1, m.rounds[i].end_device_ns = 10 * i + 5;
  }
  int a = 0, b = 0;
  t.add({&a, 0}, m);
  t.add({&b, 0}, m);
  REQUIRE(t.gpus().size() == 1);
  CHECK(t.gpus()[0].kernels.size() == 2);
  CHECK(t.left_out() == 1);
}

TEST_CASE("A timeline of some GPUs says when these report no more, and others do") {
  Settings settings;
  size_t gpus_in_all = 0;
  Timeline t(settings, gpus_in_all);
  Rounds m;
  m.comm = CommUid{1};
  m.rounds.resize(1);
  m.rounds[0].op = OpSeq{1}, m.rounds[0].begin_device_ns = 1, m.rounds[0].end_device_ns = 5;
  int a = 0, b = 0;
  t.look_at({{&a, 0}});
  CHECK_FALSE(t.looks_at_ended());  // nobody reports: the job pauses
  t.add({&b, 0}, m);
  CHECK(t.looks_at_ended());
  t.add({&a, 0}, m);
  CHECK_FALSE(t.looks_at_ended());
  t.clear(0);
  CHECK_FALSE(t.looks_at_ended());
}

namespace {

Clocks clocks_of(const Job& job) { return compare_clocks(job.timeline, match_kernels(job.timeline), {}, job.settings); }

// By how much the clocks of two GPUs are told wrong.
double error_ms(const Clocks& c, const Job& job, int a, int b) {
  return std::abs(c.common_ns(a, job.clock_ns(a, 100)) - c.common_ns(b, job.clock_ns(b, 100))) / ms;
}

}  // namespace

TEST_CASE("A Send whose Recv ends in the next window is told with it, and only in that one") {
  Job job(2);
  const auto end_window = [&] {
    const Matches m = match_kernels(job.timeline);
    job.timeline.clear(5 * ns_per_s, m.open_ends);
    return m;
  };
  for (int i = 0; i < 3; ++i) job.transfer(30, 0, 1, true, 1, 2);
  job.loses = [](int g) { return g == 1; };  // its Recv has not ended yet
  job.transfer(30, 0, 1, true, 1, 400);
  const Matches first = end_window();
  CHECK(first.pairs.size() == 3);
  CHECK(first.open_ends.size() == 1);
  CHECK(first.one_ends.empty());

  const auto recv_of_4 = [&] {  // reported now
    job.add_call(30, 1, 1, abi::Direction::recv, 0, 4, 10, 410, std::nullopt);
  };
  SECTION("It ends, and is as long as it was") {
    job.loses = nullptr;
    recv_of_4();
    for (int i = 0; i < 3; ++i) job.transfer(30, 0, 1, true, 1, 2);
    const std::optional<Graph> g = job.graph();
    REQUIRE(g);
    REQUIRE(g->transfers.size() == 4);
    CHECK(g->transfers[0].ns > 390 * ms);
    CHECK(g->length_ns < 420 * ms);  // what was before this window does not count
    CHECK(end_window().open_ends.empty());
  }
  SECTION("Its report was lost: it is not waited for any longer, and nobody is put in its place") {
    job.loses = nullptr;
    for (int i = 0; i < 3; ++i) job.transfer(30, 0, 1, true, 1, 2);
    const Matches second = end_window();
    CHECK(second.pairs.size() == 3);
    CHECK((second.open_ends.empty() && second.one_ends.empty()));
  }
  SECTION("A GPU that reports nothing more is forgotten, whatever it had sent") {
    end_window();
    CHECK(job.timeline.gpus().empty());
  }
}

TEST_CASE("A Recv that others of its connection have followed is lost, and not under way") {
  Job job(2);
  job.transfer(30, 0, 1, true, 1, 2);
  job.loses = [](int g) { return g == 1; };
  job.transfer(30, 0, 1, true, 1, 2);
  job.loses = nullptr;
  job.transfer(30, 0, 1, true, 1, 2);
  const Matches m = match_kernels(job.timeline);
  CHECK(m.open_ends.empty());
  CHECK(m.one_ends.size() == 1);
}

TEST_CASE("Clocks do not jump: ends that say so did not come together") {
  Job job(4);
  const auto operations = [&](double late_ms) {
    for (int i = 0; i < 10; ++i) {
      // As in a tree of which one branch is slow: two ranks get the result later.
      job.leaves_later_ms = [=](int g) { return g >= 2 ? late_ms : 0; };
      job.collective(1, {0, 1, 2, 3}, 1, [](int) { return 3.0; });
      job.leaves_later_ms = nullptr;
      job.collective(1, {0, 1, 2, 3}, 2, [](int) { return 3.0; });
    }
  };
  operations(0);
  Clocks c = clocks_of(job);
  CHECK(error_ms(c, job, 0, 3) < 0.1);
  // The longer the past is ago, the less it says.
  for (int window = 0; window < 20; ++window) {
    job.timeline.remember(c.pairs);
    job.timeline.clear(5 * ns_per_s);
    operations(100);
    c = clocks_of(job);
    CHECK(error_ms(c, job, 0, 3) < 10);
  }
}

TEST_CASE("What was believed of clocks is given up where all that is proven together contradicts it") {
  Job job(3);
  // While the job starts, two ranks leave an operation late.
  job.leaves_later_ms = [](int g) { return g == 1 ? 0 : 18.0; };
  job.collective(1, {0, 1, 2}, 1, [](int) { return 40.0; });
  job.leaves_later_ms = nullptr;
  Clocks c = clocks_of(job);
  CHECK(error_ms(c, job, 0, 1) > 10);
  for (int window = 0; window < 3; ++window) {
    job.timeline.remember(c.pairs);
    job.timeline.clear(5 * ns_per_s);
    for (int i = 0; i < 10; ++i) {
      // A pipeline from 0 over 2 to 1, of which the last rank begins early to wait for the others: nothing proves by
      // itself what its clock is to that of the first one.
      for (const auto& [from, to] : {std::pair(0, 2), std::pair(2, 1)}) {
        job.transfer(static_cast<uint64_t>(10 + from), from, to, true, 1, 0.5);
        job.transfer(static_cast<uint64_t>(10 + from), to, from, false, 1, 0.5);
      }
      job.collective(1, {0, 1, 2}, 1, [](int g) { return g == 1 ? 3.0 : 23.0; });
    }
    c = clocks_of(job);
    for (int g = 1; g < 3; ++g) CHECK(error_ms(c, job, 0, g) < 3);
  }
}

TEST_CASE("Where collectives are slow, clocks are told by Sends and Recvs that go both ways") {
  Job job(4);
  for (int i = 0; i < 10; ++i) {
    job.leaves_later_ms = [](int g) { return g == 1 ? 30.0 : 0; };  // slow in one direction
    job.collective(1, {0, 1}, 5, [](int) { return 3.0; });
    job.leaves_later_ms = nullptr;
    job.collective(2, {2, 3}, 1, [](int) { return 3.0; });
    for (int p = 0; p < 2; ++p) {
      job.transfer(10 + static_cast<uint64_t>(p), p, p + 2, true, 1, 0.5);
      job.transfer(10 + static_cast<uint64_t>(p), p + 2, p, false, 1, 0.5);
    }
  }
  const Clocks c = clocks_of(job);
  REQUIRE(c.components == 1);
  for (int g = 1; g < 4; ++g) CHECK(error_ms(c, job, 0, g) < 3);
}

TEST_CASE("A Send that found no room waits for its Recv, though clocks are in doubt") {
  Job job(2);
  job.facts[1].host = 1;
  // The receiver's clock is told 3 ms too late by operations that take 10.
  job.leaves_later_ms = [](int g) { return g == 1 ? -3.0 : 0; };
  for (int i = 0; i < 10; ++i) {
    job.collective(1, {0, 1}, 10, [](int) { return 1.0; });
    // It has work of its own for 200 ms, and its slots are full: the Send ends when it takes what is there.
    job.now_ms[1] += 200;
    job.transfer(30, 0, 1, true, 1, 1, job.now_ms[1] - job.now_ms[0] - 1);
  }
  const std::optional<Graph> g = job.graph();
  REQUIRE(g);
  REQUIRE(g->transfers.size() == 10);
  for (const Transfer& t : g->transfers) {
    const Node& send = at(g->nodes, t.send);
    REQUIRE(send.needs == 1);
    CHECK(at(g->needs, send.first_need) == t.recv);
  }
}

}  // namespace ccld::decision::whatif
