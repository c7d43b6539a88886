#include "decision/server/heap.h"

#include <malloc.h>

#include <catch2/catch.hpp>
#include <cstdlib>

namespace ccld::decision::server {

TEST_CASE("A large block goes back to the system when it is freed, also after a larger one was") {
  if (mallinfo2().uordblks == 0) return;  // a sanitizer's heap
  keep_large_blocks_apart();
  const auto mapped = [] { return mallinfo2().hblkhd; };
  const size_t before = mapped();
  // By default this one teaches glibc to take the next one from the heap.
  void* volatile block = malloc(size_t{24} << 20);
  free(block);
  block = malloc(size_t{20} << 20);
  CHECK(mapped() >= before + (size_t{20} << 20));
  free(block);
  CHECK(mapped() == before);
}

}  // namespace ccld::decision::server
