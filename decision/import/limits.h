// What reading dumps may cost at most. Dumps come from elsewhere: a damaged or a hostile file ends in an error, never
// in a full memory. Each limit is several times what real jobs were seen to write.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccld::decision::dumps {

// Flight Recorder keeps 2,000 calls by default, with call stacks some 10 MB.
constexpr uint64_t file_bytes_max = uint64_t{512} << 20;
// Over all files, since their calls are compared with each other: 100,000 ranks with such dumps.
constexpr uint64_t total_bytes_max = uint64_t{1} << 40;
constexpr size_t files_max = 131'072;
// Values of one file: about 70 bytes of memory each. A Flight Recorder dump has some 50 per call.
constexpr size_t values_max = 8'000'000;
// Values of one file if what is shared were written out: what a reader may have to walk over.
constexpr uint64_t values_expanded_max = 64'000'000;
// The formats nest six deep.
constexpr int depth_max = 32;
constexpr size_t ranks_max = 1 << 20;         // of a job, and of a group
constexpr size_t calls_max = 256'000'000;     // over all files, at 64 bytes: 2,000 of each of 128,000 ranks
constexpr size_t tensors_of_shapes_max = 16'000'000;  // over all calls that differ in sizes, at some 200 bytes
constexpr size_t text_bytes_max = 64 * 1024;  // of a name, not of a file

}  // namespace ccld::decision::dumps
