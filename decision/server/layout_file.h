// The layout of a job as a JSON file: {"tp": 8, "pp": 4, "dp": 16, "ep": 8, "order": "tp-dp-pp"}. "tp", "pp" and "dp"
// default to 1, "ep" to none, "order" to "tp-dp-pp"; it becomes the settings layout_*.
// Errors: one line that names the file and the field. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ccld::decision::server {

// "layout_tp=8", ...
absl::StatusOr<std::vector<std::string>> read_layout_file(const std::string& path);
absl::StatusOr<std::vector<std::string>> parse_layout(const std::string& text, const std::string& path);

}  // namespace ccld::decision::server
