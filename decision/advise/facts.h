// What advice is made of: what an incident says, and what only who runs the job knows.
// Contract: plain values. Times in nanoseconds as doubles: they are estimates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decision/model/layout.h"

namespace ccld::decision::advise {

// What is at fault, as far as it decides what helps.
enum class Fault {
  compute,  // a slow GPU, or a host that makes its process late: it is late with every micro-batch
  link,     // between two processes
  machine,  // NIC, proxy, or hardware that stopped: gone with its host
  process,  // stopped, gone or silent: nothing says that its host is bad
  program,  // other calls, or none: it goes where the program goes
  unknown
};

struct Suspect {
  Fault fault = Fault::unknown;
  bool perhaps_program = false;                   // its host is late: by itself, or by what the program does there
  std::optional<uint64_t> process, peer_process;  // numbers in the job
  std::string host, peer_host;                    // empty: not known
  double share = 0;                               // of what the job loses, 0..1
};

struct Facts {
  enum class Kind { hang, mismatch, slow };
  Kind kind = Kind::slow;
  bool goes_on = true;  // iterations end
  bool confirmed = false;
  double confirmed_after = 0;   // since the onset; 0: not yet
  bool of_iteration = false;    // now and without are those of one iteration; else of the operations that were compared
  double now = 0, without = 0;  // 0: not known
  double usual = 0;             // what an iteration took before, where that is less than now; 0: not known
  std::vector<Suspect> suspects;  // the greatest share first; empty: nobody is singled out
};

// Times that the job loses. Defaults and their reasons: known_settings.cc.
struct Costs {
  double micro_batches = 10e9, placement = 60e9, checkpoint = 300e9, restart = 600e9;
  double lost_work = 0;  // since the newest checkpoint, of a job that cannot make one; 0: not known
};

struct Known {
  Layout layout;
  uint64_t micro_batches = 0;   // of an iteration, of all replicas; 0: not known
  double micro_batch_part = 0;  // of a healthy iteration; 0: not known
  Costs costs;
};

}  // namespace ccld::decision::advise
