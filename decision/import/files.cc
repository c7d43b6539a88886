#include "decision/import/files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "decision/import/limits.h"

namespace ccld::decision::dumps {
namespace {

absl::Status unreadable(const std::string& path, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot read '", path, "': ", why));
}

absl::Status add(std::vector<File>& out, const std::string& path, bool named) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return unreadable(path, std::strerror(errno));
  // A pipe or a device may never end.
  if (!S_ISREG(info.st_mode)) return named ? unreadable(path, "it is no file") : absl::OkStatus();
  if (out.size() >= files_max) return absl::InvalidArgumentError(absl::StrCat("more than ", files_max, " files"));
  out.push_back(
      {path, named, static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec});
  return absl::OkStatus();
}

absl::Status add_folder(std::vector<File>& out, const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  std::filesystem::recursive_directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    if (!it->is_symlink() && it->is_regular_file()) paths.push_back(it->path().string());
    if (paths.size() > files_max)
      return absl::InvalidArgumentError(absl::StrCat("'", folder, "' has more than ", files_max, " files"));
  }
  if (error) return unreadable(folder, error.message());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths)
    if (absl::Status s = add(out, path, false); !s.ok()) return s;
  return absl::OkStatus();
}

absl::StatusOr<std::string> read(const File& f, uint64_t count) {
  std::ifstream stream(f.path, std::ios::binary);
  if (!stream) return unreadable(f.path, std::strerror(errno));
  std::string out(std::min(count, f.bytes), '\0');
  stream.read(out.data(), static_cast<std::streamsize>(out.size()));
  if (stream.bad()) return unreadable(f.path, "read error");
  out.resize(static_cast<size_t>(stream.gcount()));
  return out;
}

}  // namespace

absl::StatusOr<std::vector<File>> find_files(const std::vector<std::string>& paths) {
  std::vector<File> out;
  for (const std::string& path : paths) {
    std::error_code error;
    const bool is_folder = std::filesystem::is_directory(path, error);
    if (absl::Status s = is_folder ? add_folder(out, path) : add(out, path, true); !s.ok()) return s;
  }
  return out;
}

absl::StatusOr<std::string> read_start(const File& f, size_t count) { return read(f, count); }

absl::StatusOr<std::string> read_all(const File& f) {
  if (f.bytes > file_bytes_max)
    return absl::DataLossError(
        absl::StrCat(f.path, ": ", f.bytes, " bytes are more than the ", file_bytes_max, " that one dump may have"));
  return read(f, f.bytes);
}

}  // namespace ccld::decision::dumps
