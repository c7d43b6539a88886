// The incidents of a file of verdict lines, which may hold several runs of the service.
// Errors: Unavailable, with the file and the line that is no verdict. Threads: any.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision {

struct VerdictFile {
  struct Incident {
    std::string run;                    // "run 1 of the file", where lines do not name one
    std::vector<report::Json> lines;    // first one first
    const report::Json& newest() const { return lines.back(); }
  };
  std::vector<Incident> incidents;      // in order of first appearance
  std::vector<std::string> runs;        // likewise

  // All of that number, one for each run that gave it.
  std::vector<const Incident*> find(uint64_t id) const;
};

// An incident that was open when a later run began, and of which nothing was said since, gets the state "ended" in its
// newest line: the service that spoke of it is gone.
absl::StatusOr<VerdictFile> parse_verdict_file(std::istream&, const std::string& path);
absl::StatusOr<VerdictFile> read_verdict_file(const std::string& path);

}  // namespace ccld::decision
