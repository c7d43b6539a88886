// Watches the control file named by CCLD_CPU_DEVICE_CONTROL and plants what it says.
//
// Contract
//   One thread reads the file every 10 ms, only when the variable is set. A text takes effect once two readings in a
//   row saw it, so that a file caught in the middle of being rewritten changes nothing. No file means no faults.
//
// Errors
//   Each bad line is reported once on stderr and ignored.
#pragma once

#include <set>
#include <string>

namespace ccld::cpu_device {

// Starts the thread if the variable is set and it does not run yet; the file's present content is in force on return.
void start_control_file();

// The watcher without its thread and clock, for the thread and for tests.
class ControlFile {
 public:
  explicit ControlFile(std::string path) : path_(std::move(path)) {}

  // Reads the file once and plants what two readings agree on.
  void poll();
  // Plants what the file says now.
  void apply_now();

 private:
  std::string read() const;
  void apply(const std::string& text);

  std::string path_;
  std::string last_read_;
  std::string applied_;
  std::set<std::string> reported_;
};

}  // namespace ccld::cpu_device
