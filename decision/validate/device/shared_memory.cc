#include "decision/validate/device/shared_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace ccld::decision::validate {

std::vector<std::string> nccl_files_in(const std::string& maps) {
  std::vector<std::string> files;
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    const size_t path = line.find("/dev/shm/nccl-");
    if (path == std::string::npos) continue;
    std::string file = line.substr(path);
    // One without a name is "/dev/shm/nccl-... (deleted)".
    if (file.find(' ') == std::string::npos && std::find(files.begin(), files.end(), file) == files.end())
      files.push_back(std::move(file));
  }
  return files;
}

void unlink_nccl_files() {
  std::ifstream maps("/proc/self/maps");
  for (const std::string& file : nccl_files_in({std::istreambuf_iterator<char>(maps), {}})) unlink(file.c_str());
}

}  // namespace ccld::decision::validate
