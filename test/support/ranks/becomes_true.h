// Waits for what other threads or processes do.
// Contract: false if it is not so when `timeout` is over.
#pragma once

#include <chrono>
#include <thread>

namespace ccld::ranks {

template <class Condition>
bool becomes_true(const Condition& condition, std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace ccld::ranks
