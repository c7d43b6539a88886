#include "probe/frames/new_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ccld::probe {

void* map_new_file(const std::string& path, size_t bytes, std::string* error) {
  unlink(path.c_str());
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file < 0) {
    *error = "cannot create " + path + ": " + strerror(errno);
    return nullptr;
  }
  // Not ftruncate: on a full file system a later store to a hole would kill the process.
  int failure = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* memory = MAP_FAILED;
  if (failure == 0) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) failure = errno;
  }
  close(file);
  if (failure == 0) return memory;
  unlink(path.c_str());
  *error = "cannot get " + std::to_string(bytes) + " bytes for " + path + ": " + strerror(failure);
  return nullptr;
}

}  // namespace ccld::probe
