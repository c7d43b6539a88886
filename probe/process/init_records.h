// Communicators that are being made: who came and how far, visible from outside (InitRecord) and on the wire
// (CommInit).
//
// Contract
//   An initialization is numbered from 1 within the process. It stands in the process file from init_entered() until 64 newer
//   ones have begun; of more than 64 at the same time the oldest are not seen any more. An initialization that never ends is
//   told with every heartbeat; one that failed is told once; one that became ready is not told: its communicator speaks
//   for itself.
//
// Threads: init_entered and init_reached (probe/probe.h), any thread, one thread for one initialization. InitTeller: one
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "probe/agent/sources.h"
#include "probe/process/process_file.h"

namespace ccld::probe {

struct Initialization {
  uint64_t comm_hash;
  int rank;
  int rank_count;
  int cuda_device;
};

// The work of init_entered and init_reached on a given file.
void init_record_enter(ProcessFile&, uint64_t number, const Initialization&, uint64_t now_ns);
void init_record_reach(ProcessFile&, uint64_t number, abi::InitStage, int result, uint32_t comm_number,
                       uint64_t now_ns);

class InitTeller final : public ProcessSource {
 public:
  explicit InitTeller(const ProcessFile& file) : file_(file) {}
  void collect(Instant now, std::vector<Message>* out) override;

 private:
  const ProcessFile& file_;
  uint64_t told_failure_[abi::inits_max] = {};  // number of the initialization whose failure was told
};

}  // namespace ccld::probe
