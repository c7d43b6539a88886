// What the frames of a process that cannot speak any more say of its last operations: whether it had called, launched
// and begun the one that the others wait in. (Paper, section 4.2.2: H1 is told from H3 by who has entered.)
//
// Contract
//   Of a frame that nobody writes any more the answer is exact. Of one that a GPU still writes each number is one that
//   was true. Nothing here fails: what cannot be read has no answer.
//
// Threads: any. read_last_operations() makes system calls (open, read) and needs as much memory as the frame has bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "probe/transport/messages.h"
#include "schemas/abi/frame_reader.h"

namespace ccld::probe {

// A larger file is no frame of 64 channels.
constexpr size_t frame_bytes_max = 64u << 20;

std::optional<LastOperations> last_operations(const abi::FrameView&);
// The file is read, not mapped: whoever truncates it must not end this process.
std::optional<LastOperations> read_last_operations(const std::string& path);

}  // namespace ccld::probe
