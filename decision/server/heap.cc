#include "decision/server/heap.h"

#include <malloc.h>

namespace ccld::decision::server {

void keep_large_blocks_apart() {
  mallopt(M_MMAP_THRESHOLD, large_block_bytes);  // and no learning
  mallopt(M_MMAP_MAX, large_blocks_max);
}

}  // namespace ccld::decision::server
