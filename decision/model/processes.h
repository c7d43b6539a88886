// The processes that send telemetry: when they were last heard, their clocks, and what their siblings say about them.
// (Paper, section 4.2: the analyzer groups metrics of all ranks; a rank that cannot speak is judged by its neighbours.)
//
// Contract: plain state, no clock of its own, not thread-safe. Pointers to ProcessModel stay valid until forget()
// returns them to nobody: a process with memberships is never forgotten.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "decision/model/departures.h"
#include "decision/model/events.h"
#include "decision/model/metric_table.h"
#include "decision/model/newest_batch.h"
#include "decision/model/owner.h"
#include "decision/model/run_delays.h"
#include "decision/settings.h"

namespace ccld::decision {

// CLOCK_MONOTONIC of a sender, expressed in the service's clock. The smallest difference seen is the one with the least
// delay; two generations of ten minutes let it follow a drifting clock.
// A clock that is suddenly further ahead than delay explains is not believed before it has said so five times in a row:
// it may be somebody else's who speaks for this process.
class ClockMap {
 public:
  // False: it is not believed, and nothing has changed.
  bool observe(uint64_t remote_ns, Nanoseconds now_ns);
  // Never later than `now_ns`.
  Nanoseconds to_local(uint64_t remote_ns, Nanoseconds now_ns) const;

 private:
  static constexpr Nanoseconds generation_ns = 600 * ns_per_s;
  // Of a queue that is read after a pause, each batch is a heartbeat or less younger than the one before.
  static constexpr Nanoseconds jump_ns_max = 3 * ns_per_s;
  static constexpr int believed_after = 5;
  bool known_ = false, has_previous_ = false;
  Nanoseconds started_ns_ = 0, current_ = 0, previous_ = 0;
  Nanoseconds jumped_to_ = 0;
  int jumps_ = 0;  // to there, in a row
};

// In which order the GPUs of a process ran kernels of which communicators: where it usually goes on.
class KernelLog {
 public:
  void add(CommUid comm, int device, uint64_t begin_ns);
  // Kernels are about to be added.
  void prefetch() const {
    if (kernels_.empty()) return;
    const size_t next = kernels_.size() < kept_max ? kernels_.size() : oldest_;
    for (size_t at = 0; at < 4; ++at)
      __builtin_prefetch(reinterpret_cast<const char*>(kernels_.data() + next) + 64 * at, 1);
  }
  // The communicators whose kernels ran on the device, in the order in which they began.
  std::vector<CommUid> order(int device) const;

 private:
  static constexpr size_t kept_max = 256;  // newest
  static constexpr size_t places_max = 255;
  // A process that has run so many will run many more: room for all at once leaves no smaller blocks behind.
  static constexpr size_t few = 16;
  // Five bytes: when it began in units of 256 ns, the lower 32 bits. That is less than 18 minutes before the newest one,
  // and no two kernels of a stream begin within one.
  static constexpr int unit_bits = 8;
  struct Kernel {
    uint8_t begin[4];
    uint8_t place;  // of places_
  };
  static_assert(sizeof(Kernel) == 5);
  struct Place {
    CommUid comm;
    int device;
    friend bool operator==(const Place&, const Place&) = default;
  };
  uint64_t begin(const Kernel&) const;
  uint64_t newest_begin_ = 0;  // in these units
  uint32_t oldest_ = 0;
  std::vector<Kernel> kernels_;  // a ring, once it is full
  std::vector<Place> places_;
};

// The queues of the newest report, a few dozen bytes each.
class NetQueueList {
 public:
  void assign(const std::vector<NetQueue>&);  // at most abi::nets_max
  operator std::vector<NetQueue>() const;

 private:
  std::string bytes_;
  std::string names_;  // of devices, one a line
};

// A machine, whatever its containers call it.
struct HostModel {
  Nanoseconds heard_ns = 0;                           // last batch of any of its processes
  std::optional<int64_t> realtime_less_monotonic_ns;  // of its clocks, when that was sent
  size_t processes = 0;
  std::vector<const struct ProcessModel*> members;  // these
};

// Letters of /proc/<pid>/stat, as siblings report them.
constexpr bool is_stopped(char state) { return state == 'T' || state == 't'; }
constexpr bool is_gone(char state) { return state == 'X' || state == 'Z'; }

struct ProcessModel {
  struct Membership {
    CommUid comm;
    Rank rank;
    bool ended = false;  // it has destroyed or aborted it
  };

