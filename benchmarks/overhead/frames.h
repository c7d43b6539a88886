// Communicators of the probe without NCCL: what the hooks would call, on real mapped frames.
#pragma once

#include <cstdint>

#include "probe/probe.h"

namespace ccld::bench {

constexpr unsigned frame_channels = 4;

// A communicator of two ranks that is ready; `number` tells several of a process apart. nullptr when there is no room for it.
probe::Comm* make_communicator(uint64_t number);

// An all-reduce, from the call to the launch of its kernel. Returns the kernel's token.
inline uint32_t run_operation(probe::Comm* comm) {
  const uint64_t op_seq =
      probe::operation_entered(comm, {abi::Function::all_reduce, abi::Datatype::float32, abi::Reduction::sum, 0, -1, 256});
  const probe::Plan plan = probe::plan_begins(comm, false);
  probe::operation_planned(comm, op_seq, plan,
                           {abi::Algorithm::ring, abi::Protocol::ll, 1, 1, abi::signal_times | abi::signal_steps});
  probe::plan_launched(comm, plan, true);
  return plan.token;
}

}  // namespace ccld::bench
