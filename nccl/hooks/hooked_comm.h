// What the hooks keep for one communicator. NCCL's communicator points to it (ncclComm::ccld); null: it is not watched.
#pragma once

#include <cstdint>
#include <string>

#include "probe/probe.h"

struct ncclProxyState;

struct ccld_comm {
  ccld::probe::Comm* probe = nullptr;
  uint32_t number = 0;               // of the process, from 1
  uint32_t watch = 0;                // names it to progress threads (WatchedComms); 0: its proxies are not seen
  uint64_t uid = 0;                  // CommUid, once it is ready
  std::string name;                  // that the user gave it; NCCL keeps no copy
  unsigned channel_count = 0;        // channels that the frame has room for
  bool allocated = false;            // the frame lies in memory that CUDA gave
  bool may_hold = false;             // calls may be asked to hold for a hardware test
  char* stream_line = nullptr;       // abi::StreamLine of the frame, as the GPU addresses it
  const ncclProxyState* proxy_state = nullptr;  // the progress thread that works for this communicator in this process

  // ---- user thread
  uint64_t current_op_seq = 0;       // of the API call that is being worked on; 0: no collective
  uint64_t current_call = 0;         // of the Send or Recv that is being worked on; 0: neither, or not recorded
  uint32_t stream_token = 0;         // newest launch whose begin the stream writes
  bool stream_writes_fail = false;   // CUDA refused one: no more is tried
};
