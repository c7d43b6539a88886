#include "probe/frames/new_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ccld::probe {
namespace {

// Whether others have enough room left beside a file of so many bytes.
bool leaves_room(const std::string& path, size_t bytes, std::string* error) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0 || status.f_blocks == 0) return true;  // the file itself tells what is wrong
  const uint64_t total = uint64_t{status.f_blocks} * status.f_frsize, free = uint64_t{status.f_bavail} * status.f_frsize;
  const uint64_t kept = std::min(total / 4 * 3, left_to_others_bytes);
  if (free >= bytes + kept) return true;
  *error = "no room for " + path + ": " + folder + " has " + std::to_string(free >> 20) + " MiB free, and " +
           std::to_string(kept >> 20) + " MiB are left to NCCL";
  return false;
}

}  // namespace

void* map_without_file(size_t bytes) {
  // Shared: after a fork a private page would be copied at the next write, and a GPU would go on writing the old one.
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void* map_new_file(const std::string& path, size_t bytes, Access access, std::string* error, FileId* made) {
  unlink(path.c_str());
  if (!leaves_room(path, bytes, error)) return nullptr;
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, static_cast<mode_t>(access));
  if (file < 0) {
    *error = "cannot create " + path + ": " + strerror(errno);
    return nullptr;
  }
  // Not ftruncate: on a full file system a later store to a hole would kill the process.
  int failure = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  // Who was asked to share is not stopped by his umask.
  if (failure == 0 && fchmod(file, static_cast<mode_t>(access)) != 0) failure = errno;
  struct stat status {};
  if (failure == 0 && fstat(file, &status) != 0) failure = errno;
  if (made != nullptr) *made = {status.st_dev, status.st_ino};
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

const char* what_became_of(const std::string& path, const FileId& made) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return "removed";
    return errno == EACCES ? "made unreadable" : nullptr;  // what else fails says nothing about the file
  }
  if (status.st_dev != made.device || status.st_ino != made.inode) return "replaced";
  return (status.st_mode & S_IRUSR) == 0 ? "made unreadable" : nullptr;
}

}  // namespace ccld::probe
