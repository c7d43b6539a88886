#include "decision/admission/reloader.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::admission {
namespace {

// Another one: another content, as far as can be told without reading it.
std::string mark_of(const std::vector<std::string>& paths) {
  std::string mark;
  for (const std::string& path : paths) {
    struct stat about {};
    if (stat(path.c_str(), &about) != 0) {
      absl::StrAppend(&mark, "none;");
      continue;
    }
    absl::StrAppend(&mark, about.st_dev, ",", about.st_ino, ",", about.st_size, ",", about.st_mtim.tv_sec, ".",
                    about.st_mtim.tv_nsec, ";");
  }
  return mark;
}

}  // namespace

Reloader::Reloader(std::vector<WatchedFiles> files, std::chrono::milliseconds period) : files_(std::move(files)) {
  seen_.resize(files_.size());
  if (!files_.empty()) thread_ = std::thread([this, period] { run(period); });
}

Reloader::~Reloader() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  end_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Reloader::run(std::chrono::milliseconds period) {
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, period, [this] { return ends_; })) {
    for (size_t i = 0; i < files_.size(); ++i) {
      // Before it is read: a change meanwhile is seen the next time.
      std::string mark = mark_of(files_[i].paths);
      if (mark == seen_[i]) continue;
      const bool first = std::exchange(seen_[i], std::move(mark)).empty();
      const absl::Status status = files_[i].read_again();
      if (status.ok() && first) continue;
      if (status.ok())
        spdlog::info("{}: read again", files_[i].flag);
      else
        spdlog::error("{}: {}; what was read before stays in force", files_[i].flag, std::string(status.message()));
    }
  }
}

}  // namespace ccld::decision::admission
