#include "decision/validate/device/turn.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

namespace ccld::decision::validate {
namespace {

constexpr auto try_again = std::chrono::milliseconds(1);

}  // namespace

Turn::Turn(bool wanted, std::chrono::steady_clock::time_point until) {
  if (!wanted) return;
  const char* folder = getenv("TMPDIR");
  const std::string path = std::string(folder != nullptr && *folder != 0 ? folder : "/tmp") + "/ccld-validate-" +
                           std::to_string(getuid()) + ".lock";
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file_ < 0) throw std::runtime_error("cannot open '" + path + "': " + std::strerror(errno));
  while (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() >= until) {
      close(file_);
      throw std::runtime_error("its turn to measure on the CPU device did not come within the timeout");
    }
    std::this_thread::sleep_for(try_again);
  }
}

Turn::~Turn() {
  if (file_ >= 0) close(file_);
}

}  // namespace ccld::decision::validate
