#include "decision/server/heap.h"

#include <malloc.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

namespace ccld::decision::server {

TEST_CASE("A large block goes back to the system when it is freed, also after a larger one was") {
  if (mallinfo2().uordblks == 0) return;  // a sanitizer's heap
  keep_large_blocks_apart();
  const auto mapped = [] { return mallinfo2().hblkhd; };
  const size_t before = mapped();
  // What other tests left in the heap is used up first.
  const auto take = [&](size_t bytes) {
    std::vector<void*> blocks;
    while (mapped() == before && blocks.size() < 100) blocks.push_back(malloc(bytes));
    return blocks;
  };
  const auto give_back = [](const std::vector<void*>& blocks) {
    for (void* block : blocks) free(block);
  };
  // By default this one teaches glibc to take the next one from the heap.
  give_back(take(size_t{24} << 20));
  const std::vector<void*> blocks = take(size_t{20} << 20);
  CHECK(mapped() >= before + (size_t{20} << 20));
  give_back(blocks);
  CHECK(mapped() == before);
}

}  // namespace ccld::decision::server
