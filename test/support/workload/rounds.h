// How many rounds a job runs: rank 0 decides while it runs, the others wait for its word on the status board.
// Threads: one per process.
#pragma once

#include <cstdint>

#include "test/support/workload/options.h"
#include "test/support/workload/status_board.h"

namespace ccld::workload {

class Rounds {
 public:
  // Without options.seconds: `planned` rounds.
  Rounds(const Options& options, StatusBoard& board, uint64_t planned)
      : options_(options), board_(board), planned_(planned), begin_ns_(monotonic_ns()) {}

  // Whether this round is to be run; waits until that is known.
  bool released(uint64_t round);

  // The time of options.seconds begins again.
  void restart_time() { begin_ns_ = monotonic_ns(); }
  double seconds() const { return double(monotonic_ns() - begin_ns_) * 1e-9; }

 private:
  void wait_while_held(uint64_t round);
  bool no_more_is_released();

  const Options& options_;
  StatusBoard& board_;
  const uint64_t planned_;
  uint64_t begin_ns_;
};

}  // namespace ccld::workload
