// Files that are read again when they change, without a restart.
//
// Contract
//   Every file is read once more soon after the start, for it may have changed between the first reading and that.
//   A file has changed when it is another one (renamed into place, a link that points elsewhere) or its size or time is
//   another. What cannot be read then is one line in the log, for each change; what was in force stays so.
// Threads: one of its own; `read_again` is called there. The destructor waits for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace ccld::decision::admission {

// Soon enough for whoever removes a key and looks; a few stat() a second are nothing.
constexpr std::chrono::milliseconds reload_period(1000);

struct WatchedFiles {
  std::string flag;                // for the log: "--http-tokens-file"
  std::vector<std::string> paths;  // that belong together
  std::function<absl::Status()> read_again;
};

class Reloader {
 public:
  explicit Reloader(std::vector<WatchedFiles>, std::chrono::milliseconds period = reload_period);
  ~Reloader();
  Reloader(const Reloader&) = delete;

 private:
  void run(std::chrono::milliseconds period);

  std::vector<WatchedFiles> files_;
  std::vector<std::string> seen_;  // marks of the paths, as they were read; empty: not yet
  std::mutex mutex_;
  std::condition_variable end_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace ccld::decision::admission
