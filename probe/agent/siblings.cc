#include "probe/agent/siblings.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/agent/last_operations.h"
#include "probe/frames/frame_file.h"
#include "schemas/abi/frame_reader.h"

namespace ccld::probe {
namespace {

enum class Of { anybody, our_user };

// Reads at most `size` bytes; returns how many. Whoever may write to the folder can make files with any name: of frames
// only those of our own user are believed.
size_t read_file(const std::string& path, void* buffer, size_t size, Of owner) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return 0;
  struct stat status {};
  const bool believed = owner == Of::anybody || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid());
  size_t total = 0;
  while (believed && total < size) {
    const ssize_t n = read(fd, static_cast<char*>(buffer) + total, size - total);
    if (n <= 0) break;
    total += static_cast<size_t>(n);
  }
  close(fd);
  return total;
}

bool has_left(char state) { return state == 'X' || state == 'Z'; }
bool cannot_speak(char state) { return state == 'T' || state == 't' || has_left(state); }

constexpr unsigned stat_field_state = 3, stat_field_flags = 9, stat_field_start_ticks = 22;
constexpr uint64_t exiting_flag = 0x4;  // PF_EXITING of Linux

}  // namespace

Siblings::Siblings(const SiblingOptions& options) : options_(options) {}

char Siblings::read_state(const Key& key) const {
  char line[1024];
  const size_t size = read_file(options_.proc_dir + "/" + std::to_string(key.first) + "/stat", line, sizeof line - 1, Of::anybody);
  line[size] = '\0';
  // The program's name (field 2) may hold anything, a ')' too.
  const char* cursor = strrchr(line, ')');
  if (cursor == nullptr || cursor[1] != ' ') return 'X';
  cursor += 2;
  // A killed process that still gives its memory back, for seconds where it is large, is as good as gone.
  char state = *cursor;
  for (unsigned field = stat_field_state; field < stat_field_start_ticks; ++field) {
    if (field == stat_field_flags && (strtoull(cursor, nullptr, 10) & exiting_flag) != 0) state = 'Z';
    cursor = strchr(cursor, ' ');
    if (cursor == nullptr) return 'X';
    ++cursor;
  }
  return strtoull(cursor, nullptr, 10) == key.second ? state : 'X';
}

Siblings::File Siblings::read_frame(const std::string& path, const abi::ProcessName& name, Instant now) {
  File file;
  file.read_ns = now.monotonic_ns;
  abi::FrameHeader header{};
  if (read_file(path, &header, sizeof header, Of::our_user) != sizeof header) return file;
  const abi::FrameIdentity& id = header.identity;
  if (id.magic != abi::frame_magic || id.abi_major != abi::frame_abi_major || id.pid != name.pid ||
      id.pid_namespace != name.pid_namespace)
    return file;
  if (abi::FrameView::text(id.boot_id) != options_.boot_id) return file;
  file.process = Key{name.pid, id.pid_start_ticks};
  const bool same_namespace = abi::same_pid_namespace(name.pid_namespace, options_.own.pid_namespace);
  const char state = same_namespace ? read_state(file.process) : 'X';
  // Its own heartbeat tells a process of another pid namespace, which is not to be seen in /proc, from one that is
  // gone.
  const uint64_t last_sign_ns = std::max(header.agent.heartbeat_monotonic_ns, id.created_monotonic_ns);
  if (state == 'X' && now.monotonic_ns > last_sign_ns && now.monotonic_ns - last_sign_ns > options_.keep_ns) {
    unlink(path.c_str());
    return file;
  }
  // A frame has room for the beginning of a long name.
  if (abi::FrameView::text(id.host) != options_.host.substr(0, sizeof id.host - 1)) return file;
  if (!same_namespace && state == 'X') return file;
  if (has_left(state) && processes_.count(file.process) == 0) {
    // It left before it was looked at: told as long as any other one that left. poll() finds out.
    file.of_sibling = last_sign_ns <= now.monotonic_ns && now.monotonic_ns - last_sign_ns <= gone_reported_ns;
    if (file.of_sibling) processes_.emplace(file.process, Process{'?', true, last_sign_ns});
    return file;
  }
  file.of_sibling = true;
  processes_.emplace(file.process, Process{state, true, now.monotonic_ns, now.monotonic_ns});
  return file;
}

