// Entries of the log by which the nodes of a cluster have the same history (cluster/README.md). The node that leads
// writes them, before it tells anybody; the others apply them to their own databases.
//
//   {"leads": {"node", "run", "last_id"}}                a node has begun to lead; numbers go on after that one
//   {"revisions": [verdict, ...]}                        of incidents, in order
//   {"operators": {"acknowledgements", "silences", "last_silence"}}   all that is in force
//   {"delivered": {"incident", "revision"}}              the webhook's receiver has it
//
// Units: milliseconds since 1970. Errors: as sqlite.h; InvalidArgument: no such entry. Threads: as the database.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "decision/history/log_position.h"
#include "decision/history/revision.h"
#include "decision/history/silences.h"
#include "decision/history/sqlite.h"
#include "decision/report/acknowledgement.h"

namespace ccld::decision::history {

report::Json leads_entry(const std::string& node, const std::string& run, uint64_t last_id);
report::Json revisions_entry(absl::Span<const Revision>);
report::Json operators_entry(const report::Acknowledgements&, const report::Silences&, uint64_t last_silence_id);
report::Json delivered_entry(uint64_t incident, uint64_t revision);

// What is there already stays as it is. Members that this version does not know mean nothing to it. `removed`: as
// put_revisions().
absl::Status apply_entry(Database&, const report::Json& entry, uint64_t* removed = nullptr);

// Where the history stands for a node that is to lead.
struct Standing {
  LogPosition log;
  uint64_t last_id = 0;                       // the highest number of an incident
  std::vector<report::Json> open;             // the newest revision of each open incident, by number
  report::Acknowledgements acknowledgements;  // of these
  StoredSilences silences;
};
absl::StatusOr<Standing> standing_of(Database&, int64_t now_ms);  // only reads

}  // namespace ccld::decision::history
