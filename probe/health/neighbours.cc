#include "probe/health/neighbours.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <utility>

#include "probe/frames/frame_file.h"
#include "probe/process/process_file.h"

namespace ccld::probe {
namespace {

struct Contents {
  abi::ProcessIdentityPart identity;
  uint64_t counters;  // all metrics added: it changes as long as somebody counts
  bool ours;          // a file of our user
};

bool read_contents(const std::string& path, Contents* out) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  struct stat status {};
  uint64_t metrics[abi::metrics_max];
  abi::ProcessIdentityPart& identity = out->identity;
  bool good = fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
              pread(file, &identity, sizeof(identity), 0) == static_cast<ssize_t>(sizeof(identity)) &&
              identity.magic == abi::process_magic && identity.abi_major == abi::process_abi_major;
  good =
      good && pread(file, metrics, sizeof(metrics), identity.metrics_offset) == static_cast<ssize_t>(sizeof(metrics));
  close(file);
  out->ours = status.st_uid == geteuid();
  out->counters = 0;
  for (size_t i = 0; good && i < abi::metrics_max; ++i) out->counters += metrics[i];
  return good;
}

}  // namespace

bool Neighbours::look(uint64_t now_ns) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(options_.frames_dir.c_str()), closedir);
  if (folder == nullptr) return true;
  bool speaks = true;
  std::map<std::string, Silent> still_silent;
  while (const dirent* entry = readdir(folder.get())) {
    abi::ProcessName name;
    if (!abi::parse_process_file_name(entry->d_name, &name) || name == options_.own) continue;
    const std::string path = options_.frames_dir + "/" + entry->d_name;
    Contents contents;
    if (!read_contents(path, &contents) || contents.identity.pid != name.pid) continue;
    const auto& boot_id = contents.identity.boot_id;
    if (std::string(boot_id, strnlen(boot_id, sizeof(boot_id))) != options_.boot_id) continue;
    const uint64_t start_ticks = contents.identity.pid_start_ticks;
    if (abi::same_pid_namespace(name.pid_namespace, options_.own.pid_namespace) && start_ticks != 0 &&
        process_start_ticks(name.pid) == start_ticks) {
      // Whoever may write to the folder can make a file that names any process.
      speaks = speaks && (!contents.ours || name.pid > options_.own.pid);
      continue;
    }
    const auto known = silent_.find(path);
    Silent silent{contents.counters, now_ns};
    if (known != silent_.end() && known->second.counters == contents.counters) silent = known->second;
    if (now_ns - silent.since_ns > options_.keep_ns)
      unlink(path.c_str());
    else
      still_silent[path] = silent;
  }
  silent_ = std::move(still_silent);
  return speaks;
}

}  // namespace ccld::probe
