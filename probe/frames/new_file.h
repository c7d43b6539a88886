// What the files that outsiders read have in common: how they are made, and how texts lie in them.
//
// Contract: nothing throws; a failure is a nullptr and one line in *error. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace ccld::probe {

// The folder is NCCL's too, for its shared memory, without which training does not begin: 34 MiB of each rank that uses
// the network. So much of it is left to others, or three quarters if it is small: containers often have no more than 64
// MiB.
constexpr uint64_t left_to_others_bytes = uint64_t{512} << 20;

// Who may open a file of ours. Whoever may write may truncate it, so nobody may that need not.
enum class Access : unsigned {
  read = 0400,         // its user
  write = 0600,        // its user, who may write
  read_by_all = 0444,  // NCCL_PROBE_FRAMES_SHARED
  write_and_read_by_all = 0644,
};

// Which file it is, whatever its name.
struct FileId {
  uint64_t device = 0, inode = 0;
};

// Makes `path` a file of `bytes` bytes whose storage exists, and maps it for writing. What lies there is of an earlier
// process with our process id, and goes. `made`: nullptr: nobody asks.
void* map_new_file(const std::string& path, size_t bytes, Access, std::string* error, FileId* made = nullptr);

// Why nobody finds at `path` what was made, in a word; nullptr: it is there.
const char* what_became_of(const std::string& path, const FileId& made);

// The same memory without a file: nobody else can look at it. nullptr: there is none.
void* map_without_file(size_t bytes);

// Cuts a text that is too long; the field always ends with a zero.
template <size_t size>
void copy_text(char (&field)[size], const std::string& text) {
  const size_t length = text.size() < size - 1 ? text.size() : size - 1;
  memcpy(field, text.data(), length);
  memset(field + length, 0, size - length);
}

}  // namespace ccld::probe
