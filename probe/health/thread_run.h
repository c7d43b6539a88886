// Whether a thread that is ready to run gets a processor, from one look to the next.
//
// The kernel counts a wait for a processor only when it ends (schedstat). Of one that lasts it tells that the thread is
// ready (state R) and has not run since the look before: then all the time in between was a wait, and counts at once.
//
// Contract: never fails; what cannot be read is not known. Two small reads a look, from files that stay open.
// Threads: one for each object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "probe/health/kernel_file.h"

namespace ccld::probe {

class ThreadRun {
 public:
  // Hardly to run: for less than a hundredth of the time, in one turn a second at most. Beside many others a thread
  // that only polls gets as small a part, in many turns, and gets on.
  static constexpr uint64_t hardly = 100, turn_ns_min = 1'000'000'000;

  // `schedstat` and `stat`: its files. False: the kernel does not count waits, or there is no such thread.
  bool open(const std::string& schedstat, const std::string& stat);
  bool is_open() const { return schedstat_.is_open(); }

  struct Look {
    uint64_t delay_ns;  // how long it has waited for a processor, with the wait that lasts; never falls
    uint64_t ran_ns;    // how long it has run
    uint64_t turns;     // how often it got a processor
    bool starved;       // since the look before it waited for most of the time, and hardly ran
  };
  // `elapsed_ns`: since the look before. nullopt: it has ended, or nothing is counted.
  std::optional<Look> look(uint64_t elapsed_ns);

 private:
  KernelFile schedstat_, stat_;
  std::string counters_;          // at the look before
  bool was_ready_ = false;        // then
  uint64_t processor_ticks_ = 0;  // then
  uint64_t lasting_ns_ = 0;       // of a wait that the kernel has not counted yet
  uint64_t told_ns_ = 0, told_ran_ns_ = 0, told_turns_ = 0;
};

// The first number of schedstat, and the third; 0: there is none.
uint64_t ran_ns(std::string_view schedstat);
uint64_t turns(std::string_view schedstat);
// The second one. nullopt: the kernel does not count.
std::optional<uint64_t> run_delay_ns(std::string_view schedstat);

// Of a stat file of /proc. The name of a task is in parentheses and may hold anything.
std::string_view task_name(std::string_view stat);
// From the state (field 3) on; empty: not known.
std::string_view fields_from_state(std::string_view stat);
// Field `number` of the documentation of /proc/<pid>/stat, 4 or more, of these.
std::optional<uint64_t> stat_field(std::string_view fields_from_state, unsigned number);
constexpr unsigned stat_user_ticks = 14, stat_system_ticks = 15;

}  // namespace ccld::probe