  // What every look at all ranks needs comes first.
  HostModel* host = nullptr;
  Nanoseconds heard_ns = 0;  // last batch received
  // As siblings of the same machine report it; '?' while it speaks for itself.
  char state = '?';
  bool probe_stopped = false;  // by an operator, as the process itself said
  // The last that was heard of it is what became of a request: it may have been told to report elsewhere, or nowhere.
  bool may_have_left = false;
  Nanoseconds state_since_ns = 0;
  uint64_t sent_monotonic_ns = 0;  // the newest batch
  bool clock_is_doubtful = false;  // of the newest batch: its instants mean nothing
  bool waits = false;              // a batch of it, to be taken in (analysis/intake.h)
  ClockMap clock;

  ProcessId id;
  std::string job;
  NewestBatch newest;
  uint64_t batches = 0, distinct_batches = 0;  // of all images; of the newest one
  uint64_t recent_batches = 0;                 // bit i: newest.seq - i was received
  AgentHealth health;                          // without siblings
  KernelLog kernels;
  std::vector<Membership> memberships;
  // CUDA device of all communicators that were announced so far.
  static constexpr int gpu_unknown = -1, gpus_several = -2;
  int gpu = gpu_unknown;
  uint32_t comms_up = 0, comms_ended = 0;  // announced and not ended; ended, whether announced or not
  uint32_t sampled_every_us = 0;           // while something is in flight, as its probe says; 0: not known

  std::shared_ptr<const MetricTable> metrics;  // nullptr: none yet; replaced, never changed
  RunDelayHistory run_delays;                  // how long its threads waited for a processor
  ProcessorTurns turns;                        // and for each time that they got one
  ProxyAwayHistory proxies_away;               // empty: it does not tell
  uint64_t undelivered_batches = 0;            // as its probe says
  Nanoseconds threads_stopped_ns = 0;          // the last report that some of its threads were stopped; 0: none
  NetQueueList net_queues;                     // of the newest report
  Nanoseconds net_queues_ns = 0;
  std::unique_ptr<ControlState> control;  // newest answer to a request; few were ever asked

  uint64_t lost_batches() const { return newest.seq > distinct_batches ? newest.seq - distinct_batches : 0; }
  bool stopped() const { return is_stopped(state); }
  bool gone() const { return is_gone(state); }
  void prefetch() const {
    constexpr size_t lines = 4;
    for (size_t i = 0; i < lines; ++i) __builtin_prefetch(reinterpret_cast<const char*>(this) + 64 * i);
  }
  // It has ended all its communicators: that it says no more is what it should do.
  bool has_finished() const { return comms_ended > 0 && comms_up == 0; }
};

// What processes of one machine have in common: its boot id, or, where that is not known, the name of the host.
inline const std::string& machine_of(const ProcessId& id) { return id.boot_id.empty() ? id.host : id.boot_id; }

class ProcessTable {
 public:
  explicit ProcessTable(const Settings& settings) : settings_(settings) {}

  // nullptr: it is not known under this name.
  ProcessModel* find(const ProcessId& id) const {
    const auto it = by_pid_.find(Pid(id));
    return it != by_pid_.end() && (*it)->id.host == id.host ? *it : nullptr;
  }
  // Whom a batch is of; nullptr: the table is full.
  ProcessModel* sender(const Batch&);
  void heard(ProcessModel& sender, const Batch&, Nanoseconds now_ns);
  // Both.
  ProcessModel* heard(const Batch&, Nanoseconds now_ns);
  void health(ProcessModel& reporter, const AgentHealth&, Nanoseconds now_ns);
  // The process that the reporter speaks of, if it is known, another one, and stopped or gone; otherwise nullptr.
  ProcessModel* lost_sibling(const ProcessModel& reporter, const Sibling&) const;
  // Takes in one that the reporter says is stopped or gone, and that is not known: it could not speak any more when the
  // service began. nullptr: it is known, not lost, or there is no room.
  ProcessModel* take_in_lost(const ProcessModel& reporter, const Sibling&, Nanoseconds now_ns);
  Departures& departures() { return departures_; }
  const Departures& departures() const { return departures_; }
  Departures::Why why_left(const ProcessModel& p, Departures::Left left) const {
    return departures_.why(p, left, seconds_to_ns(settings_.losses_apart_s));
  }
  // Of the process that has this id, whatever it calls its host; nothing: it is not known.
  std::optional<Owner> owner_of(const ProcessId&) const;
  // Of the process that the reporter speaks of.
  std::optional<Owner> owner_of(const ProcessId& reporter, const Sibling&) const;
  static void metrics(ProcessModel& reporter, const Metrics&, Nanoseconds now_ns);
  static void net_queues(ProcessModel& reporter, const NetQueues&, Nanoseconds now_ns);
  static void control(ProcessModel& reporter, const ControlState&);

