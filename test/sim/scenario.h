// All that a seed stands for: layout, traffic, clocks, disturbances of the telemetry, and at most one fault.
#pragma once

#include <optional>

#include "test/sim/cluster/conditions.h"
#include "test/sim/cluster/layout.h"
#include "test/sim/cluster/traffic.h"
#include "test/sim/faults/planted.h"
#include "test/sim/telemetry/channel.h"

namespace ccld::sim {

struct Mute {  // the telemetry of a process is lost, while it goes on
  int process;
  Instant from, to;
};

struct Passing {  // a process that leaves or stands still, as its siblings see it
  int process;
  Instant at;
  char state;  // letter of /proc/<pid>/stat; 'X': gone
  bool seen;   // by siblings
};

// What becomes of a job that hangs: its processes leave, one after the other.
struct Ending {
  // Of a process that was killed: so many of those that are connected to it get an error, and leave so long after it.
  double share = 0;
  Nanoseconds error_ns = 0;
  // All others are ended so long after the hang was said, or was due.
  Nanoseconds ended_ns = 0;
  Nanoseconds spread_ns = 0;  // from the first to the last one, of both
};

struct Wishes {
  std::optional<int> ranks;            // at least so many
  std::optional<FaultKind> fault;
  bool slow = false;          // any fault that makes slow
  double mild = 0;            // of the slow faults, the share that makes iterations a little longer
  double from_start = 0;      // of the slow faults, the share that is there before the first iteration
  double nvls = 0;            // of the jobs with tensor groups within nodes, the share in which these reduce by NVLS
  double restart = 0;  // of the hangs and the healthy jobs, the share in which the service starts again meanwhile
  double ends = 0;     // of the hangs, the share in which the processes leave because of it
  double layers = 0;   // of the pipelines, the share whose stages have several layers, and whose ends compute more
  double pipeline_links = 0;  // of the S2 faults, the share on links and proxies that only Send and Recv use
};

struct Scenario {
  uint64_t seed = 0;
  LayoutSizes sizes;
  Traffic traffic;
  Conditions conditions;
  Disturbance disturbance;
  std::vector<Mute> mutes;
  std::vector<Passing> passings;
  std::optional<Ending> ending;
  Planted planted;
  Instant start = 0, end = 0;  // of the job; the longest that is simulated
  Instant earlier_start = -1, earlier_end = -1;  // another life of the same job, which was killed; -1: none
  double skew_ns = 0, drift = 0;
  Nanoseconds longest_wait_ns = 0;  // that is planned while an operation is in flight
  double iteration_s = 0;

  std::string summary() const;
};

Scenario draw(uint64_t seed, const Wishes&);

}  // namespace ccld::sim
