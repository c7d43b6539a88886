#include "test/support/workload/phases.h"

#include <algorithm>
#include <cmath>

namespace ccld::workload {
namespace {

// More than a day of phases; afterwards the last one goes on.
constexpr size_t phase_count = 20000;

struct Weight {
  PhaseKind kind;
  double weight;
  uint64_t rounds_min, rounds_max;
};
// Long phases of traffic, with an event between two of them every now and then.
constexpr Weight weights[] = {
    {PhaseKind::steady, 5, 80, 300}, {PhaseKind::sizes, 2, 40, 150},      {PhaseKind::imbalance, 2, 60, 150},
    {PhaseKind::burst, 2, 100, 300}, {PhaseKind::evaluation, 1, 40, 100}, {PhaseKind::checkpoint, 2, 1, 1},
    {PhaseKind::hiccup, 3, 1, 1},    {PhaseKind::idle, 1, 1, 1},          {PhaseKind::recreate, 1, 1, 1}};
constexpr Operation collectives[] = {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                                     Operation::broadcast, Operation::reduce};

template <class T>
T between(double share, T low, T high) {
  return low + static_cast<T>(share * static_cast<double>(high - low));
}

const Weight& chosen(double share) {
  double sum = 0;
  for (const Weight& each : weights) sum += each.weight;
  double left = share * sum;
  for (const Weight& each : weights) {
    left -= each.weight;
    if (left <= 0) return each;
  }
  return weights[0];
}

Operation operation_of(double share) { return collectives[std::min<size_t>(4, static_cast<size_t>(share * 5))]; }

// Sizes spread over powers of two, down to one float.
uint64_t size_of(double share, uint64_t bytes_max) {
  const double exponents = std::log2(static_cast<double>(std::max<uint64_t>(bytes_max, 8)) / 4);
  return uint64_t{4} << static_cast<uint64_t>(share * exponents);
}

}  // namespace

const char* name(PhaseKind kind) {
  switch (kind) {
    case PhaseKind::warm_up: return "warm_up";
    case PhaseKind::steady: return "steady";
    case PhaseKind::sizes: return "sizes";
    case PhaseKind::imbalance: return "imbalance";
    case PhaseKind::burst: return "burst";
    case PhaseKind::evaluation: return "evaluation";
    case PhaseKind::checkpoint: return "checkpoint";
    case PhaseKind::hiccup: return "hiccup";
    case PhaseKind::idle: return "idle";
    case PhaseKind::recreate: return "recreate";
  }
  return "?";
}

double draw(uint64_t seed, uint64_t rank, uint64_t round) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u ^ (rank + 1) * 0xbf58476d1ce4e5b9u ^ round * 0x94d049bb133111ebu;
  x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
  x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
  return static_cast<double>((x ^ x >> 33) >> 11) * 0x1p-53;
}

Phases::Phases(uint64_t seed, int rank_count, const PhaseLimits& limits) : rank_count_(rank_count), limits_(limits) {
  phases_.push_back({PhaseKind::warm_up, 1, 5, seed});
  // Draws of the plan must not be those of the ranks: 1000 ranks further on.
  constexpr uint64_t kind_stream = 1000, length_stream = 1001;
  for (uint64_t i = 1; i < phase_count; ++i) {
    const Weight& weight = i == 1 ? weights[0] : chosen(draw(seed, kind_stream, i));
    uint64_t rounds = between(draw(seed, length_stream, i), weight.rounds_min, weight.rounds_max);
    if (rounds > 1) rounds = std::max<uint64_t>(2, rounds / limits_.rounds_divisor);
    phases_.push_back({weight.kind, phases_.back().first_round + phases_.back().rounds, rounds, seed ^ i << 32});
  }
}

const Phase& Phases::at(uint64_t round) const {
  const auto after = std::upper_bound(phases_.begin(), phases_.end(), round,
                                      [](uint64_t value, const Phase& phase) { return value < phase.first_round; });
  return after == phases_.begin() ? phases_.front() : *(after - 1);
}

Behaviour Phases::of(uint64_t round, int rank) const {
  const Phase& phase = at(round);
  constexpr uint64_t common = 2000;  // draws that all ranks share
  const auto shared = [&](uint64_t which) { return draw(phase.seed, common + which, 0); };
  const auto shared_now = [&](uint64_t which) { return draw(phase.seed, common + which, round); };
  const double own = draw(phase.seed, static_cast<uint64_t>(rank), round);
  const auto ranks = static_cast<uint64_t>(rank_count_);

  Behaviour result;
  result.kind = phase.kind;
  result.bytes = std::max<uint64_t>(4, limits_.bytes_max >> static_cast<uint64_t>(shared(0) * 4));
  result.compute_ms = 5 + 10 * shared(1) + 3 * own;
  switch (phase.kind) {
    case PhaseKind::warm_up: result.compute_ms = 300 + 900 * shared_now(2) + 200 * own; break;
    case PhaseKind::steady: break;
    case PhaseKind::sizes:
      result.operation = operation_of(shared_now(2));
      result.bytes = size_of(shared_now(3), limits_.bytes_max);
      break;
    case PhaseKind::imbalance:
      // Moves on every few rounds, never to the same order twice.
      if (static_cast<uint64_t>(rank) == static_cast<uint64_t>(draw(phase.seed, common, round / 3) * double(ranks)))
        result.compute_ms += 20 + 60 * shared_now(3);
      break;
    case PhaseKind::burst:
      result.compute_ms = 0;
      result.bytes = size_of(shared(2) / 2, limits_.bytes_max);
      break;
    case PhaseKind::evaluation:
      result.operation = shared(2) < 0.5 ? Operation::all_gather : Operation::broadcast;
      result.bytes = size_of(0.3 + shared(3) / 3, limits_.bytes_max);
      result.compute_ms *= 2;
      break;
    case PhaseKind::checkpoint:
      result.bytes = 4;
      result.host_pause_ms = rank == 0 ? limits_.barrier_ms_max * (0.1 + 0.9 * shared(2)) : limits_.pause_ms_max * own;
      break;
    case PhaseKind::hiccup:
      if (static_cast<uint64_t>(rank) == static_cast<uint64_t>(shared(2) * double(ranks)))
        result.host_pause_ms = limits_.pause_ms_max * (0.1 + 0.9 * shared(3));
      break;
    case PhaseKind::idle: result.host_pause_ms = limits_.idle_ms_max * (0.1 + 0.9 * shared(2)); break;
    case PhaseKind::recreate: result.recreate = true; break;
  }
  return result;
}

}  // namespace ccld::workload
