// A frame file opened read-only: mapping, size check and FrameView in one. For readers outside the process that owns
// it.
//
// Contract: open() never throws; on failure *error is one line without the path. The mapping lives as long as the
// object (move-only). Threads: as FrameView.
#pragma once

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/abi/frame_reader.h"

namespace ccld::abi {

class MappedFrame {
 public:
  static std::optional<MappedFrame> open(const std::string& path, std::string* error) {
    const auto fail = [error](std::string text) {
      if (error != nullptr) *error = std::move(text);
      return std::nullopt;
    };
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail(std::strerror(errno));
    struct stat status {};
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(fd);
      return fail("not a regular file");
    }
    const auto bytes = static_cast<size_t>(status.st_size);
    if (bytes < sizeof(FrameHeader)) {
      ::close(fd);
      return fail("truncated: " + std::to_string(bytes) + " bytes");
    }
    void* memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    ::close(fd);
    if (memory == MAP_FAILED) return fail(std::string("cannot map it: ") + std::strerror(errno));
    MappedFrame frame(memory, bytes);
    std::optional<FrameView> view = FrameView::open(memory, bytes, error);
    if (!view) return std::nullopt;
    frame.view_ = *view;
    return frame;
  }

  MappedFrame(MappedFrame&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_), view_(other.view_) {}
  MappedFrame& operator=(MappedFrame&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(view_, other.view_);
    return *this;
  }
  MappedFrame(const MappedFrame&) = delete;
  MappedFrame& operator=(const MappedFrame&) = delete;
  ~MappedFrame() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }

  const FrameView& view() const { return view_; }

 private:
  MappedFrame(void* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  void* memory_;
  size_t bytes_;
  FrameView view_;
};

}  // namespace ccld::abi
