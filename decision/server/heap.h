// How this program's heap treats large blocks. A look at a whole job takes megabytes for a moment; by default glibc learns
// from that to cut such blocks out of the heap, where small ones that stay soon lie between them, and nothing goes back:
// 1,024 simulated ranks then hold 12 KB for each rank and communicator where they need 5.
#pragma once

#include <cstddef>

namespace ccld::decision::server {

// glibc's own threshold before it learns.
constexpr int large_block_bytes = 128 << 10;
// Each is a mapping, of which the kernel allows 65,530; beyond that they come from the heap.
constexpr int large_blocks_max = 16384;

// From now on large blocks come from the system one by one, and go back to it at once. Threads: before others start.
void keep_large_blocks_apart();

}  // namespace ccld::decision::server
