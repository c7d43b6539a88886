#include "test/unit/history/killing_disk.h"

#include <signal.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

namespace ccld::test {
namespace {

std::atomic<uint64_t> calls_left;

// The methods of a kind of file, with ours in front.
struct Methods {
  sqlite3_io_methods ours;  // first: a file's pointer to it is a pointer to this
  const sqlite3_io_methods* theirs;
};

const sqlite3_io_methods& theirs(sqlite3_file* file) {
  return *reinterpret_cast<const Methods*>(file->pMethods)->theirs;
}

bool is_last() { return calls_left.fetch_sub(1) == 1; }

int write_file(sqlite3_file* file, const void* data, int bytes, sqlite3_int64 offset) {
  if (is_last()) {
    theirs(file).xWrite(file, data, bytes / 2, offset);
    kill(getpid(), SIGKILL);
  }
  return theirs(file).xWrite(file, data, bytes, offset);
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  if (is_last()) kill(getpid(), SIGKILL);
  return theirs(file).xTruncate(file, size);
}

int sync_file(sqlite3_file* file, int flags) {
  if (is_last()) kill(getpid(), SIGKILL);
  return theirs(file).xSync(file, flags);
}

const sqlite3_io_methods* in_front_of(const sqlite3_io_methods* methods) {
  static std::mutex mutex;
  static std::map<const sqlite3_io_methods*, std::unique_ptr<Methods>> known;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Methods>& made = known[methods];
  if (!made) {
    made = std::make_unique<Methods>(Methods{*methods, methods});
    made->ours.xWrite = write_file;
    made->ours.xTruncate = truncate_file;
    made->ours.xSync = sync_file;
  }
  return &made->ours;
}

sqlite3_vfs* system_files = nullptr;

int open_file(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* flags_out) {
  const int result = system_files->xOpen(system_files, name, file, flags, flags_out);
  if (file->pMethods != nullptr) file->pMethods = in_front_of(file->pMethods);
  return result;
}

}  // namespace

void be_killed_at_disk_call(uint64_t n) {
  calls_left = n;
  system_files = sqlite3_vfs_find(nullptr);
  static sqlite3_vfs ours = *system_files;
  ours.zName = "killing";
  ours.xOpen = open_file;
  sqlite3_vfs_register(&ours, 1);
}

}  // namespace ccld::test
