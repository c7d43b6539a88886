// A pipeline with iterations so long that a window holds a transfer or two of each connection.
#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "decision/analyzer.h"
#include "test/unit/decision/verdicts.h"

namespace ccld::decision {
namespace {

constexpr int pairs = 4, gpus = 2 * pairs;
constexpr CommUid world{50};

// Two hosts of four GPUs; GPU p sends to GPU p + 4 once in an iteration, then all reduce.
struct LongIterations {
  explicit LongIterations(const Settings& settings) : analyzer(settings) {
    for (int g = 0; g < gpus; ++g) {
      send(g, up(world, g, gpus, g));
      send(g, up(pair_of(g), g / pairs, 2, g));
    }
  }

  // `transfer_ms(pair)`: what its transfer takes.
  void iterate(const std::function<int(int pair)>& transfer_ms) {
    ++iteration;
    const Nanoseconds begin_ns = now_ns;
    Nanoseconds last_ns = 0;
    for (int p = 0; p < pairs; ++p) {
      const Nanoseconds ready_ns = begin_ns + 1500 * ns_per_ms, end_ns = ready_ns + transfer_ms(p) * ns_per_ms;
      send(p, call(p, abi::Direction::send, ready_ns, ready_ns + ns_per_ms));
      send(p + pairs, call(p + pairs, abi::Direction::recv, begin_ns, end_ns));
      last_ns = std::max(last_ns, end_ns);
    }
    for (int g = 0; g < gpus; ++g) {
      const Nanoseconds own_ns =
          g < pairs ? begin_ns + 1501 * ns_per_ms : begin_ns + 1500 * ns_per_ms + transfer_ms(g - pairs) * ns_per_ms;
      send(g, reduce(g, own_ns + 200 * ns_per_ms, last_ns + 201 * ns_per_ms));
    }
    advance(last_ns + 300 * ns_per_ms);
  }
  void advance(Nanoseconds until_ns) {
    for (; now_ns < until_ns; now_ns += 100 * ns_per_ms)
      for (Incident& i : analyzer.advance(now_ns)) reported.push_back(std::move(i));
  }

  Analyzer analyzer;
  Nanoseconds now_ns = 100 * ns_per_s;
  std::vector<Incident> reported;

 private:
  static CommUid pair_of(int gpu) { return CommUid{30 + static_cast<uint64_t>(gpu % pairs)}; }
  static CommUp up(CommUid comm, int rank, int ranks, int gpu) {
    CommUp m;
    m.comm = comm;
    m.rank = Rank{rank};
    m.rank_count = ranks;
    m.node = gpu / pairs;
    m.cuda_device = gpu % pairs;
    return m;
  }
  P2pRounds call(int gpu, abi::Direction direction, Nanoseconds begin_ns, Nanoseconds end_ns) const {
    P2pRound r;
    r.peer = Rank{gpu < pairs ? 1 : 0};
    r.direction = direction;
    r.pair_seq = iteration;
    r.bytes = 1 << 16;
    set_times(r, begin_ns, end_ns);
    P2pRounds m;
    m.comm = pair_of(gpu);
    m.rank = Rank{gpu / pairs};
    m.rounds = {r};
    return m;
  }
  Rounds reduce(int gpu, Nanoseconds begin_ns, Nanoseconds end_ns) const {
    Round r;
    r.op = OpSeq{iteration};
    r.signature.function = abi::Function::all_reduce;
    r.signature.count = 1 << 20;
    r.signature.datatype = abi::Datatype::float32;
    set_times(r, begin_ns, end_ns);
    Rounds m;
    m.comm = world;
    m.rank = Rank{gpu};
    m.rounds = {r};
    return m;
  }
  template <class AnyRound>
  static void set_times(AnyRound& r, Nanoseconds begin_ns, Nanoseconds end_ns) {
    r.enter_monotonic_ns = r.launch_monotonic_ns = static_cast<uint64_t>(begin_ns - 100 * ns_per_ms);
    r.begin_device_ns = static_cast<uint64_t>(begin_ns), r.end_device_ns = static_cast<uint64_t>(end_ns);
  }
  void send(int gpu, Payload payload) {
    Batch b;
    const std::string host = "node" + std::to_string(gpu / pairs);
    b.process = {host, "boot of " + host, static_cast<uint32_t>(100 + gpu), 0, static_cast<uint64_t>(gpu + 1)};
    b.job = "job";
    b.sent_monotonic_ns = static_cast<uint64_t>(now_ns);
    b.payloads = {std::move(payload)};
    analyzer.apply(b, now_ns);
  }
  uint64_t iteration = 0;
};

Settings quick() {
  Settings s;
  s.slow_window_s = 3;
  return s;
}

}  // namespace

TEST_CASE("A transfer or two that take very long make no connection suspect, however much of a window they are") {
  LongIterations job(quick());
  for (int i = 0; i < 10; ++i) job.iterate([](int) { return 2; });
  for (int i = 0; i < 3; ++i) job.iterate([](int pair) { return pair == 1 ? 1500 : 2; });
  for (int i = 0; i < 10; ++i) job.iterate([](int) { return 2; });
  INFO(text(job.reported));
  CHECK(job.reported.empty());
}

TEST_CASE("A moment in which all transfers take very long is one, however many connections it met") {
  LongIterations job(quick());
  for (int i = 0; i < 10; ++i) job.iterate([](int) { return 2; });
  for (int i = 0; i < 3; ++i) job.iterate([](int) { return 1500; });
  for (int i = 0; i < 10; ++i) job.iterate([](int) { return 2; });
  INFO(text(job.reported));
  CHECK(job.reported.empty());
  for (int i = 0; i < 40; ++i) job.iterate([](int) { return 1500; });
  CHECK_FALSE(job.reported.empty());
}

TEST_CASE("A connection that is slow in every one of few transfers is found") {
  LongIterations job(quick());
  for (int i = 0; i < 40; ++i) job.iterate([](int pair) { return pair == 1 ? 1500 : 2; });
  INFO(text(job.reported));
  REQUIRE_FALSE(job.reported.empty());
  CHECK(job.reported.back().fault == FaultClass::s2_communication_slow);
  CHECK(job.reported.back().state == VerdictState::confirmed);
  REQUIRE(job.reported.back().culprits.size() == 1);
  CHECK(job.reported.back().comm == CommUid{31});
  CHECK(job.reported.back().culprits[0].component == Component::link);
}

}  // namespace ccld::decision
