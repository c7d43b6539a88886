// What communicators leave behind when they end, and how long it takes to abort one whose kernels wait.
// Errors: std::runtime_error. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "benchmarks/gpu/ranks.h"

namespace ccld::gpu {

// What this process holds.
struct Held {
  size_t descriptors = 0;
  size_t frame_mappings = 0;
  size_t frame_files = 0;
  uint64_t resident_bytes = 0;
  uint64_t device_free_bytes = 0;  // of the card, so that others' memory counts too
};
Held held_now(const std::string& frames_folder);

// Makes further communicators of that many ranks, uses and ends them, one after the other.
void use_and_end(int ranks, int cycles);

// The first rank does not come, the kernels of the others wait, all abort. Seconds that the abort took.
double abort_while_waiting(int ranks);

}  // namespace ccld::gpu
