#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <set>
#include <thread>

#include "nccl/cpu_device/engine/engine.h"
#include "test/unit/cpu_device/launch.h"
#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

namespace {

__thread char* static_part;
__thread char* dynamic_part;

void remember_shared_memory(void* static_shared, void* dynamic_shared) {
  static_part = static_cast<char*>(static_shared);
  dynamic_part = static_cast<char*>(dynamic_shared);
}

}  // namespace

TEST_CASE("Each block gets shared memory of its own below 4 GiB", "[engine]") {
  add_shared_memory_hook(remember_shared_memory);
  constexpr unsigned blocks = 6;
  char* parts[blocks];
  bool kept[blocks] = {};
  std::atomic<unsigned> arrived{0};
  run(
      {blocks, 1, 1}, {32, 1, 1},
      [&] {
        if (current_fiber->linear_index != 0) return;
        const unsigned mine = current_block_index.x;
        parts[mine] = static_part;
        static_part[0] = dynamic_part[0] = static_cast<char>(mine);
        ++arrived;
        while (arrived != blocks) poll_yield();
        kept[mine] = static_part[0] == static_cast<char>(mine) && dynamic_part[0] == static_cast<char>(mine);
      },
      1024);
  REQUIRE(std::set<char*>(parts, parts + blocks).size() == blocks);
  for (unsigned i = 0; i < blocks; ++i) {
    REQUIRE(reinterpret_cast<uintptr_t>(parts[i]) < (uint64_t{1} << 32));
    REQUIRE(kept[i]);
  }
}

TEST_CASE("Grids of several host threads run side by side", "[engine]") {
  std::atomic<int> inside{0};
  const auto meet = [&] {
    run(2, 32, [&] {
      if (current_fiber->linear_index != 0) return;
      ++inside;
      while (inside < 4) poll_yield();  // all blocks of both grids
    });
  };
  std::thread other(meet);
  meet();
  other.join();
  REQUIRE(inside == 4);
}

TEST_CASE("Many launches in a row reuse the same block threads", "[engine]") {
  std::set<std::thread::id> ids;
  for (int i = 0; i < 200; ++i) {
    run(1, 32, [&] {
      if (thread_index() == 0) ids.insert(std::this_thread::get_id());
    });
  }
  REQUIRE(ids.size() < 10);
}

SCENARIO_PROCESS(too_much_shared_memory) {
  run(
      {1, 1, 1}, {32, 1, 1}, [] {}, 1 << 20);
  return 0;
}

TEST_CASE("More shared memory than a block has is refused by name", "[engine]") {
  const ScenarioResult result = run_scenario("too_much_shared_memory");
  REQUIRE(result.signal == SIGABRT);
  REQUIRE(result.says("kernel body"));
  REQUIRE(result.says("shared memory"));
}
