#include "test/support/workload/status_board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace ccld::workload {

StatusBoard::StatusBoard(const std::string& path, int rank_count)
    : bytes_(sizeof(BoardHeader) + sizeof(BoardSlot) * static_cast<size_t>(rank_count)) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) throw std::runtime_error("--status " + path + ": " + strerror(errno));
  if (ftruncate(file, static_cast<off_t>(bytes_)) == 0) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  const int error = errno;
  close(file);
  if (memory_ == nullptr || memory_ == MAP_FAILED)
    throw std::runtime_error("--status " + path + ": " + strerror(error));
}

StatusBoard::~StatusBoard() { munmap(memory_, bytes_); }

uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace ccld::workload
