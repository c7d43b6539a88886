// The file of the database in use, by itself and not by its name: has it been deleted?
//
// Contract: never opens the file for reading or writing, because closing it would end the locks that SQLite holds in
// this process. A file that was renamed, or whose disk was taken away from its place, is not deleted; nor is one that
// cannot be looked at.
// Threads: one at a time.
#pragma once

#include <string>
#include <utility>

namespace ccld::decision::history {

class DatabaseFile {
 public:
  DatabaseFile() = default;  // none
  explicit DatabaseFile(const std::string& path);
  DatabaseFile(DatabaseFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  DatabaseFile& operator=(DatabaseFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~DatabaseFile();

  bool is_deleted() const;

 private:
  int fd_ = -1;
};

}  // namespace ccld::decision::history
