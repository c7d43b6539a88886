#include "decision/validate/device/log_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace ccld::decision::validate {

LogFile::LogFile() {
  const char* wanted = getenv("NCCL_DEBUG");
  show_warnings_ = wanted != nullptr && *wanted != 0;
  show_all_ = show_warnings_ && std::string(wanted) != "WARN" && std::string(wanted) != "VERSION";
  file_ = memfd_create("nccl-log", MFD_CLOEXEC);
  if (file_ < 0) return;  // then NCCL's own orders are not known
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_SUBSYS", "INIT,GRAPH,NET", 1);
  // NCCL opens it a second time: what it has written is still to be read here.
  setenv("NCCL_DEBUG_FILE", ("/proc/self/fd/" + std::to_string(file_)).c_str(), 1);
}

LogFile::~LogFile() {
  if (file_ >= 0) close(file_);
}

const std::string& LogFile::text() {
  std::string added;
  char buffer[65536];
  for (ssize_t n = 0; file_ >= 0 && (n = read(file_, buffer, sizeof buffer)) > 0;)
    added.append(buffer, static_cast<size_t>(n));
  show(added);
  return text_ += added;
}

void LogFile::show(const std::string& added) {
  std::istringstream lines(added);
  for (std::string line; std::getline(lines, line);)
    if (show_all_ || (show_warnings_ && line.find("NCCL WARN ") != std::string::npos))
      std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace ccld::decision::validate
