// A program under test: started with pipes, waited for by what it writes, always reaped.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace ccld::test {

using Milliseconds = std::chrono::milliseconds;

// What takes some 20 ms takes long where the machine has no processor for it.
constexpr Milliseconds start_max(60000);

class ChildProcess {
 public:
  explicit ChildProcess(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});
  ~ChildProcess();  // kills what still runs
  ChildProcess(const ChildProcess&) = delete;

  // The first line that contains `part`, from now on; empty when the stream ends or the time is over.
  std::string wait_for_output(const std::string& part, Milliseconds timeout = start_max);
  std::string wait_for_error(const std::string& part, Milliseconds timeout = start_max);

  void signal(int number) const;
  // The exit status, or -1 when it did not end in time or was killed by a signal. Reads the rest of both streams.
  int wait(Milliseconds timeout = start_max);

  const std::string& output() const { return out_.text; }  // so far
  const std::string& error() const { return err_.text; }
  pid_t pid() const { return pid_; }

 private:
  struct Stream {
    int fd = -1;
    std::string text;
    size_t searched = 0;
  };
  std::string wait_for(Stream&, const std::string& part, Milliseconds timeout);
  bool read_some(std::chrono::steady_clock::time_point deadline);  // false: both ended, or the time is over

  pid_t pid_ = -1;
  Stream out_, err_;
};

struct Finished {
  int status;
  std::string output, error;
};
Finished run(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});

}  // namespace ccld::test