void Siblings::remove_spare(const std::string& path, const abi::ProcessName& name) const {
  if (!abi::same_pid_namespace(name.pid_namespace, options_.own.pid_namespace)) return;
  abi::FrameIdentity id{};
  if (read_file(path, &id, sizeof id, Of::our_user) != sizeof id || id.magic != abi::frame_magic || id.pid != name.pid ||
      id.pid_namespace != name.pid_namespace || abi::FrameView::text(id.boot_id) != options_.boot_id)
    return;
  if (read_state({name.pid, id.pid_start_ticks}) == 'X') unlink(path.c_str());
}

void Siblings::scan(Instant now) {
  ++scans_;
  for (auto& [key, process] : processes_) process.has_frame = false;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(options_.frames_dir.c_str()), closedir);
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder.get())) {
    abi::ProcessName name;
    uint32_t comm_number = 0;
    if (abi::parse_spare_file_name(entry->d_name, &name) && !(name == options_.own))
      remove_spare(options_.frames_dir + "/" + entry->d_name, name);
    if (!abi::parse_frame_file_name(entry->d_name, &name, &comm_number) || name == options_.own) continue;
    File& file = files_[entry->d_name];
    if (file.read_ns == 0 || now.monotonic_ns - file.read_ns >= file_reread_ns)
      file = read_frame(options_.frames_dir + "/" + entry->d_name, name, now);
    file.scan = scans_;
    const auto known = file.of_sibling ? processes_.find(file.process) : processes_.end();
    if (known != processes_.end()) known->second.has_frame = true;
  }
  for (auto it = files_.begin(); it != files_.end();) it = it->second.scan != scans_ ? files_.erase(it) : std::next(it);
  // One that has ended all its communicators is no sibling any more, unless it is known to be gone.
  for (auto it = processes_.begin(); it != processes_.end();)
    it = !it->second.has_frame && it->second.state != 'X' ? processes_.erase(it) : std::next(it);
}

uint64_t Siblings::last_sign_ns(const Key& key) const {
  uint64_t newest_ns = 0;
  for (const auto& [name, file] : files_) {
    if (!file.of_sibling || file.process != key) continue;
    abi::FrameHeader header{};
    if (read_file(options_.frames_dir + "/" + name, &header, sizeof header, Of::our_user) == sizeof header &&
        header.identity.magic == abi::frame_magic)
      newest_ns = std::max(newest_ns, header.agent.heartbeat_monotonic_ns);
  }
  return newest_ns;
}

bool Siblings::poll(Instant now) {
  bool news = false;
  for (auto it = processes_.begin(); it != processes_.end();) {
    Process& process = it->second;
    const char state = process.state == 'X' ? 'X' : read_state(it->first);
    if (state != process.state) {
      process.next_read_ns = now.monotonic_ns;
      if (!has_left(process.state)) process.state_since_ns = now.monotonic_ns;  // when a zombie is reaped tells nothing
      if (has_left(state) && !has_left(process.state)) {
        news = true;
        const uint64_t sign_ns = std::max(last_sign_ns(it->first), process.polled_ns);
        if (sign_ns != 0) process.state_since_ns = std::min(sign_ns, now.monotonic_ns);
      }
      process.state = state;
      process.read_pause_ns = last_reread_ns_min;
      process.last_operations.clear();
    }
    if (!has_left(state)) process.polled_ns = now.monotonic_ns;
    if (cannot_speak(state) && now.monotonic_ns >= process.next_read_ns) read_last(it->first, process, now);
    const bool forget = state == 'X' && now.monotonic_ns - process.state_since_ns > gone_reported_ns;
    it = forget ? processes_.erase(it) : std::next(it);
  }
  return news;
}

void Siblings::read_last(const Key& key, Process& process, Instant now) {
  process.next_read_ns = now.monotonic_ns + process.read_pause_ns;
  process.read_pause_ns *= 2;
  process.last_operations.clear();
  for (const auto& [name, file] : files_) {
    if (!file.of_sibling || file.process != key) continue;
    if (process.last_operations.size() == last_frames_max) break;
    if (const auto last = read_last_operations(options_.frames_dir + "/" + name))
      process.last_operations.push_back(*last);
  }
}

std::vector<SiblingState> Siblings::states(Instant now) const {
  std::vector<SiblingState> result;
  for (const auto& [key, process] : processes_) {
    SiblingState s;
    s.pid = key.first;
    s.pid_start_ticks = key.second;
    s.state = process.state;
    s.state_age_ms = static_cast<uint32_t>((now.monotonic_ns - process.state_since_ns) / ns_per_ms);
    s.last_operations = process.last_operations;
    result.push_back(std::move(s));
  }
  return result;
}

}  // namespace ccld::probe
