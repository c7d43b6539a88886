#include "decision/analysis/slow_pairs_judge.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "test/unit/decision/verdicts.h"

namespace ccld::decision {
namespace {

// A pipeline of four stages, one process each: in every step, what stage r works on goes on to stage r + 1. The first
// stage is bound to the last by having only so many steps under way.
struct Pipeline {
  Settings settings;
  ProcessTable processes{settings};
  Communicator comm{CommUid{1}, settings};
  SlowPairsJudge detector{settings};
  std::mt19937 random{1};
  static constexpr int stages = 4, under_way = 4;
  std::array<uint64_t, stages> free_ns{};  // when each stage can begin to work
  std::array<double, stages> work_ms{10, 10, 10, 10};
  std::array<double, stages> transfer_ms{2, 2, 2, 2};  // of what stage r sends
  std::array<double, stages> queued_ms{1, 1, 1, 1};    // from the launch of a kernel to its begin
  std::array<double, stages> waits{};                  // for a processor: part of the time, main and progress threads
  std::array<RunDelay, stages> waited{};
  Nanoseconds told_ns = 0;
  uint64_t step = 0;
  std::map<uint64_t, uint64_t> done_ns;
  Nanoseconds now_ns = 100 * ns_per_s, start_ns = now_ns;
  std::vector<SlowReport> reports;
  bool open = false;
  double noise = 0.05;

