// The diagnostic thread's work, without the thread: samples all communicators of the process and tells the decision
// service. (Paper, section 5.2, figure 10: the diagnostic thread.)
//
// Contract
//   tick() does everything that is due and says when it wants to be called again. It never blocks on the service and
//   never throws away anything silently: a batch that the transport refuses is counted, and its number is missing in
//   the sequence that the service sees. What waits for a service that is not there counts as sent once it is, and as
//   dropped when it is given up. Now and then a batch asks the service what has come; what becomes of batches, and
//   whether the service is there at all, is counted and said (delivery.h, service_watch.h). A service at another
//   endpoint is told of everything anew, whoever changed it: an operator, or the transport that has several. detach()
//   reads the frame a last time; after it returns, the agent does not touch the communicator any more. What an operator
//   wishes (control.h), through the process file or the service, is judged field by field, applied, and answered.
//
// Threads: attach(), detach(), anything_new() and idle_at_ns(): any thread. The others: one thread. A lock is held
// while frames are read, never while something is sent.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "probe/agent/clock.h"
#include "probe/agent/comm_tracker.h"
#include "probe/agent/delivery.h"
#include "probe/agent/pace.h"
#include "probe/agent/service_watch.h"
#include "probe/agent/siblings.h"
#include "probe/agent/sources.h"
#include "probe/control/control.h"
#include "probe/counters/health.h"
#include "probe/frames/comm.h"
#include "probe/settings.h"
#include "probe/transport/encoder.h"
#include "probe/transport/transport.h"

namespace ccld::probe {

// A restarted service learns a communicator at most that late. A new one is told more often at first: if its first
// message was lost, nothing of this rank counts until the second.
constexpr uint64_t comm_up_repeat_ns_min = 4 * ns_per_s, comm_up_repeat_ns_max = 30 * ns_per_s;
// The folder of the frames is searched that often for new siblings soon after a communicator came, later less often.
constexpr uint64_t siblings_scan_ns_min = 2 * ns_per_s, siblings_scan_ns_max = 16 * ns_per_s;
// Their states are evidence while something is late; otherwise that many times less often.
constexpr uint64_t siblings_poll_factor_in_time = 4, siblings_poll_factor_at_rest = 10;
// Wishes of an operator are looked for at most that often.
constexpr uint64_t control_poll_ns = 200 * ns_per_ms;
// What readers of a frame see of the agent, while nothing happens on that communicator.
constexpr uint64_t publish_idle_ns = 20 * ns_per_ms;
// At rest every second heartbeat is left out, unless that would make them rarer than this: the service takes a process that
// says nothing for 5 s for silent.
constexpr uint64_t rest_heartbeat_ns = 2 * ns_per_s;
// A batch is sent when it has become that large, so that one message never grows without bound.
constexpr size_t batch_bytes_max = 256 * 1024;
// Of communicators that have ended since the last pass, two to four each. The thread makes a pass every 40 ms at least,
// unless the system keeps it, or it has ended: then they must not fill the memory of the job. Such messages are small,
// but for the rounds of communicators that ended with many unreported ones.
constexpr size_t outbox_messages_max = 4096;

class Agent {
 public:
  Agent(const Settings&, const Sender&, const Clock&);
  ~Agent();

  // Without a transport nothing is sent and nothing is counted as dropped.
  void set_transport(std::unique_ptr<Transport> transport);
  // Opens another endpoint when an operator asks for it; nullptr: it is not usable.
  using OpenTransport = std::function<std::unique_ptr<Transport>(const std::string& endpoint)>;
  void set_open_transport(OpenTransport open) { open_transport_ = std::move(open); }
  // Tests hardware while the job runs; without it such wishes of the service are refused.
  using Validate = std::function<void(const ValidationWish&)>;
  void set_validate(Validate validate) { validate_ = std::move(validate); }
  // When NCCL was last seen to have nothing to do on any communicator of the process; 0: it has, or nobody looks.
  uint64_t idle_at_ns() const { return idle_at_ns_.load(std::memory_order_acquire); }
  // Whether the process holds for a test, to be told with every snapshot.
  using Holds = bool (*)();
  void set_holds(Holds holds) { holds_ = holds; }

  // Both outlive the agent; `board` may be null.
  void set_board(ProcessBoard* board) { board_ = board; }
  void add_source(ProcessSource* source) { sources_.push_back(source); }

  void attach(Comm*);
  void detach(Comm*, abi::CommState end_state);

