// Output of `ncclras -f json` (NCCL 2.28 and later): the communicators of a job as RAS threads see them at one moment,
// judged. Several files are several moments of one job: what has not moved between them stands.
//
// Rules
//   H1  a process that RAS holds for dead, or that does not answer; a rank that aborted; ranks that called fewer
//   collectives
//       than the others (confirmed where two moments show that nothing moved, else only suspected: hosts run ahead).
//   H2  ranks whose counts by kind of operation contradict each other: more of one, fewer of another.
//   H3  a rank that reports an error of its own (not one of its peers).
// Errors: DataLoss, with the place inside the document. Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "decision/import/findings.h"
#include "decision/import/thresholds.h"
#include "decision/import/value.h"

namespace ccld::decision::dumps {

struct RasRank {
  int rank = 0;
  std::string host;
  int64_t pid = 0;
  int cuda_device = -1;
  bool missing = false, unresponsive = false, dead = false;  // missing: RAS got no answer for it
  int init_state = 0, async_error = 0;                       // ncclResult_t
  bool finalized = false, aborted = false;
  std::map<std::string, int64_t> calls;  // by kind of operation
};
struct RasComm {
  std::string hash;  // "0x1234 (0x1:0x2)": NCCL's own is not unique
  uint64_t id = 0;
  int size = 0;
  std::vector<RasRank> ranks;
};
struct RasMoment {
  std::string time;      // as RAS writes it, without a zone
  int64_t seconds = 0;   // of it, for differences
  int64_t timeouts = 0;  // RAS threads that were not heard in time
  std::vector<RasComm> communicators;
};

bool is_ras(const Value& document);
absl::Status read_ras(const Value& document, RasMoment&);
// In any order; not empty.
Findings judge_ras(std::vector<RasMoment>, const Thresholds& = {});

}  // namespace ccld::decision::dumps
