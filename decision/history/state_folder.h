// The folder in which a service keeps what outlives it:
//
//   history.db (-wal, -shm)        incidents with their revisions
//   history.db.damaged-<time>      what could not be read any more; the newest three
//   recordings/                    recordings of incidents
//   lock                           held while a service runs; the number of its process is in it
//   reserve                        room on the disk for what is found while the disk is full
//
// Contract: one service at a time; the lock goes with the process, however it ends. Folder and files can be read by the
// owner and the group.
// Errors: Unavailable, with the path: not writable, held by another service. Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace ccld::decision::history {

// A thousand revisions of an incident, twice: enough for days on a full disk.
constexpr uint64_t reserve_bytes = 8 << 20;

// $XDG_STATE_HOME/ccld, or ~/.local/state/ccld; /var/lib/ccld for root. Empty: there is no home.
std::string default_state_folder();

std::string database_path(const std::string& folder);
std::string recordings_path(const std::string& folder);
// The process that serves on the folder; nothing: none does.
std::optional<int64_t> holder_of(const std::string& folder);

class StateFolder {
 public:
  static absl::StatusOr<StateFolder> open(const std::string& path);  // made if it is not there
  StateFolder(StateFolder&& other) noexcept : path_(std::move(other.path_)), lock_fd_(std::exchange(other.lock_fd_, -1)) {}
  StateFolder& operator=(StateFolder&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_fd_, other.lock_fd_);
    return *this;
  }
  ~StateFolder();

  const std::string& path() const { return path_; }
  // Another folder has its name now: a disk that was repaired or replaced and mounted again. Where nothing is there
  // this is not so: what comes to lie there may come later.
  bool is_replaced() const;
  // The lock has been deleted, with or without the folder, not only moved away.
  bool is_deleted() const;
  // Takes the reserve, unless it is there or the disk has hardly more room than it needs.
  void keep_reserve();
  // Gives the room free. False: there was none.
  bool release_reserve();
  // Renames the database and its log; returns the new path.
  absl::StatusOr<std::string> set_aside(int64_t now_ms);
  // Where a copy of the database has to lie that is to take its place; what lies there is removed.
  std::string place_for_copy() const;
  // The copy takes the place of a database that has been deleted. What is left of that one's log goes; the folder of
  // recordings is there again, too.
  absl::Status take_copy();

 private:
  StateFolder(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::string path_;
  int lock_fd_;
};

}  // namespace ccld::decision::history
