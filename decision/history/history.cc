#include "decision/history/history.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/history/revision.h"
#include "decision/report/bounded_json.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::history {

absl::StatusOr<std::unique_ptr<History>> History::open(const HistoryOptions& options, int64_t now_ms) {
  auto folder = StateFolder::open(options.folder);
  if (!folder.ok()) return folder.status();
  auto history = std::unique_ptr<History>(new History(options, *std::move(folder)));
  absl::Status status = history->open_store(now_ms);
  if (absl::IsResourceExhausted(status) && history->folder_.release_reserve()) status = history->open_store(now_ms);
  if (!status.ok()) return status;
  history->last_id_before_ = history->store_->last_id();
  const auto lines = history->store_->left_open();
  if (!lines.ok()) return lines.status();
  for (const std::string& line : *lines) {
    auto verdict = report::parse_bounded(line);
    if (verdict.ok() && is_verdict(*verdict)) history->left_open_.push_back(*std::move(verdict));
  }
  auto acknowledgements = history->store_->acknowledgements();
  if (!acknowledgements.ok()) return acknowledgements.status();
  history->acknowledgements_ = *std::move(acknowledgements);
  const absl::Status silences = history->store_->change([&](Database& db) {
    auto stored = take_silences(db, now_ms);
    if (stored.ok()) history->silences_ = *std::move(stored);
    return stored.status();
  });
  if (!silences.ok()) return silences;
  history->folder_.keep_reserve();
  return history;
}

absl::Status History::open_store(int64_t now_ms) {
  const std::string path = database_path(folder_.path());
  store_.reset();
  auto store = Store::open(path, options_.run);
  if (absl::IsDataLoss(store.status())) {
    const std::string why(store.status().message());
    const auto aside = folder_.set_aside(now_ms);
    if (!aside.ok()) return aside.status();
    spdlog::warn("history: {}; it is now '{}', and a new history begins", why, *aside);
    store = Store::open(path, options_.run);
  }
  if (!store.ok()) return store.status();
  // Verdicts name hosts and jobs: for the owner and the group.
  constexpr mode_t owner_and_group = 0640;
  chmod(path.c_str(), owner_and_group);
  store_ = *std::move(store);
  file_ = DatabaseFile(path);
  return absl::OkStatus();
}

absl::Status History::closed_if_damaged(absl::Status status) {
  if (absl::IsDataLoss(status)) store_.reset();
  return status;
}

absl::Status History::follow_folder(int64_t now_ms) {
  if (!folder_.is_replaced())
    return folder_.is_deleted() || is_database_deleted() ? put_back(now_ms) : absl::OkStatus();
  auto replacement = StateFolder::open(folder_.path());
  if (!replacement.ok()) return replacement.status();
  store_.reset();  // SQLite sees that its file has moved, and leaves the log of that name alone
  folder_ = *std::move(replacement);
  spdlog::warn("history: another folder has the place of '{}' now, and is used from here on", folder_.path());
  return open_store(now_ms);
}

bool History::is_database_deleted() const { return store_ != nullptr && file_.is_deleted(); }

// A deleted database can be read for as long as it is open.
absl::Status History::put_back(int64_t now_ms) {
  if (folder_.is_deleted()) {
    auto again = StateFolder::open(folder_.path());
    if (!again.ok()) return again.status();
    folder_ = *std::move(again);
  }
  if (is_database_deleted()) {
    absl::Status status = store_->copy_to(folder_.place_for_copy());
    if (status.ok()) status = folder_.take_copy();
    if (!status.ok()) return closed_if_damaged(std::move(status));
  }
  if (absl::Status s = open_store(now_ms); !s.ok()) return s;
  spdlog::warn("history: '{}' or a file in it was deleted; it is written again, with all that was stored",
               folder_.path());
  return absl::OkStatus();
}

absl::Status History::append(absl::Span<const Revision> revisions, int64_t now_ms, absl::Span<const OwnEntry> entries) {
  if (absl::Status s = follow_folder(now_ms); !s.ok()) return s;
  if (store_ == nullptr) {
    if (absl::Status s = open_store(now_ms); !s.ok()) return s;
  }
  absl::Status status = store_->append(revisions, entries);
  if (absl::IsResourceExhausted(status) && folder_.release_reserve()) {
    spdlog::warn("history: {}; the reserve of {} MiB is used up from here on", std::string(status.message()), reserve_bytes >> 20);
    status = store_->append(revisions, entries);
  }
  if (!absl::IsDataLoss(status)) return status;
  if (status = open_store(now_ms); !status.ok()) return status;
  return store_->append(revisions, entries);
}

absl::Status History::change(const std::function<absl::Status(Database&)>& change) {
  if (store_ == nullptr) return damaged();
  absl::Status status = store_->change(change);
  if (absl::IsResourceExhausted(status) && folder_.release_reserve()) status = store_->change(change);
  return closed_if_damaged(std::move(status));
}

absl::Status History::read(const std::function<absl::Status(Database&)>& read) {
  return store_ != nullptr ? closed_if_damaged(store_->read(read)) : damaged();
}

absl::Status History::damaged() const {
  return absl::UnavailableError(absl::StrCat("'", path(), "' is damaged and could not be replaced yet"));
}

absl::Status History::set_recording(uint64_t incident, const std::string& path) {
  return store_ != nullptr ? closed_if_damaged(store_->set_recording(incident, path)) : absl::OkStatus();
}

absl::Status History::maintain(int64_t now_ms) {
  if (store_ == nullptr) return open_store(now_ms);
  const auto removed = store_->trim(options_.limits, now_ms);
  if (!removed.ok()) return closed_if_damaged(removed.status());
  incidents_removed_ += *removed;
  const auto bytes = store_->bytes();
  if (!bytes.ok()) return closed_if_damaged(bytes.status());
  bytes_ = *bytes;
  folder_.keep_reserve();
  return absl::OkStatus();
}

absl::Status History::end_run(int64_t now_ms) { return store_ != nullptr ? store_->end_run(now_ms) : absl::OkStatus(); }

}  // namespace ccld::decision::history
