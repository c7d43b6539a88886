// Incidents that an earlier run of the service left open. A fault outlives a restart of the service; its incident should too.
// Pure. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decision/model/verdict.h"

namespace ccld::decision {

// Numbers of incidents that are told are below. A service that follows another one has numbers of its own from here on,
// so that a handle names one incident also after it leads.
constexpr uint64_t told_ids_end = uint64_t{1} << 48;

struct LeftOpen {
  uint64_t id = 0;
  std::string run;           // that gave the number
  uint32_t revision = 0;     // the newest one reported
  FaultClass fault = FaultClass::h1_not_entered;
  std::string job;
  CommUid comm;              // 0: one that is being initialized
  std::string comm_name;
  OpSeq op;                  // 0: none
  struct Victim {
    CommUid comm;
    OpSeq op;
  };
  std::vector<Victim> victims;  // further communicators that it stalled
  Nanoseconds onset_ns = 0, suspected_ns = 0;  // on the clock of this run, on which they may lie before 0; 0: not known
};

// Whether an incident that begins now is this one: the same kind of fault in the same job and communicator. Hangs and
// mismatches are at the same operation too; a class within its kind may have been corrected (H1 to H3, S1 to S3). A hang
// that stalls several communicators may be reported at another of them: a service that has just started does not know
// yet what each of them did before.
bool is_same_incident(const LeftOpen&, const Incident&);

}  // namespace ccld::decision
