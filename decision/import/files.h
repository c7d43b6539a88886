// Which files there are, and what is in them.
// Errors: Unavailable, naming the file. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ccld::decision::dumps {

struct File {
  std::string path;
  bool named = false;  // by the user, not found in a folder
  uint64_t bytes = 0;
  int64_t written_ns = 0;  // of the calendar
};

// Files of folders in the order of their names. Links within folders are not followed; at most files_max.
absl::StatusOr<std::vector<File>> find_files(const std::vector<std::string>& paths);
// The first bytes, as many as are there up to `count`.
absl::StatusOr<std::string> read_start(const File&, size_t count);
// At most file_bytes_max.
absl::StatusOr<std::string> read_all(const File&);

}  // namespace ccld::decision::dumps
