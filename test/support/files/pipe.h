// A named pipe whose reader reads nothing until drain(), for a program that writes to it.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "test/support/files/folder.h"

namespace ccld::test {

class Pipe {
 public:
  Pipe() {
    REQUIRE(mkfifo(path().c_str(), 0600) == 0);
    reading_ = ::open(path().c_str(), O_RDONLY | O_NONBLOCK);
    REQUIRE(reading_ >= 0);
  }
  ~Pipe() {
    if (drain_.joinable()) drain_.join();
    close(reading_);
  }
  Pipe(const Pipe&) = delete;
  std::string path() const { return folder_.file("v"); }
  // Whoever writes next waits.
  void fill() const {
    const int writing = ::open(path().c_str(), O_WRONLY | O_NONBLOCK);
    while (write(writing, "x", 1) == 1) continue;
    close(writing);
  }
  // Until whoever writes has closed it.
  void drain() {
    drain_ = std::thread([this] {
      fcntl(reading_, F_SETFL, 0);
      char buffer[65536];
      for (ssize_t n; (n = read(reading_, buffer, sizeof(buffer))) > 0;) text_.append(buffer, static_cast<size_t>(n));
    });
  }
  // What was read, once whoever writes has closed the pipe.
  const std::string& text() {
    drain_.join();
    return text_;
  }

 private:
  const Folder folder_;
  int reading_ = -1;
  std::thread drain_;
  std::string text_;
};

}  // namespace ccld::test
