// The history of a running service: its state folder and its database, kept usable.
//
//   auto history = History::open(options, now_ms);        // or a status that says why there is none
//   history->append(revisions, now_ms);                    // stored, or kept by the caller and given again
//
// Contract
//   A damaged database is renamed aside, with one warning, and a new one begins, at the start as well as later. On a
//   full disk the reserve is given free. What append() refuses changes nothing. A database or folder that somebody
//   deletes is written again from the one that is still open, with one warning.
// Units: milliseconds since 1970. Errors: one line with the path. Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "decision/history/database_file.h"
#include "decision/history/silences.h"
#include "decision/history/state_folder.h"
#include "decision/history/store.h"

namespace ccld::decision::history {

struct HistoryOptions {
  std::string folder;
  Run run;
  Limits limits;
};

class History {
 public:
  static absl::StatusOr<std::unique_ptr<History>> open(const HistoryOptions&, int64_t now_ms);

  const std::string& folder() const { return folder_.path(); }
  std::string path() const { return database_path(folder_.path()); }
  // The highest number that an earlier run has given, and the incidents it left open, as they were at the start.
  uint64_t last_id_before() const { return last_id_before_; }
  const std::vector<report::Json>& left_open() const { return left_open_; }

  const report::Acknowledgements& acknowledgements() const { return acknowledgements_; }  // of those incidents, likewise

  const StoredSilences& silences() const { return silences_; }  // likewise

  // Goes on in another folder that has taken the place of ours, and puts back what was deleted.
  // `entries`: as Store::append.
  absl::Status append(absl::Span<const Revision>, int64_t now_ms, absl::Span<const OwnEntry> entries = {});
  // Something else, all or nothing.
  absl::Status change(const std::function<absl::Status(Database&)>&);
  absl::Status read(const std::function<absl::Status(Database&)>&);  // also where the disk is full or read-only
  absl::Status set_recording(uint64_t incident, const std::string& path);
  // Removes what is too old or too much, and takes the reserve again. To be called now and then.
  absl::Status maintain(int64_t now_ms);
  absl::Status end_run(int64_t now_ms);

  uint64_t incidents_removed() const { return incidents_removed_; }
  uint64_t bytes() const { return bytes_; }  // of the database in use, at the newest maintain()

 private:
  History(HistoryOptions options, StateFolder folder) : options_(std::move(options)), folder_(std::move(folder)) {}
  absl::Status open_store(int64_t now_ms);
  absl::Status follow_folder(int64_t now_ms);
  bool is_database_deleted() const;
  absl::Status put_back(int64_t now_ms);
  // The next append() or maintain() opens it anew, which sets it aside.
  absl::Status closed_if_damaged(absl::Status);
  absl::Status damaged() const;

  HistoryOptions options_;
  StateFolder folder_;
  std::unique_ptr<Store> store_;  // nullptr: a damaged one is not replaced yet
  DatabaseFile file_;             // of store_
  uint64_t last_id_before_ = 0;
  std::vector<report::Json> left_open_;
  report::Acknowledgements acknowledgements_;
  StoredSilences silences_;
  uint64_t incidents_removed_ = 0, bytes_ = 0;
};

}  // namespace ccld::decision::history
