// The service's config file: TOML or INI, as CLI11 reads it.
//
//   listen = "tcp://127.0.0.1:5566"     # the names of the flags of `ccld serve`
//   rules = "default"
//   [settings]                          # or: set = ["hang_confirm_s=60"]
//   hang_confirm_s = 60
//
// Flags go before the file, --set is applied after [settings].
// Errors: one line that names the file and the key. Threads: any.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ccld::decision::server {

struct ConfigFile {
  std::map<std::string, std::string> values;  // by name of the flag, without dashes
  std::vector<std::string> settings;          // "name=value", in order
};

// `known`: the flags that may be given in the file.
absl::StatusOr<ConfigFile> read_config_file(const std::string& path, const std::vector<std::string>& known);
absl::StatusOr<ConfigFile> parse_config(const std::string& text, const std::string& path, const std::vector<std::string>& known);

}  // namespace ccld::decision::server
