// The queues of network devices: work requests (or bytes of sockets) handed to the device and completed by it, counted
// where they are posted and polled, in the NetRecords of the process file.
//
// Contract
//   A queue is registered once, when it is created, and found again without a search by whoever posts. Counting takes
//   no lock, allocates nothing and reads the clock once. A queue without a record (there are abi::nets_max) is nullptr,
//   which all functions accept, and counts in metric net_records_dropped. A closed queue frees its record. In flight is
//   posted - completed; unsignalled requests have no completion and add only their bytes. Of a completion with an error
//   the direction is the caller's guess, since devices do not say it; `errors` is certain.
//
// Threads: net_queue, net_queue_closed: any. net_posted, net_completed: the one thread that posts and polls on the
// queue.
//   NetTeller: one thread.
// (The paper leaves the network out; this is the work-request telemetry that others count on InfiniBand's verbs.)
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "probe/agent/sources.h"
#include "probe/probe.h"
#include "probe/process/process_file.h"

namespace ccld::probe {

// Bytes of the newest signalled sends, by their number: more than NCCL ever has in flight on one queue (256).
constexpr unsigned posted_sends_remembered = 512;

struct NetQueue {
  abi::NetRecord* record = nullptr;
  uint64_t send_bytes_until[posted_sends_remembered] = {};  // [n]: send_bytes_posted after signalled send n
};

// A set of records and the queues that use them; the process has one (net_queue() uses it).
class NetRecords {
 public:
  explicit NetRecords(ProcessFile& file) : file_(file) {}
  NetQueue* open(abi::NetKind, uint64_t queue, uint32_t number, int device, const char* device_name);
  void close(NetQueue*);

 private:
  ProcessFile& file_;
  std::unique_ptr<NetQueue> queues_[abi::nets_max];  // made when first used, then kept: a late poster never meets freed memory
};

// What a queue did within the last seconds: a sliding window over the newest collections.
class NetTeller final : public ProcessSource {
 public:
  explicit NetTeller(const ProcessFile& file) : file_(file) {}
  void collect(Instant now, std::vector<Message>* out) override;

 private:
  static constexpr unsigned window_looks = 4;
  struct Seen {
    uint64_t queue = 0;
    uint64_t movement = 0;  // sum of all counters at the last look
    uint64_t bytes[window_looks] = {};
    uint64_t at_ns[window_looks] = {};
    unsigned looks = 0;
  };
  const ProcessFile& file_;
  Seen seen_[abi::nets_max];
};

}  // namespace ccld::probe
