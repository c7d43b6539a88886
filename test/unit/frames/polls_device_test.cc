// When a loop that polls shows its wait and looks at the abort flag (nccl/hooks/ccld_polls_device.h), compiled for the
// host, with a clock of the test's.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "probe/device/frame_writer_device.h"

namespace {

constexpr uint32_t ccld_wait_shown_after_us = 100, ccld_wait_shown_again_us = 4000;
constexpr int WARP_SIZE = 32;

uint64_t device_ns = 0;
uint32_t ccld_tick() { return ccld::device::tick_of(static_cast<uint32_t>(device_ns)); }

// No frame: what would be stored is not looked at here.
ccld::abi::DeviceChannel* ccld_channel() { return nullptr; }
struct {
  struct {
    void* ccld;
  } channel;
} ncclShmem;
size_t __cvta_generic_to_shared(const void*) { return 0; }

// PTX is for GPUs.
#define asm \
  if (false) asm
#define __device__ [[maybe_unused]]
#define __forceinline__ inline
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "nccl/hooks/ccld_polls_device.h"
#pragma GCC diagnostic pop
#undef __forceinline__
#undef __device__
#undef asm

constexpr uint64_t ns_per_us = 1000, ns_per_ms = 1000000;
constexpr unsigned polls_max =
    40000;  // of a wait until the abort flag is looked at; twice upstream's 10,000, and again

// A poll, as checkAbort() counts it. True: it looks at the abort flag.
bool polls(int* spins) {
  if (++*spins < ccld_polls_between_looks || ccld_polls_on(*spins, 0)) return false;
  *spins = 0;
  return true;
}

template <class Clock>
unsigned polls_until_abort_is_seen(Clock device_clock) {
  int spins = 0;
  for (unsigned poll = 1; poll <= polls_max; ++poll) {
    device_ns = device_clock(poll);
    if (polls(&spins)) return poll;
    if (spins < 0) break;  // it would look at nothing for two thousand million polls
  }
  return ~0u;
}

TEST_CASE("A wait shows itself after 0.1 ms, and the abort flag is looked at 4 ms later") {
  for (const uint64_t begin_ns : {uint64_t{0}, uint64_t{12345678901}, (uint64_t{1} << 32) - 2 * ns_per_ms}) {
    for (const uint64_t poll_ns : {350, 900, 2000}) {
      const unsigned poll = polls_until_abort_is_seen([&](unsigned n) { return begin_ns + n * poll_ns; });
      const uint64_t look_ns = ccld_polls_between_looks * poll_ns;
      CHECK(poll * poll_ns >= 4100 * ns_per_us);
      CHECK(poll * poll_ns <= 4100 * (uint64_t{1} << 10) + 3 * look_ns);
    }
  }
}

TEST_CASE("An abort is seen after a bounded number of polls, whatever the GPU's clock does") {
  constexpr uint32_t ticks = 1u << 22;
  for (uint32_t tick = 0; tick < ticks; tick += tick < 70000 || tick > ticks - 70000 ? 1 : 997) {
    const unsigned poll = polls_until_abort_is_seen([&](unsigned) { return uint64_t{tick} << 10; });
    if (poll > polls_max) FAIL("a clock that stands still at tick " << tick);
  }
  CHECK(polls_until_abort_is_seen([](unsigned n) { return n * 300 / ns_per_ms * ns_per_ms; }) <= polls_max);
  CHECK(polls_until_abort_is_seen([](unsigned n) { return n * 300 / (50 * ns_per_ms) * 50 * ns_per_ms; }) <= polls_max);
  CHECK(polls_until_abort_is_seen([](unsigned n) { return (uint64_t{1} << 40) - n * 300; }) <= polls_max);
}

TEST_CASE("A wait that nobody looked at for a while is due soon") {
  // The GPU runs another process meanwhile.
  for (const uint64_t away_ms : {5, 20, 30, 500, 2500}) {
    const unsigned poll = polls_until_abort_is_seen(
        [&](unsigned n) { return n * 400 + (n > 1000 ? away_ms * ns_per_ms : 0) + 77 * ns_per_ms; });
    CHECK(poll <= polls_max);
  }
}

TEST_CASE(
    "The endpoint's wait is shown with that of the warp, after 0.1 ms and then between two looks at the abort flag") {
  constexpr uint64_t poll_ns = 400, look_ns = ccld_polls_between_looks * poll_ns;
  int spins = 0;
  std::vector<uint64_t> shown_ns, looked_ns;
  for (device_ns = 0; device_ns < 30 * ns_per_ms; device_ns += poll_ns) {
    if (ccld_lane_is_due(spins)) shown_ns.push_back(device_ns);
    if (polls(&spins)) looked_ns.push_back(device_ns);
  }
  REQUIRE(shown_ns.size() >= 7);
  REQUIRE(looked_ns.size() + 1 >= shown_ns.size());
  for (size_t i = 0; i < shown_ns.size(); ++i) {
    const uint64_t begin_ns = i == 0 ? 0 : looked_ns[i - 1];
    CHECK(shown_ns[i] - begin_ns >= 100 * ns_per_us);
    CHECK(shown_ns[i] - begin_ns <= 100 * (uint64_t{1} << 10) + 3 * look_ns);
  }
}

}  // namespace
