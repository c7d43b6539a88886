// Files with keys and tokens: read whole, replaced whole. Errors: Unavailable, or NotFound, with the path and why.
// Threads: any.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ccld::decision::admission {

// A hundred thousand keys with names are 10 MB.
constexpr size_t list_bytes_max = size_t{64} << 20;

absl::StatusOr<std::string> read_file(const std::string& path, size_t bytes_max = list_bytes_max);
// Of a list: one that is not there is empty.
absl::StatusOr<std::string> read_file_if_any(const std::string& path);
// Of a pair of CURVE: the secret key in the file. `path` may be one that only its owner can read; it should be.
absl::StatusOr<std::string> read_secret_key(const std::string& path);
// A group that may read it is somebody's decision; everybody, and whoever may write, is not.
bool others_can_read(const std::string& path);

// A new file, readable by its owner alone. Errors: AlreadyExists.
absl::Status create_secret_file(const std::string& path, absl::string_view text);
// In the place of what is there: whoever reads sees the one or the other, whole. Rights stay; a new file has `mode`.
absl::Status replace_file(const std::string& path, absl::string_view text, unsigned mode = 0644);

}  // namespace ccld::decision::admission
