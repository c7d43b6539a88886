// The diagnostic thread's work, without the thread: samples all communicators of the process and tells the decision
// service. (Paper, section 5.2, figure 10: the diagnostic thread.)
//
// Contract
//   tick() does everything that is due and says when it wants to be called again. It never blocks on the service and
//   never throws away anything silently: a batch that the transport refuses is counted, and its number is missing in
//   the sequence that the service sees. detach() reads the frame a last time; after it returns, the agent does not
//   touch the communicator any more.
//
// Threads: tick(), set_transport() and close(): one thread. attach() and detach(): any thread. A lock is held while
// frames are read, never while something is sent.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "probe/agent/clock.h"
#include "probe/agent/comm_tracker.h"
#include "probe/agent/siblings.h"
#include "probe/counters/health.h"
#include "probe/frames/comm.h"
#include "probe/settings.h"
#include "probe/transport/encoder.h"
#include "probe/transport/transport.h"

namespace ccld::probe {

// A restarted service learns a communicator at most that late.
constexpr uint64_t comm_up_repeat_ns = 30 * ns_per_s;
constexpr uint64_t siblings_scan_ns = 2 * ns_per_s;
// Samples of a process in which nothing has moved for a while: often enough to see every change of a wait.
constexpr uint64_t stuck_period_ns = 10 * ns_per_ms;
// A batch is sent when it has become that large, so that one message never grows without bound.
constexpr size_t batch_bytes_max = 256 * 1024;

class Agent {
 public:
  Agent(const Settings&, const Sender&, const Clock&);
  ~Agent();

  // Without a transport nothing is sent and nothing is counted as dropped.
  void set_transport(std::unique_ptr<Transport> transport);

  void attach(Comm*);
  void detach(Comm*, abi::CommState end_state);

  // Returns the monotonic time at which the next call is due.
  uint64_t tick();
  // The end of the process: says what is not said yet and removes the frames of communicators that were not ended.
  void close();

  const Health& health() const { return health_; }  // of the thread that calls tick()

 private:
  struct Attached;

  bool sends() const { return transport_ != nullptr; }
  void sample_all(Instant now, std::vector<Message>* out);
  void report(Attached&, Instant now, std::vector<Message>* out);
  CommUpMessage comm_up(Attached&) const;
  void detach_locked(Comm*, abi::CommState end_state, Instant now);
  void watch_siblings(Instant now);
  void send(const std::vector<Message>&);
  void send_batch();
  uint64_t period_ns(Instant now);

  const Settings& settings_;
  const Clock& clock_;

  std::mutex mutex_;
  Sender sender_;                                              // guarded by mutex_
  std::vector<std::unique_ptr<Attached>> comms_;               // guarded by mutex_
  std::vector<Message> outbox_;                                // guarded by mutex_: of detached communicators
  uint64_t lapped_of_detached_ = 0, dropped_of_detached_ = 0;  // guarded by mutex_
  bool wakes_ = false;  // guarded by mutex_: a communicator was attached since the last tick

  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Siblings> siblings_;
  BatchEncoder encoder_;
  Sender batch_sender_;  // copy of sender_ for the current batch
  uint64_t batch_seq_ = 0;
  Health health_;
  uint64_t period_ns_ = 0;
  uint64_t due_ns_ = 0;
  uint64_t next_health_ns_ = 0, next_poll_ns_ = 0, next_scan_ns_ = 0;
};

}  // namespace ccld::probe
