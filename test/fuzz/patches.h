// A file of the probe from a fuzzer's bytes: a whole file, and places of it that are overwritten. So the fuzzer need
// not find the magic numbers, and an input is small.
//
//   patch = u32 offset (modulo the file), u8 length, bytes;  the input begins with u16: how many bytes the file is
//   short
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "test/fuzz/bytes.h"

namespace ccld::fuzz {

struct PatchedFile {
  std::unique_ptr<unsigned char, decltype(&std::free)> memory{nullptr, std::free};
  size_t bytes = 0;
};

inline PatchedFile patched(const void* whole, size_t whole_bytes, ByteReader& input) {
  constexpr size_t alignment = 128;
  const size_t short_by = input.number<uint16_t>();
  PatchedFile file;
  file.bytes = whole_bytes - (short_by < whole_bytes ? short_by : whole_bytes);
  // Exactly so many bytes, so that a sanitizer sees what is read beyond them.
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, file.bytes > 0 ? file.bytes : 1) != 0) std::abort();
  file.memory.reset(static_cast<unsigned char*>(memory));
  std::memcpy(memory, whole, file.bytes);
  while (!input.empty() && file.bytes > 0) {
    const size_t at = input.number<uint32_t>() % file.bytes;
    const std::string_view patch = input.text(input.byte());
    std::memcpy(file.memory.get() + at, patch.data(), std::min(patch.size(), file.bytes - at));
  }
  return file;
}

}  // namespace ccld::fuzz
