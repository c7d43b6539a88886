// Keeps the service within --memory-max: healthy detail goes first, real faults are found on.
//
//   below let_go_from   nothing
//   from there on       free pages go back to the system; then the histories that people look at; then, look by look,
//                       a part of the communicators that are only claimed, and where there are none, of those that are
//                       silent or have nothing in flight, in the order of analysis/room.h. Meanwhile connections over
//                       which nothing comes are cut (ingest/connection_room.h)
//   from refuse_from    nobody new is taken in either, until it is below let_go_from again
//   from last_resort_from
//                       communicators with something in flight go, too, and at last those of open incidents: what is
//                       made up to look busy must not break the limit. Claims go more often then, all else no faster
//
// Not all memory is the analysis' own. Where a part of the communicators that are more than claims went and nothing was
// gained by it, the next part goes after twice the time.
//
// The thresholds leave room for a second snapshot of the status beside the one that is being read, and for answers of
// the query API.
// Resident memory is what counts, for that is what a control group is killed for.
//
// Contract: look() is quick while all is well: it may be called between any two messages. Each stretch of it is told
// once in the log when it begins, once a minute while it lasts, and when it ends. Threads: that of the analysis.
#pragma once

#include <cstdint>
#include <functional>

#include "decision/analyzer.h"
#include "decision/report/memory_status.h"

namespace ccld::decision::server {

class MemoryGuard {
 public:
  static constexpr double let_go_from = 0.7, refuse_from = 0.8, last_resort_from = 0.9;  // of the limit
  // Above this it looks more often than the service ticks: messages that stop in the middle wake nobody, and a fast
  // network brings 100 MB between two ticks. A fifth of the limit below let_go_from, so that a burst is seen before.
  static constexpr double watch_from = 0.5;
  // Of the communicators, in one look: small enough that what is let go of is not more than was needed, large enough
  // that a stranger who announces without end is outpaced.
  static constexpr double part_at_once = 1.0 / 16;
  // Resident memory, measured; and what makes the allocator give back free pages.
  struct System {
    std::function<uint64_t()> resident_bytes;
    std::function<void()> trim;
  };
  static System real_system();

  // `bytes_max`: 0: no limit, and nothing is done.
  explicit MemoryGuard(uint64_t bytes_max, System system = real_system());

  void look(Analyzer&, Nanoseconds now_ns);
  const report::MemoryStatus& status() const { return status_; }
  // When it wants to look again, though nothing has come; INT64_MAX: with the next tick.
  Nanoseconds look_again_ns() const { return next_watch_ns_; }
  // As of the newest look.
  bool is_short() const;
  bool at_last_resort() const;
  // How often it began to refuse who is new.
  uint64_t refusals() const { return refusals_; }

 private:
  void relieve(Analyzer&, Nanoseconds now_ns);
  void let_go(Analyzer&, Nanoseconds now_ns);
  void tell(const Analyzer&, Nanoseconds now_ns);

  System system_;
  report::MemoryStatus status_;
  Nanoseconds next_look_ns_ = 0, next_watch_ns_ = INT64_MAX, next_relief_ns_ = 0, next_told_ns_ = 0;
  Nanoseconds next_of_jobs_ns_ = 0, wait_of_jobs_ns_ = 0;  // for what is more than a claim
  uint64_t refusals_ = 0;
  bool strained_ = false, told_ = false;
};

}  // namespace ccld::decision::server
