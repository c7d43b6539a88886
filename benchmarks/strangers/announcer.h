// Strangers who announce what does not exist: a batch at a time, each another process, of one of the kinds below.
// Well formed, so that all of it gets as far as the analysis. Equal seeds give equal telemetry.
// Threads: one.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "benchmarks/strangers/line.h"

namespace ccld::bench {

enum class Claim {
  communicators,    // one rank of a thousand each
  whole,            // communicators of two ranks that have both spoken
  at_work,          // and have an operation in flight, with all the details that fit
  ranks,            // one of 262,144 each, always another one
  processes,        // heartbeats
  initializations,  // of 100,000 ranks each
  names,            // of everything that has one, as long as they may be
  repeated,         // a process that is known, with other communicators each time
};
constexpr Claim claims[] = {Claim::communicators, Claim::whole,           Claim::at_work, Claim::ranks,
                            Claim::processes,     Claim::initializations, Claim::names,   Claim::repeated};
const char* name(Claim);

class Announcer {
 public:
  // `machines`: how many different ones the processes say they are on.
  Announcer(std::vector<Claim>, uint64_t machines, uint32_t seed);

  // The batches of the next claim.
  void next(Line&);
  uint64_t batches() const { return batches_; }

 private:
  probe::CommUpMessage comm_up(uint64_t comm, int rank, int rank_count);
  void at_work(uint64_t comm, int rank);
  std::string long_name();
  void send(Line&, uint64_t process);

  std::vector<Claim> claims_;
  const uint64_t machines_;
  std::mt19937_64 random_;
  probe::BatchEncoder encoder_;
  uint64_t claimed_ = 0, processes_ = 0, batches_ = 0;
};

}  // namespace ccld::bench
