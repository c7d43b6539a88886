// The first word of a kernel's end: which run has ended, how, and after how long. With SendCount, RecvCount and busy
// time it makes one row of 16 bytes, so that the end of a kernel is one store and is seen with its counts or not at
// all.
//
// Contract
//   bits 0..6    lap: run / rounds_max modulo 128. A place in the ring of rows is used in turn, so it tells whose end
//                stands there, together with the begin beside it.
//   bit 7        RoundFlag
//   bits 8..27   m   the duration is m * 4^e - 1 ns: exact below 2^20 - 1 ns, then at most 4 millionths short
//   bits 28..31  e
//   m is never 0: a word of zero says that no kernel has ended here. A duration of 2^50 ns (13 days) or more, and one
//   of a clock that was set back, is told as 0.
//
// Threads: any. pack_end() runs on the GPU, too.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define CCLD_HOST_DEVICE __host__ __device__ __forceinline__
// Out of the way of short kernels, for which the instructions count.
#define CCLD_HOST_DEVICE_CALL static __host__ __device__ __noinline__
#else
#define CCLD_HOST_DEVICE inline
#define CCLD_HOST_DEVICE_CALL inline
#endif

namespace ccld::abi {

constexpr uint32_t lap_runs = 128;  // rounds_max
constexpr unsigned end_lap_bits = 7, end_mantissa_bits = 20;
constexpr uint32_t end_lap_mask = (1u << end_lap_bits) - 1;
constexpr unsigned end_flag_at = end_lap_bits, end_mantissa_at = end_flag_at + 1,
                   end_exponent_at = end_mantissa_at + end_mantissa_bits;
constexpr uint32_t end_mantissa_mask = (1u << end_mantissa_bits) - 1;
constexpr uint32_t end_exponent_max = (1u << (32 - end_exponent_at)) - 1;
static_assert(end_exponent_at == 28);

enum RoundFlag : uint32_t { round_aborted = 1 };

// Mantissa and exponent at their places, of a duration that 20 bits do not hold.
CCLD_HOST_DEVICE_CALL constexpr uint32_t pack_long_duration(uint64_t duration_ns) {
  uint64_t mantissa = duration_ns + 1;
  uint32_t exponent = 0;
  for (; mantissa >> end_mantissa_bits != 0; ++exponent) mantissa >>= 2;
  if (exponent > end_exponent_max || mantissa == 0) {
    mantissa = 1;
    exponent = 0;
  }
  return static_cast<uint32_t>(mantissa) << end_mantissa_at | exponent << end_exponent_at;
}

CCLD_HOST_DEVICE constexpr uint32_t pack_end(uint32_t run, uint32_t flags, uint64_t duration_ns) {
  const uint32_t duration = duration_ns < end_mantissa_mask
                                ? (static_cast<uint32_t>(duration_ns) + 1) << end_mantissa_at
                                : pack_long_duration(duration_ns);
  return (run / lap_runs & end_lap_mask) | flags << end_flag_at | duration;
}

constexpr bool has_end(uint32_t word) { return (word >> end_mantissa_at & end_mantissa_mask) != 0; }
constexpr uint32_t end_flags(uint32_t word) { return word >> end_flag_at & 1; }
constexpr uint64_t end_duration_ns(uint32_t word) {
  return (uint64_t{word >> end_mantissa_at & end_mantissa_mask} << 2 * (word >> end_exponent_at)) - 1;
}

// The run whose end stands in a place (run % rounds_max) with the begin of run `begun`. They are at most one lap apart:
// the end is the one before `begun`, its own, or, since stores become visible in any order, the one after it.
constexpr uint32_t run_of_end(uint32_t place, uint32_t begun, uint32_t word) {
  const uint32_t lap = begun / lap_runs;
  const uint32_t ahead = (word - lap) & end_lap_mask;
  const uint32_t behind = ahead > end_lap_mask / 2 ? end_lap_mask + 1 : 0;
  return (lap + ahead - behind) * lap_runs + place;
}

}  // namespace ccld::abi