  Pipeline() {
    for (int r = 0; r < stages; ++r) {
      Batch b;
      b.process.pid = 100 + static_cast<uint32_t>(r);
      CommUp up;
      up.comm = CommUid{1};
      up.rank = Rank{r};
      up.rank_count = stages;
      comm.up(up, *processes.heard(b, 1), 1);
    }
  }
  void tell(int rank, int peer, abi::Direction direction, uint64_t begin_ns, uint64_t end_ns) {
    P2pRounds m;
    m.comm = CommUid{1};
    m.rank = Rank{rank};
    P2pRound round;
    round.peer = Rank{peer};
    round.direction = direction;
    round.pair_seq = step;
    const uint64_t clock = 1'000'000'000'000u * static_cast<uint64_t>(rank + 1);
    round.begin_device_ns = clock + begin_ns;
    round.end_device_ns = clock + end_ns;
    round.launch_monotonic_ns = 5'000'000'000u + begin_ns - static_cast<uint64_t>(queued_ms[rank] * 1e6);  // another clock
    m.rounds.push_back(round);
    detector.add(comm, m, *comm.rank(Rank{rank})->process, now_ns);
  }
  void tell_waits() {
    for (int r = 0; r < stages; ++r) {
      const auto ns = static_cast<Nanoseconds>(waits[r] * static_cast<double>(told_ns == 0 ? 1000 : now_ns - told_ns));
      waited[r].main_ns += ns;
      waited[r].proxies_ns += ns;
      Metrics m;
      m.metrics = {{abi::MetricId::process_main_run_delay_ns, "", waited[r].main_ns},
                   {abi::MetricId::process_proxy_run_delay_ns, "", waited[r].proxies_ns}};
      Batch b;
      b.process.pid = 100 + static_cast<uint32_t>(r);
      ProcessTable::metrics(*processes.heard(b, now_ns), m, now_ns);
    }
    told_ns = now_ns;
  }
  void steps(int n) {
    std::normal_distribution<double> spread(1, noise);
    for (int i = 0; i < n; ++i) {
      ++step;
      uint64_t has_ns = step > under_way ? done_ns[step - under_way] : 0;  // when the stage has its input
      for (int r = 0; r < stages; ++r) {
        const uint64_t ready_ns = r == 0 ? std::max(free_ns[0], has_ns) : has_ns;
        const auto worked_ns = ready_ns + static_cast<uint64_t>(work_ms[r] * 1e6 * std::max(0.2, spread(random)));
        free_ns[r] = worked_ns;
        if (r + 1 == stages) {
          done_ns[step] = worked_ns;
          break;
        }
        // The receiver waits from when it is free, the sender from when its work is done.
        const uint64_t waits_ns = free_ns[r + 1] + 1000;
        const auto arrived_ns = std::max(worked_ns, waits_ns) + static_cast<uint64_t>(transfer_ms[r] * 1e6);
        tell(r, r + 1, abi::Direction::send, worked_ns, arrived_ns);
        tell(r + 1, r, abi::Direction::recv, waits_ns, arrived_ns);
        free_ns[r] = has_ns = arrived_ns;
      }
      now_ns = start_ns + static_cast<Nanoseconds>(free_ns[stages - 1]);
      if (now_ns - told_ns >= ns_per_s) tell_waits();
      SlowReport report = detector.advance(comm, open, now_ns);
      if (report.event == SlowEvent::resolve) open = false;
      if (report.event == SlowEvent::suspect || report.event == SlowEvent::confirm) open = true;
      if (report.event != SlowEvent::none) reports.push_back(std::move(report));
    }
  }
};

}  // namespace

TEST_CASE("A pipeline with its bubbles is silent, jitter included") {
  Pipeline p;
  p.noise = 0.3;
  p.steps(5000);
  CHECK(p.reports.empty());
}

TEST_CASE("A stage whose work takes longer is computation-slow, not those that wait for it") {
  Pipeline p;
  p.steps(2000);
  const int slow = GENERATE(1, 2);
  p.work_ms[slow] = 30;
  p.steps(1500);
  REQUIRE_FALSE(p.reports.empty());
  const SlowReport& last = p.reports.back();
  CHECK(last.event == SlowEvent::confirm);
  CHECK(last.finding.fault == FaultClass::s1_computation_slow);
  CHECK(ranks_of(last.finding.culprits) == std::set<int>{slow});
  CHECK(last.finding.culprits[0].lost_time_share > 0.7);
  p.work_ms[slow] = 10;
  p.steps(4000);
  CHECK(p.reports.back().event == SlowEvent::resolve);
}

TEST_CASE("A stage whose GPU is slow lets its kernels wait after their launch; one whose host is late does not") {
  Pipeline p;
  p.steps(2000);
  const bool gpu = GENERATE(true, false);
  p.work_ms[1] = 30;
  if (gpu) p.queued_ms[1] = 60;
  p.steps(1500);
  REQUIRE_FALSE(p.reports.empty());
  const Finding& f = p.reports.back().finding;
  REQUIRE(f.culprits.size() == 1);
  CHECK(f.culprits[0].component == (gpu ? Component::gpu : Component::process));
}

TEST_CASE("A transfer that takes longer is communication-slow and names both ends") {
  Pipeline p;
  p.steps(2000);
  p.transfer_ms[1] = 30;
  p.steps(1500);
  REQUIRE_FALSE(p.reports.empty());
  const Finding& f = p.reports.back().finding;
  CHECK(f.fault == FaultClass::s2_communication_slow);
  REQUIRE(f.culprits.size() == 1);
  CHECK(f.culprits[0].rank == Rank{1});
  CHECK(f.culprits[0].peer == Rank{2});
}

TEST_CASE("A stage that waits for a processor as all do is not named; one that waits alone is") {
  Pipeline p;
  p.waits = {0.02, 0.02, 0.02, 0.02};
  p.steps(2000);
  p.work_ms[1] = 30;
  SECTION("all") {
    p.waits = {0.5, 0.7, 0.5, 0.5};
    p.steps(1500);
    CHECK(p.reports.empty());
  }
  SECTION("alone") {
    p.waits[1] = 0.7;
    p.steps(1500);
    REQUIRE_FALSE(p.reports.empty());
    CHECK(ranks_of(p.reports.back().finding.culprits) == std::set<int>{1});
  }
}

TEST_CASE("Transfers that take longer while all progress threads wait for processors name no link") {
  Pipeline p;
  p.waits = {0.02, 0.02, 0.02, 0.02};
  p.steps(2000);
  p.transfer_ms[1] = 30;
  p.waits = {0.7, 0.7, 0.7, 0.7};
  p.steps(1500);
  CHECK(p.reports.empty());
}

TEST_CASE("A pipeline of which all stages do more work has no culprit") {
  Pipeline p;
  p.steps(2000);
  p.work_ms = {20, 20, 20, 20};
  p.steps(2000);
  CHECK(p.reports.empty());
}

TEST_CASE("Repeated and late reports change nothing") {
  Pipeline p;
  p.steps(1000);
  p.tell(1, 2, abi::Direction::send, 1, 2'000'000'000);
  p.tell(1, 99, abi::Direction::send, 1, 2);
  p.tell(1, 1, abi::Direction::send, 1, 2);
  p.steps(2000);
  CHECK(p.reports.empty());
}

}  // namespace ccld::decision
