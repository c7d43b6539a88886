// NCCL's log of this process in a file of our own, from before its first call on: what nccl_log.h reads.
//
// Contract
//   Sets NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE. Whoever has set NCCL_DEBUG sees on standard error what it
//   asks for all the same. The file has no name any more once open() was called. Threads: one.
#pragma once

#include <string>

namespace ccld::decision::validate {

class LogFile {
 public:
  LogFile();
  ~LogFile();
  LogFile(const LogFile&) = delete;

  // NCCL has opened its file: the name may go. Later calls do nothing.
  void open();
  // All of the log so far; shows what is new of it.
  const std::string& text();

 private:
  void show(const std::string& added);

  std::string path_, text_;
  int file_ = -1;
  bool show_warnings_ = false, show_all_ = false;
};

}  // namespace ccld::decision::validate
