// What the diagnostic thread tells beside communicators, and where it shows its own state: implemented by
// probe/process, probe/net and probe/health, used by probe/agent. Tests put their own behind it.
//
// Contract
//   Nothing here blocks, throws or fails: what cannot be read gives nothing. A source appends what is worth saying at
//   this moment; it is asked with every heartbeat (NCCL_PROBE_HEARTBEAT_MS) and a last time when the process ends,
//   and only while something is sent.
//
// Threads: the diagnostic thread. Other threads may feed a source; that is the source's business.
#pragma once

#include <cstdint>
#include <vector>

#include "probe/agent/clock.h"
#include "probe/control/control.h"
#include "probe/transport/messages.h"
#include "schemas/abi/metrics.h"

namespace ccld::probe {

class ProcessSource {
 public:
  virtual ~ProcessSource() = default;
  virtual void collect(Instant now, std::vector<Message>* out) = 0;
};

// The process file as the diagnostic thread uses it.
class ProcessBoard {
 public:
  virtual ~ProcessBoard() = default;
  // Own counters: the words of the process file with an id below abi::metrics_max.
  virtual void set_metric(abi::MetricId, uint64_t value) = 0;
  virtual uint64_t metric(abi::MetricId) const = 0;
  // The control line, if it holds a whole wish whose sequence is not `seen_sequence`.
  virtual bool read_control(uint64_t seen_sequence, ControlWish* out) const = 0;
  virtual void show_control(const ControlInForce&) = 0;
};

// Those of this process, alive until it ends. nullptr: there is none. Called when the diagnostic thread starts.
ProcessBoard* process_board();   // probe/process/process_file.cc
ProcessSource* init_source();    // probe/process: CommInitMessage
ProcessSource* net_source();     // probe/net: NetQueuesMessage
ProcessSource* health_source();  // probe/health: MetricsMessage of the process, its host, GPUs and ports

}  // namespace ccld::probe