  // Returns the monotonic time at which the next call is due.
  uint64_t tick();
  // The thread may wait for the doorbell until then: nothing has been in flight for a while.
  bool resting() const { return resting_; }
  // Something has happened on a communicator since the last tick.
  bool anything_new();
  void count_wakeup() { ++health_.wakeups; }
  // The end of the process: says what is not said yet and removes the frames of communicators that were not ended.
  void close();

  const Health& health() const { return health_; }  // of the thread that calls tick()

 private:
  struct Attached;

  bool sends() const { return transport_ != nullptr && in_force_.running; }
  void sample_all(Instant now, bool beat, std::vector<Message>* out);
  void stand_by(Instant now, bool beat, std::vector<Message>* out);
  void report(Attached&, Instant now, bool beat, std::vector<Message>* out);
  void tell_lost(Attached&, Instant now, bool beat, std::vector<Message>* out);
  void refresh_state(Attached&);
  void look_at_files();
  CommUpMessage comm_up(Attached&) const;
  void detach_locked(Comm*, abi::CommState end_state, Instant now);
  bool watch_siblings(Instant now);  // true: one has just left
  void publish_health(std::vector<Message>* out);
  void poll_control(Instant now);
  void hear_service();
  ControlInForce apply(const ControlWish&, std::unique_ptr<Transport>* next_transport);
  void answer(const ControlInForce&);
  void send(const std::vector<Message>&);
  void send_batch();
  bool look_for_service(Instant now, bool process_ends = false);
  bool look_at_connection(Instant now, bool process_ends);
  void say(ServiceWatch::News);
  std::string meanwhile() const;
  // Those that have several show the one in use.
  const std::string& endpoint_in_use() const;
  ControlInForce shown(const ControlInForce&) const;
  void announce_again();
  void count_deliveries();
  void publish_service();
  void give_up_waiting();
  void skip_batches(uint64_t count);
  void change_transport(std::unique_ptr<Transport>);
  PaceOptions pace_options() const;
  uint64_t wait_ns(Instant now);
  uint64_t heartbeat_ns() const;

  const Settings& settings_;
  const Clock& clock_;

  std::mutex mutex_;
  Sender sender_;                                 // guarded by mutex_
  std::vector<std::unique_ptr<Attached>> comms_;  // guarded by mutex_
  std::vector<Message> outbox_;                   // guarded by mutex_: of detached communicators
  uint64_t outbox_refused_ = 0;                   // guarded by mutex_: communicators for which it had no room
  Health gone_;                                   // guarded by mutex_: what detached communicators have lost
  bool wakes_ = false;                            // guarded by mutex_: a communicator came or went since the last tick
  bool tells_ = false;                            // guarded by mutex_: somebody is to be told of rounds

  std::unique_ptr<Transport> transport_;
  ServiceWatch service_;
  DeliveryLedger deliveries_;
  uint64_t waiting_bytes_ = 0;  // of Health::waiting_batches
  uint64_t queues_lost_ = 0;    // of the transport, that are counted
  uint64_t moves_ = 0;          // of the transport, after which everything was announced again
  uint64_t announced_batch_ = 1;        // number of the first batch after the newest order to announce everything
  std::vector<std::string> endpoints_;  // of the transport
  size_t endpoint_ = 0;                 // the one in use
  std::string reached_endpoint_;        // the last one; empty: none yet
  // When the service was last there.
  uint64_t undelivered_when_there_ = 0, unconfirmed_when_there_ = 0;
  OpenTransport open_transport_;
  Validate validate_;
  Holds holds_ = [] { return false; };
  std::atomic<uint64_t> idle_at_ns_{0};
  ProcessBoard* board_ = nullptr;
  std::vector<ProcessSource*> sources_;
  std::unique_ptr<Siblings> siblings_;
  BatchEncoder encoder_;
  Sender batch_sender_;  // copy of sender_ for the current batch
  uint64_t batch_seq_ = 0;
  Health health_;
  Activity activity_;
  bool late_ = false;
  bool slowdown_told_ = false;
  bool file_gone_told_ = false;
  ControlInForce in_force_;
  uint64_t board_sequence_ = 0;  // of the control line, newest that was judged
  std::vector<uint8_t> received_;
  Pace pace_;
  bool resting_ = false;
  uint64_t wait_ns_ = 0;
  uint64_t due_ns_ = 0;
  uint64_t next_beat_ns_ = 0, next_poll_ns_ = 0, next_scan_ns_ = 0, next_control_ns_ = 0;
  uint64_t scan_ns_ = siblings_scan_ns_min;
};

}  // namespace ccld::probe
