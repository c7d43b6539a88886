#include "decision/history/database_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ccld::decision::history {

DatabaseFile::DatabaseFile(const std::string& path) : fd_(::open(path.c_str(), O_PATH | O_CLOEXEC)) {}

DatabaseFile::~DatabaseFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool DatabaseFile::is_deleted() const {
  struct stat file {};
  return fd_ >= 0 && fstat(fd_, &file) == 0 && file.st_nlink == 0;
}

}  // namespace ccld::decision::history
