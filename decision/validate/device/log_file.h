// NCCL's log of this process in memory, from before its first call on: what nccl_log.h reads.
//
// Contract
//   Sets NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE. Whoever has set NCCL_DEBUG sees on standard error what it
//   asks for all the same. Nothing is left behind, however the process ends. Threads: one.
#pragma once

#include <string>

namespace ccld::decision::validate {

class LogFile {
 public:
  LogFile();
  ~LogFile();
  LogFile(const LogFile&) = delete;

  // All of the log so far; shows what is new of it.
  const std::string& text();

 private:
  void show(const std::string& added);

  std::string text_;
  int file_ = -1;
  bool show_warnings_ = false, show_all_ = false;
};

}  // namespace ccld::decision::validate
