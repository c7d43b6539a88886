// The order in which the warps of a block get to run: ascending, or random from a seed.
//
// Lanes of one warp always run in ascending order (LL128 relies on it); the order of warps is what a GPU leaves open,
// so tests shuffle it. The same seed, kernel and block give the same orders.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace ccld::cpu_device {

constexpr unsigned warps_max = 32;

class WarpOrder {
 public:
  // `launch` tells repeated launches of the same kernel apart.
  void reset(std::optional<uint64_t> seed, uint64_t launch, unsigned block_index, unsigned warps) {
    shuffled_ = seed.has_value();
    warps_ = warps;
    state_ = seed.value_or(0) * 0x9e3779b97f4a7c15u + launch * 0xd1b54a32d192ed03u + block_index + 1;
    for (unsigned i = 0; i < warps_max; ++i) order_[i] = i;
  }

  // The warps in the order to use now; valid until the next call.
  const unsigned* next() {
    if (shuffled_) {
      for (unsigned i = warps_; i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
    }
    return order_;
  }

  // Whether to let the woken ones go before everyone who waited longer.
  bool jump_the_queue() { return shuffled_ && (random() & 1) != 0; }

 private:
  uint64_t random() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  bool shuffled_ = false;
  unsigned warps_ = 0;
  uint64_t state_ = 0;
  unsigned order_[warps_max] = {};
};

}  // namespace ccld::cpu_device
