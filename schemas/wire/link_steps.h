// Over which steps of a round the means of a connection are taken (LinkStages of the wire). The first ones tell when
// the other end came, and how much the buffers on the way hold; the later ones move as fast as the slowest part lets
// them. Both ends must leave out the same steps, and an end may not know how many there are before the last has passed:
// so it remembers its sums at `step_marks` places at most, evenly apart, and the rule chooses one of them.
#pragma once

#include <cstdint>

namespace ccld::wire {

constexpr uint32_t step_marks = 16;

// Steps between two marks, of that many steps: a power of two.
constexpr uint64_t steps_between_marks(uint32_t steps) {
  uint64_t between = 1;
  while (between * step_marks < steps) between *= 2;
  return between;
}

// Slots of a connection (NCCL_STEPS). When all were taken once, nothing waits any more for a rank that came late.
constexpr uint32_t slots = 8;
// A few steps may all find room in the buffers: then the first ones tell as much as the last. Of more than these at
// least a third is left behind the slots, and no less than four.
constexpr uint32_t few_steps_max = 11;

// The first step that counts: of many steps the first mark at or beyond the middle and the slots, of few the very
// first.
constexpr uint32_t first_counted_step(uint32_t steps) {
  if (steps <= few_steps_max) return 0;
  const uint64_t between = steps_between_marks(steps), first = steps / 2 < slots ? slots : steps / 2;
  return static_cast<uint32_t>((first + between - 1) / between * between);
}

// A link tells something only if both of its ends report the same round. So where not all rounds can be told, both ends
// tell those with the highest priority. Half of all numbers have at least 1, a quarter at least 2, and so on; which of
// them is as if by chance, so that no place in the iteration is left out. `number`: of the operation, or of the call.
constexpr int link_priority(uint64_t number) {
  number *= 0x9e3779b97f4a7c15U;
  number = (number ^ (number >> 32)) * 0xd6e8feb86659fd93U;
  const auto low = static_cast<uint32_t>(number >> 32);
  return low == 0 ? 32 : __builtin_ctz(low);
}

static_assert(first_counted_step(few_steps_max + 1) >= slots);
static_assert(first_counted_step(few_steps_max + 1) < few_steps_max);

}  // namespace ccld::wire
