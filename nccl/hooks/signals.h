// What can be seen of an operation while it runs, by the way in which NCCL runs it (abi::Signal). The table of
// nccl/README.md says the same in words.
#pragma once

#include <cstdint>

#include "schemas/abi/frame.h"

namespace ccld::hooks {

constexpr uint8_t all_of_a_kernel = abi::signal_times | abi::signal_steps | abi::signal_waits;

// `device_sends_alone`: buffers are registered with the network, so that it may read and write them itself.
// `proxies`: the kernel has work for proxies.
constexpr uint8_t signals_of_collective(abi::Algorithm algorithm, bool device_sends_alone, bool proxies) {
  const uint8_t proxy = proxies ? abi::signal_proxy : 0;
  switch (algorithm) {
    case abi::Algorithm::ring:
    case abi::Algorithm::tree:
    case abi::Algorithm::pat: return all_of_a_kernel | proxy;
    // With registered buffers they tell the proxy directly what to do, without a primitive that counts.
    case abi::Algorithm::collnet_direct:
    case abi::Algorithm::collnet_chain:
    case abi::Algorithm::nvls:
    case abi::Algorithm::nvls_tree:
      return (device_sends_alone ? static_cast<uint8_t>(abi::signal_times) : all_of_a_kernel) | proxy;
    default: return abi::signal_times | proxy;
  }
}

// A copy from a rank to itself moves no steps.
constexpr uint8_t signals_of_point_to_point(bool to_itself, bool proxies) {
  if (to_itself) return abi::signal_times;
  return all_of_a_kernel | (proxies ? abi::signal_proxy : 0);
}

// A launch that runs no kernel of ours (symmetric kernels, copy engines). Only the stream could say when it begins and
// ends, by two writes that keep the kernel from overlapping with its neighbours: so only if the user asks for that
// (`wanted`, NCCL_PROBE_STREAM_WRITES). A write that a capture would refuse could spoil the capture, so it is not tried
// there.
constexpr uint8_t signals_of_stream(bool wanted, bool captured, bool can_write) {
  return wanted && !captured && can_write ? abi::signal_stream : 0;
}

}  // namespace ccld::hooks
