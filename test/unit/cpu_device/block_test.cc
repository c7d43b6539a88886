#include "nccl/cpu_device/engine/block.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "test/unit/cpu_device/launch.h"
#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

TEST_CASE("Nobody leaves a block barrier before everybody arrived", "[engine]") {
  constexpr unsigned threads = 256;
  std::vector<int> value(threads), seen(threads);
  run(1, threads, [&] {
    const unsigned i = thread_index();
    for (int round = 1; round <= 20; ++round) {
      value[i] = round;
      barrier(0, 0);
      if (value[(i + 37) % threads] != round) seen[i] = -1;
      barrier(0, 0);
    }
  });
  REQUIRE(seen == std::vector<int>(threads, 0));
}

TEST_CASE("A partial barrier holds only the threads that enter it", "[engine]") {
  std::vector<unsigned> order;
  run(1, 128, [&] {
    const unsigned i = thread_index();
    if (i < 64) {
      barrier(1, 64);
      if (i == 0) order.push_back(1);
    } else {
      barrier(2, 64);
      if (i == 64) order.push_back(2);
    }
  });
  REQUIRE(order.size() == 2);
}

TEST_CASE("Two partial barriers with the same id in a row do not mix", "[engine]") {
  std::vector<int> count(3);
  run(1, 96, [&] {
    for (int round = 0; round < 3; ++round) {
      ++count[round];
      barrier(5, 96);
      if (count[round] != 96) count[round] = -1000;
      barrier(5, 96);
    }
  });
  REQUIRE(count == std::vector<int>(3, 96));
}

TEST_CASE("A reducing barrier tells every thread whether any voted", "[engine]") {
  std::vector<unsigned> with_vote(64), without_vote(64);
  run(1, 64, [&] {
    const unsigned i = thread_index();
    with_vote[i] = barrier_or(1, 64, i == 17);
    without_vote[i] = barrier_or(1, 64, 0);
  });
  REQUIRE(with_vote == std::vector<unsigned>(64, 1));
  REQUIRE(without_vote == std::vector<unsigned>(64, 0));
}

TEST_CASE("A warp exchange hands every lane the values of all lanes", "[engine]") {
  std::vector<uint64_t> sums(64);
  run(1, 64, [&] {
    Rendezvous* exchange = warp_exchange(0xffffffffu, current_fiber->linear_index);
    uint64_t sum = 0;
    for (uint64_t value : exchange->value) sum += value;
    sums[current_fiber->linear_index] = sum;
    release_rendezvous(exchange);
  });
  for (unsigned i = 0; i < 64; ++i) REQUIRE(sums[i] == (i < 32 ? 496u : 1520u));
}

TEST_CASE("Exchanges of disjoint lanes are independent", "[engine]") {
  std::vector<uint64_t> other(32);
  run(1, 32, [&] {
    const unsigned lane = current_fiber->lane;
    const unsigned pair = lane & ~1u;
    for (int round = 0; round < 10; ++round) {
      Rendezvous* exchange = warp_exchange(3u << pair, lane + 100u * round);
      other[lane] = exchange->value[lane ^ 1];
      release_rendezvous(exchange);
    }
  });
  for (unsigned lane = 0; lane < 32; ++lane) REQUIRE(other[lane] == (lane ^ 1) + 900);
}

TEST_CASE("Lanes resume in ascending order after a rendezvous", "[engine]") {
  std::vector<unsigned> order;
  run(1, 32, [&] {
    // Arrive in descending order.
    for (unsigned turn = 31 - current_fiber->lane; turn > 0; --turn) poll_yield();
    release_rendezvous(warp_exchange(0xffffffffu, 0));
    order.push_back(current_fiber->lane);
  });
  std::vector<unsigned> ascending;
  for (unsigned lane = 0; lane < 32; ++lane) ascending.push_back(lane);
  REQUIRE(order == ascending);
}

