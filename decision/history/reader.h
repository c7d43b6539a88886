// The reading side of the history: of a running service's database, and of one that nobody serves.
//
// Contract
//   Never changes the file, and never makes the service wait. Verdicts are as they were reported, with two more fields:
//   `recording`, the file of the incident's recording, null if there is none (any more), and `acknowledged`
//   (report/acknowledgement.h).
// Errors: NotFound: no such incident; FailedPrecondition: another version; DataLoss: damaged; else Unavailable. One line.
// Threads: one at a time; opening another one is cheap.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/history/filter.h"
#include "decision/history/sqlite.h"

namespace ccld::decision::history {

class HistoryReader {
 public:
  static absl::StatusOr<HistoryReader> open(const std::string& path);

  absl::StatusOr<Page> list(const Filter&);
  absl::StatusOr<report::Json> newest(uint64_t incident);
  absl::StatusOr<std::vector<report::Json>> revisions(uint64_t incident);  // first one first

 private:
  HistoryReader(std::unique_ptr<Database> database, int64_t version) : database_(std::move(database)), version_(version) {}
  // Columns that stand behind the verdict, and the tables they come from, to be joined to incidents by `id`.
  std::string columns() const;
  std::string joins() const;

  std::unique_ptr<Database> database_;
  int64_t version_;  // of its tables
};

}  // namespace ccld::decision::history
