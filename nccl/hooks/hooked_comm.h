// What the hooks keep for one communicator. NCCL's communicator points to it (ncclComm::ccld); null: it is not watched.
#pragma once

#include <cstdint>

#include "probe/probe.h"

struct ncclProxyState;

struct ccld_comm {
  ccld::probe::Comm* probe = nullptr;
  uint32_t number = 0;               // of the process, from 1
  unsigned channel_count = 0;        // channels that the frame has room for
  void* registered = nullptr;        // the frame, as registered with CUDA
  uint64_t current_op_seq = 0;       // of the API call that is being worked on; user thread
  uint64_t last_planned_op_seq = 0;  // spares planning an operation of many tasks many times; user thread
  uint32_t last_planned_token = 0;
  const ncclProxyState* proxy_state = nullptr;  // the progress thread that works for this communicator in this process
};