TEST_CASE("An exchange does not wait for lanes that returned, before or after it began", "[engine]") {
  std::vector<uint32_t> masks(32);
  run(1, 32, [&] {
    const unsigned lane = current_fiber->lane;
    if (lane == 3) return;  // before
    if (lane == 7) {        // after most lanes wait
      for (int i = 0; i < 5; ++i) poll_yield();
      return;
    }
    Rendezvous* exchange = warp_exchange(0xffffffffu, 0);
    masks[lane] = exchange->mask;
    release_rendezvous(exchange);
  });
  REQUIRE(masks[0] == (0xffffffffu & ~(1u << 3) & ~(1u << 7)));
  REQUIRE(masks[31] == masks[0]);
}

TEST_CASE("A polling thread lets the thread it waits for run", "[engine]") {
  volatile int flag = 0;
  bool seen = false;
  run(1, 2, [&] {
    if (thread_index() == 0) {
      for (int spins = 0; flag == 0; ++spins) poll_again(spins);
      seen = true;
    } else {
      flag = 1;
    }
  });
  REQUIRE(seen);
}

TEST_CASE("poll_again asks for a look at the abort flag after the configured number of polls", "[engine]") {
  int polls = 0;
  run(1, 1, [&] {
    while (poll_again(polls)) ++polls;
  });
  REQUIRE(polls == 64);
}

TEST_CASE(
    "What device code keeps about a polling loop stays over looks at the abort flag, and is gone in the next loop",
    "[engine]") {
  run(1, 1, [&] {
    for (int polls = 2; polls < 10; ++polls) poll_again(polls);
    REQUIRE_FALSE(poll_wait().known);
    poll_wait() = {true, 7, 8};
    for (int polls = 10; poll_again(polls);) ++polls;
    for (int polls = 2; polls < 10; ++polls) poll_again(polls);
    REQUIRE((poll_wait().known && poll_wait().warp_shown_at == 7));
    poll_again(2);
    REQUIRE_FALSE(poll_wait().known);
  });
}

TEST_CASE("Blocks may wait for each other", "[engine]") {
  constexpr unsigned blocks = 8;
  std::vector<std::atomic<int>> token(blocks);
  token[0] = 1;
  run(blocks, 32, [&] {
    const unsigned mine = current_block_index.x;
    if (current_fiber->linear_index == 0) {
      for (int spins = 0; token[mine] == 0; ++spins) poll_again(spins);
      token[(mine + 1) % blocks] = 1;
    }
    barrier(0, 0);
  });
  for (const auto& t : token) REQUIRE(t == 1);
}

TEST_CASE("Thread and block indices unfold over all three dimensions", "[engine]") {
  std::vector<int> seen(2 * 3 * 2 * 4 * 2 * 3);
  run({2, 3, 2}, {4, 2, 3}, [&] {
    const Dim3 b = current_block_index, t = current_fiber->thread_index;
    const unsigned block = b.x + 2 * (b.y + 3 * b.z), thread = t.x + 4 * (t.y + 2 * t.z);
    if (current_fiber->linear_index == thread) ++seen[block * 24 + thread];
  });
  REQUIRE(seen == std::vector<int>(seen.size(), 1));
}

// ---- what cannot go on ends the process with one line

SCENARIO_PROCESS(barrier_that_cannot_complete) {
  run(1, 128, [] {
    if (thread_index() < 40)
      barrier(0, 0);
    else
      barrier(3, 128);
  });
  return 0;
}

SCENARIO_PROCESS(thread_returns_instead_of_arriving) {
  run(1, 64, [] {
    if (thread_index() != 5) barrier(0, 0);
  });
  return 0;
}

SCENARIO_PROCESS(barrier_with_two_counts) {
  run(1, 64, [] { barrier(1, thread_index() < 32 ? 64 : 32); });
  return 0;
}

SCENARIO_PROCESS(lane_outside_its_mask) {
  run(1, 32, [] { warp_exchange(1u, 0); });
  return 0;
}

