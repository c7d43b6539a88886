#include "nccl/cpu_device/cuda/device_heap.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <random>

using namespace ccld::cpu_device;

TEST_CASE("Pieces of a heap do not overlap, and freed room is used again", "[memory]") {
  DeviceHeap heap(0, 64 << 20);
  std::mt19937 random(1);
  std::map<char*, size_t> pieces;
  for (int step = 0; step < 3000; ++step) {
    if (pieces.size() < 20 || random() % 2 == 0) {
      const size_t bytes = 1 + random() % (1 << 20);
      char* piece = heap.allocate(bytes);
      if (piece == nullptr) {
        REQUIRE(heap.free_bytes() < bytes + 4096);
        continue;
      }
      const auto next = pieces.upper_bound(piece);
      if (next != pieces.end()) REQUIRE(piece + bytes <= next->first);
      if (next != pieces.begin()) REQUIRE(std::prev(next)->first + std::prev(next)->second <= piece);
      piece[0] = piece[bytes - 1] = 1;
      pieces[piece] = bytes;
    } else {
      auto victim = pieces.begin();
      std::advance(victim, random() % pieces.size());
      heap.free(victim->first, victim->second);
      pieces.erase(victim);
    }
  }
  for (const auto& [piece, bytes] : pieces) heap.free(piece, bytes);
  REQUIRE(heap.free_bytes() == heap.capacity_bytes());
  REQUIRE(heap.allocate(64 << 20) != nullptr);  // in one piece again
}

TEST_CASE("Memory that lives elsewhere counts", "[memory]") {
  DeviceHeap heap(0, 16 << 20);
  REQUIRE(heap.reserve_elsewhere(10 << 20));
  REQUIRE(heap.allocate(8 << 20) == nullptr);
  REQUIRE_FALSE(heap.reserve_elsewhere(8 << 20));
  heap.release_elsewhere(10 << 20);
  REQUIRE(heap.allocate(8 << 20) != nullptr);
}