  // Silent: nothing from it for silent_s up to the newest telemetry of anybody. If all are silent, nobody is: then it
  // is the service that hears nothing.
  bool silent(const ProcessModel&) const;
  bool host_silent(const ProcessModel&) const;  // and so are all other processes of its host
  Nanoseconds newest_ns() const { return newest_ns_; }
  Nanoseconds silent_limit_ns() const { return seconds_to_ns(settings_.silent_s); }

  void forget(Nanoseconds now_ns);
  // There is no room for a process that is not known.
  bool has_no_room_for(const ProcessId& id) const {
    return processes_.size() >= settings_.processes_max && !by_pid_.contains(Pid(id));
  }
  // Of all processes of its machine together; those of the first hundred, which is more than a machine has GPUs.
  size_t memberships_of_machine(const ProcessId&) const;
  // At most `count` of those of no communicator, without those that are needed elsewhere: of the machine that has most,
  // the longest silent first. How many.
  size_t let_go_of_the_least_missed(size_t count, const absl::flat_hash_set<const ProcessModel*>& needed);
  // Those of no communicator that have been silent since then, without those that are needed elsewhere. How many.
  size_t let_go(Nanoseconds silent_since_ns, const absl::flat_hash_set<const ProcessModel*>& needed);
  // While not, processes that are not known are refused and counted.
  void admit_new(bool admit) { admits_new_ = admit; }
  uint64_t refused() const { return refused_; }  // batches
  const std::map<ProcessId, std::unique_ptr<ProcessModel>>& all() const { return processes_; }

 private:
  // A process by what its machine calls it: the host's name may not be known yet.
  struct Pid {
    std::string_view boot_id;
    uint32_t pid;
    uint32_t pid_namespace;
    uint64_t start_ticks;
    Pid(const ProcessId& id)
        : boot_id(id.boot_id), pid(id.pid), pid_namespace(id.pid_namespace), start_ticks(id.pid_start_ticks) {}
    // As `reporter` sees it.
    Pid(const ProcessId& reporter, const Sibling& s)
        : boot_id(reporter.boot_id),
          pid(s.pid),
          pid_namespace(reporter.pid_namespace),
          start_ticks(s.pid_start_ticks) {}
    Pid(const ProcessModel* p) : Pid(p->id) {}
    friend bool operator==(const Pid&, const Pid&) = default;
    template <class H>
    friend H AbslHashValue(H h, const Pid& p) {
      return H::combine(std::move(h), p.boot_id, p.pid, p.pid_namespace, p.start_ticks);
    }
  };
  struct PidHash {
    using is_transparent = void;
    size_t operator()(const Pid& p) const { return absl::HashOf(p); }
  };
  struct PidEqual {
    using is_transparent = void;
    bool operator()(const Pid& a, const Pid& b) const { return a == b; }
  };
  using Processes = std::map<ProcessId, std::unique_ptr<ProcessModel>>;
  void join(ProcessModel&);   // its host
  void leave(ProcessModel&);  // its host
  Processes::iterator erase(Processes::iterator);
  ProcessModel* known(const ProcessId&);
  ProcessModel* make(const ProcessId&);  // nullptr: there is no room
  std::optional<Owner> owner_of(const Pid&) const;
  ProcessModel* renamed(ProcessModel& like, const ProcessId&);

  const Settings& settings_;
  Processes processes_;
  absl::flat_hash_set<ProcessModel*, PidHash, PidEqual> by_pid_;
  std::map<std::string, HostModel> hosts_;  // by machine_of
  Nanoseconds newest_ns_ = 0;
  Departures departures_;
  bool admits_new_ = true;
  uint64_t refused_ = 0;
  Nanoseconds heard_since_ns_ = 0;  // all processes were heard then or later
};

}  // namespace ccld::decision