SCENARIO_PROCESS(device_trap) {
  run(1, 32, [] { trap("no such instruction"); });
  return 0;
}

TEST_CASE("A deadlock ends the process and says where the threads wait", "[engine]") {
  const ScenarioResult mixed = run_scenario("barrier_that_cannot_complete");
  REQUIRE(mixed.signal == SIGABRT);
  REQUIRE(mixed.says("ccld-cpu-device:"));
  REQUIRE(mixed.says("deadlock"));
  REQUIRE(mixed.says("barrier 0: 40 of 128"));
  REQUIRE(mixed.says("barrier 3: 88 of 128"));
  const ScenarioResult returned = run_scenario("thread_returns_instead_of_arriving");
  REQUIRE(returned.signal == SIGABRT);
  REQUIRE(returned.says("barrier 0: 63 of 64"));
  REQUIRE(returned.says("63 of 64 threads alive"));
}

TEST_CASE("Misused barriers, masks and traps end the process and name the mistake", "[engine]") {
  const ScenarioResult counts = run_scenario("barrier_with_two_counts");
  REQUIRE(counts.signal == SIGABRT);
  REQUIRE(counts.says("barrier 1 entered for 64 and for 32 threads"));
  const ScenarioResult mask = run_scenario("lane_outside_its_mask");
  REQUIRE(mask.signal == SIGABRT);
  REQUIRE(mask.says("lane 1 takes part in an exchange of lanes 0x00000001"));
  const ScenarioResult trapped = run_scenario("device_trap");
  REQUIRE(trapped.signal == SIGABRT);
  REQUIRE(trapped.says("trap: no such instruction"));
}

// ---- the order of warps

namespace {

std::string warp_order_text() {
  std::string text;
  run(1, 256, [&] {
    if (current_fiber->lane == 0) text += static_cast<char>('a' + current_fiber->warp);
    barrier(0, 0);
    if (current_fiber->lane == 0) text += static_cast<char>('A' + current_fiber->warp);
    barrier(0, 0);
  });
  return text;
}

}  // namespace

SCENARIO_PROCESS(print_warp_order) {
  fputs(warp_order_text().c_str(), stderr);
  return 0;
}

TEST_CASE("Without a seed warps run in ascending order", "[engine]") {
  REQUIRE(run_scenario("print_warp_order").errors == "abcdefghABCDEFGH");
}

TEST_CASE("A seed shuffles the warps, and the same seed in the same way", "[engine]") {
  const Environment seven = {{"CCLD_CPU_DEVICE_ORDER_SEED", "7"}}, eight = {{"CCLD_CPU_DEVICE_ORDER_SEED", "8"}};
  const std::string first = run_scenario("print_warp_order", seven).errors;
  REQUIRE(first.size() == 16);
  REQUIRE(first != "abcdefghABCDEFGH");
  REQUIRE(first == run_scenario("print_warp_order", seven).errors);
  REQUIRE(first != run_scenario("print_warp_order", eight).errors);
}

SCENARIO_PROCESS(lanes_ascend_under_a_seed) {
  for (int launch = 0; launch < 20; ++launch) {
    std::vector<unsigned> last(8, 0);
    bool ascending = true;
    run(1, 256, [&] {
      for (int round = 0; round < 10; ++round) {
        release_rendezvous(warp_exchange(0xffffffffu, 0));
        const unsigned lane = current_fiber->lane, warp = current_fiber->warp;
        if (last[warp] != lane) ascending = false;
        last[warp] = (lane + 1) % 32;
        if (round % 3 == 0) barrier(0, 0);
      }
    });
    if (!ascending) return 1;
  }
  return 0;
}

TEST_CASE("Lanes of one warp stay in ascending order under every seed", "[engine]") {
  for (const char* seed : {"0", "1", "12345", "18446744073709551615"}) {
    REQUIRE(run_scenario("lanes_ascend_under_a_seed", {{"CCLD_CPU_DEVICE_ORDER_SEED", seed}}).exit_code == 0);
  }
}
