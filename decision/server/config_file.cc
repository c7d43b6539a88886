#include "decision/server/config_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ccld::decision::server {

absl::StatusOr<ConfigFile> parse_config(const std::string& text, const std::string& path, const std::vector<std::string>& known) {
  const auto refuse = [&path](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("config ", path, ": ", what));
  };
  std::vector<CLI::ConfigItem> items;
  try {
    std::istringstream stream(text);
    items = CLI::ConfigTOML().from_config(stream);
  } catch (const std::exception& e) {
    return refuse(e.what());
  }
  ConfigFile result;
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // CLI11's marks of where a section begins and ends
    const std::string section = item.parents.empty() ? "" : item.parents.front();
    if (item.parents.size() > 1 || (!section.empty() && section != "serve" && section != "settings")) {
      return refuse(absl::StrCat("section [", absl::StrJoin(item.parents, "."), "] is not known; known are [serve] and [settings]"));
    }
    if (section == "settings") {
      if (item.inputs.size() != 1) return refuse(absl::StrCat("setting ", item.name, " needs one value"));
      result.settings.push_back(absl::StrCat(item.name, "=", item.inputs.front()));
    } else if (item.name == "set") {
      result.settings.insert(result.settings.end(), item.inputs.begin(), item.inputs.end());
    } else if (std::find(known.begin(), known.end(), item.name) == known.end()) {
      return refuse(absl::StrCat("'", item.name, "' is not known; known are ", absl::StrJoin(known, ", "), ", set and [settings]"));
    } else if (item.inputs.size() != 1) {
      return refuse(absl::StrCat("'", item.name, "' needs one value"));
    } else if (!result.values.emplace(item.name, item.inputs.front()).second) {
      return refuse(absl::StrCat("'", item.name, "' is given twice"));
    }
  }
  return result;
}

absl::StatusOr<ConfigFile> read_config_file(const std::string& path, const std::vector<std::string>& known) {
  // A folder can be opened, but not read: the error shows only then.
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad() || errno == EISDIR) {
    return absl::InvalidArgumentError(absl::StrCat("config ", path, ": cannot be read: ", std::strerror(errno)));
  }
  return parse_config(text.str(), path, known);
}

}  // namespace ccld::decision::server
