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
// The CPU device is a thousand times slower, and shares its processors with all ranks of the machine and whatever else
// runs there. A repetition of a GPU's own work has to end before its thread loses the processor, and what it moves has
// to fit the cache of one processor: beside busy programs a third of the tests could not tell with 16 MiB, one of fifty
// with 1 MiB.
constexpr Sizes cpu_device_sizes{192, size_t{1} << 20, size_t{1} << 20, size_t{512} << 10};

// In a training process: memory is scarce there, and the job waits. What is left of a GPU's is a few hundred megabytes.
constexpr Sizes gpu_in_job_sizes{2048, size_t{128} << 20, size_t{64} << 20, size_t{64} << 20};
constexpr Sizes cpu_device_in_job_sizes{128, size_t{1} << 20, size_t{1} << 20, size_t{256} << 10};

}  // namespace ccld::decision::validate
