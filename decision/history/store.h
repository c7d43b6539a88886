// The writing side of the history: revisions of incidents, all or nothing.
//
// Contract
//   What append() has accepted survives a kill of the process and a loss of power (write-ahead log, synchronous=FULL). A
//   revision that is stored already is not stored again. The highest number is remembered also when its incident is removed.
// Units: milliseconds since 1970, bytes. Errors: as sqlite.h; FailedPrecondition: a newer version, or not ours.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "decision/history/log_position.h"
#include "decision/history/revision.h"
#include "decision/history/sqlite.h"
#include "decision/report/acknowledgement.h"

namespace ccld::decision::history {

struct Run {
  std::string id, version, host;
  int64_t pid = 0, started_ms = 0;
};

struct Limits {
  uint64_t bytes_max = 0;  // of the database, without its log of at most 4 MiB
  int64_t age_max_ms = 0;  // since the newest revision of a closed incident
};

// Those that are stored already stay as they are. An incident of the same number that another run gave is another one:
// it is removed, and counted in `removed`.
absl::Status put_revisions(Database&, absl::Span<const Revision>, uint64_t* removed = nullptr);
// The highest number ever given, also if no incident has it.
absl::Status raise_last_id(Database&, uint64_t id);

// An entry of the cluster's log that this node wrote itself.
struct OwnEntry {
  LogPosition at;
  uint64_t last_id = 0;  // as it says; 0: it says none
};

class Store {
 public:
  static absl::StatusOr<std::unique_ptr<Store>> open(const std::string& path, const Run&);

  uint64_t last_id() const { return last_id_; }  // 0: none yet
  // The newest lines of incidents that earlier runs left open.
  absl::StatusOr<std::vector<std::string>> left_open();

  // `entries`: those that say these revisions, in order; the history's position in the log goes on over them as far as
  // it has all before.
  absl::Status append(absl::Span<const Revision>, absl::Span<const OwnEntry> entries = {});
  // Also where the incident is not known (any more): then nothing happens.
  absl::Status set_recording(uint64_t incident, const std::string& path);
  // One transaction: what fails changes nothing.
  absl::Status change(const std::function<absl::Status(Database&)>&);
  absl::Status read(const std::function<absl::Status(Database&)>&);  // also where the disk is full or read-only
  absl::StatusOr<report::Acknowledgements> acknowledgements();  // of open incidents
  // This run has ended by itself.
  absl::Status end_run(int64_t now_ms);

  // Removes closed incidents that are too old, then, while the database is too large, the oldest closed ones of the job
  // that has the most revisions of such, so that a job of which much is found takes no room from others, then, if that
  // is not enough, the oldest revisions of open ones, but the newest. Returns how many incidents.
  absl::StatusOr<uint64_t> trim(const Limits&, int64_t now_ms);
  absl::StatusOr<uint64_t> bytes();  // in use
  absl::Status copy_to(const std::string& path);  // where no file is

 private:
  Store(std::unique_ptr<Database> database, std::string run) : database_(std::move(database)), run_(std::move(run)) {}
  absl::Status begin_run(const Run&);

  std::unique_ptr<Database> database_;
  std::string run_;
  uint64_t last_id_ = 0;
};

}  // namespace ccld::decision::history
