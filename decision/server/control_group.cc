#include "decision/server/control_group.h"

#include <fstream>

#include "absl/strings/match.h"

namespace ccld::decision::server {

std::vector<std::string> control_group_lines(const std::string& file, const std::string& proc,
                                             const std::string& cgroup) {
  std::string path;
  std::ifstream groups(proc + "/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    if (absl::StartsWith(line, "0::")) path = line.substr(3);
  std::vector<std::string> lines;
  for (;;) {
    std::ifstream of_group(cgroup + path + "/" + file);
    if (std::string line; std::getline(of_group, line)) lines.push_back(line);
    const size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return lines;
    path.resize(slash);
  }
}

}  // namespace ccld::decision::server
