#include "decision/validate/device/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace ccld::decision::validate {

LogFile::LogFile() {
  const char* wanted = getenv("NCCL_DEBUG");
  show_warnings_ = wanted != nullptr && *wanted != 0;
  show_all_ = show_warnings_ && std::string(wanted) != "WARN" && std::string(wanted) != "VERSION";
  const char* folder = getenv("TMPDIR");
  path_ = std::string(folder != nullptr && *folder != 0 ? folder : "/tmp") + "/ccld-validate-XXXXXX";
  const int made = mkstemp(path_.data());
  if (made < 0) {  // then NCCL's own orders are not known
    path_.clear();
    return;
  }
  close(made);
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_SUBSYS", "INIT,GRAPH,NET", 1);
  setenv("NCCL_DEBUG_FILE", path_.c_str(), 1);
}

LogFile::~LogFile() {
  if (file_ >= 0) close(file_);
  if (!path_.empty()) unlink(path_.c_str());
}

void LogFile::open() {
  if (path_.empty()) return;
  file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  unlink(path_.c_str());
  path_.clear();
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
