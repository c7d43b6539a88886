// A file of the probe opened read-only: mapping, size check and its view in one. For readers outside the process that
// owns it. Frames here; MappedProcess in process_reader.h.
//
// Contract: open() never throws, and follows no link; on failure *error is one line without the path. A file that is
// truncated while it is mapped reads as zeros, and lost() says so. The mapping lives as long as the object (move-only).
// Threads: as the view.
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

#include "schemas/abi/bus_guard.h"
#include "schemas/abi/frame_reader.h"

namespace ccld::abi {

template <class View>
class Mapped {
 public:
  static std::optional<Mapped> open(const std::string& path, std::string* error) {
    const auto fail = [error](std::string text) {
      if (error != nullptr) *error = std::move(text);
      return std::nullopt;
    };
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) return fail(errno == ELOOP ? "it is a link" : std::strerror(errno));
    struct stat status {};
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(fd);
      return fail("not a regular file");
    }
    const auto bytes = static_cast<size_t>(status.st_size);
    if (bytes < View::bytes_min) {
      ::close(fd);
      return fail("truncated: " + std::to_string(bytes) + " bytes");
    }
    void* memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    ::close(fd);
    if (memory == MAP_FAILED) return fail(std::string("cannot map it: ") + std::strerror(errno));
    Mapped mapped(memory, bytes, status.st_uid);
    std::optional<View> view = View::open(memory, bytes, error);
    if (!view) return std::nullopt;
    mapped.view_ = *view;
    return mapped;
  }

  Mapped(Mapped&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_),
        owner_(other.owner_),
        guard_(std::move(other.guard_)),
        view_(other.view_) {}
  Mapped& operator=(Mapped&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(owner_, other.owner_);
    std::swap(guard_, other.guard_);
    std::swap(view_, other.view_);
    return *this;
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() {
    if (memory_ == nullptr) return;
    guard_ = BusGuard();
    munmap(memory_, bytes_);
  }

  const View& view() const { return view_; }
  uid_t owner() const { return owner_; }  // of the file
  bool lost() const { return guard_.lost(); }

 private:
  Mapped(void* memory, size_t bytes, uid_t owner)
      : memory_(memory), bytes_(bytes), owner_(owner), guard_(BusGuard::over(memory, bytes)) {}

  void* memory_;
  size_t bytes_;
  uid_t owner_;
  BusGuard guard_;
  View view_;
};

using MappedFrame = Mapped<FrameView>;

}  // namespace ccld::abi
