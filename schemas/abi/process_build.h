// The last part of a process file (process.h): which libnccl is in the process. It lies behind the network queues,
// which were the end of the file before there was this part, so its presence shows in the file's size alone.
//
// Contract: written before the file's `magic`, never changed. A reader of a mapped file asks ProcessView::build(), which
// knows where it lies since the file was checked. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "schemas/abi/process.h"

namespace ccld::abi {

struct alignas(128) ProcessBuild {
  char release[64];   // "0.1.0"
  char build_id[64];  // schemas/build_id/build_id.h
};
static_assert(sizeof(ProcessBuild) == 128 && offsetof(ProcessBuild, build_id) == 64);
static_assert(process_file_bytes() % alignof(ProcessBuild) == 0);

constexpr size_t process_file_bytes_with_build() { return process_file_bytes() + sizeof(ProcessBuild); }

// From where on, of a file with this identity; 0: an older library, which wrote none.
inline size_t process_build_offset(const ProcessIdentityPart& identity) {
  const uint64_t offset = identity.nets_offset + uint64_t{identity.nets_stride} * nets_max;
  return offset % alignof(ProcessBuild) == 0 && offset + sizeof(ProcessBuild) <= identity.file_bytes ? offset : 0;
}

// A copy with both texts ended; empty ones of nullptr.
inline ProcessBuild process_build_at(const void* part) {
  ProcessBuild build{};
  if (part == nullptr) return build;
  std::memcpy(&build, part, sizeof build);
  build.release[sizeof build.release - 1] = build.build_id[sizeof build.build_id - 1] = 0;
  return build;
}

// Of a file that lies in `memory` with all the bytes that this identity, a copy, claims. Empty of an older library.
inline ProcessBuild process_build(const void* memory, const ProcessIdentityPart& identity) {
  const size_t offset = process_build_offset(identity);
  return process_build_at(offset != 0 ? static_cast<const char*>(memory) + offset : nullptr);
}

}  // namespace ccld::abi
