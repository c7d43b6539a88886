#include "decision/recording/incident_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "decision/report/text_format.h"

namespace ccld::decision::recording {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view prefix = "incident-";
constexpr absl::string_view suffix = ".ccldrec", unfinished_suffix = ".ccldrec.tmp";
// Long enough for a service that still writes one.
constexpr int64_t unfinished_ms = 3600 * 1000;

// Names sort by time: "incident-20260131T120000.123Z-7-H3.ccldrec"; ".tmp" is added while it is written.
std::string file_name(const report::Json& incident) {
  const std::string time = absl::StrReplaceAll(report::text_of(incident, "time"), {{"-", ""}, {":", ""}});
  return absl::StrCat(prefix, time, "-", report::number_of(incident, "incident"), "-", report::text_of(incident, "class"), suffix);
}

// The time in the name of a file, written as the names are.
std::string time_text(int64_t ms) { return absl::FormatTime("%Y%m%dT%H%M%E3SZ", absl::FromUnixMillis(ms), absl::UTCTimeZone()); }

}  // namespace

absl::Status check_incident_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make the folder '", folder, "': ", error.message()));
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot write into '", folder, "': ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void remove_old_incident_files(const std::string& folder, const IncidentFileLimits& limits, int64_t now_ms) {
  std::vector<std::string> names;
  std::vector<fs::path> unfinished;
  const std::string ended_before = absl::StrCat(prefix, time_text(now_ms - unfinished_ms));
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (!absl::StartsWith(name, prefix)) continue;
    if (absl::EndsWith(name, suffix)) names.push_back(name);
    if (absl::EndsWith(name, unfinished_suffix) && name < ended_before) unfinished.push_back(at->path());
  }
  for (const fs::path& path : unfinished) fs::remove(path, error);  // its service was killed while it wrote
  std::sort(names.begin(), names.end(), std::greater<>());  // newest first
  const std::string too_old = absl::StrCat(prefix, time_text(now_ms - limits.age_max_ms));
  uint64_t files = 0, bytes = 0;
  for (const std::string& name : names) {
    const fs::path path = fs::path(folder) / name;
    const uint64_t size = fs::file_size(path, error);
    const bool newest = files == 0;
    ++files;
    bytes += error ? 0 : size;
    if (files > limits.files_max || (bytes > limits.bytes_max && !newest) || name < too_old) fs::remove(path, error);
  }
}

absl::StatusOr<std::string> write_incident_file(const std::string& folder, const IncidentFileLimits& limits, int64_t now_ms, const Metadata& metadata,
                                                const IncidentHistory& history, LastWords words, Packer& packer) {
  const std::string path = fs::path(folder) / file_name(metadata.incident);
  const std::string temporary = absl::StrCat(path, ".tmp");
  auto file = RecordingFile::create(temporary, true, metadata, packer);
  if (!file.ok()) return file.status();
  absl::Status status = history.write(**file, std::move(words), packer);
  Ending ending;
  ending.reason = "incident";
  if (status.ok()) status = (*file)->close(ending, packer);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = absl::UnavailableError(absl::StrCat("cannot write '", path, "': ", std::strerror(errno)));
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  remove_old_incident_files(folder, limits, now_ms);
  return path;
}

}  // namespace ccld::decision::recording
