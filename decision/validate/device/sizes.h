// How much each check moves or computes: enough that starting it costs nothing beside it.
#pragma once

#include <cstddef>

namespace ccld::decision::validate {

struct Sizes {
  int gemm_n;
  size_t memory_bytes, copy_bytes, link_bytes;
};

// Some milliseconds each on a GPU of 2020 or newer. A message has to be longer than what the connections of a pair
// buffer: 4 MiB for each channel.
constexpr Sizes gpu_sizes{4096, size_t{512} << 20, size_t{128} << 20, size_t{64} << 20};
// The CPU device is a thousand times slower, and shares its processors with all ranks of the machine.
constexpr Sizes cpu_device_sizes{192, size_t{16} << 20, size_t{16} << 20, size_t{512} << 10};

// A block of the CPU device that polls sleeps, longer as the wait goes on, so the same link takes 1.8 ms or 3.6 ms; and
// the processors of its host are nobody's alone. What the accuracy benchmark plants takes eight times as long or more.
constexpr double cpu_device_margin = 1.5, cpu_device_resolution = 8;

}  // namespace ccld::decision::validate
