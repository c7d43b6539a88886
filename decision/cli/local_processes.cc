#include "decision/cli/local_processes.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace ccld::decision {
namespace {

namespace fs = std::filesystem;

// Linux gives the namespace of the whole machine this number (PROC_PID_INIT_INO).
constexpr uint32_t first_pid_namespace = 0xeffffffc;

// What the process is called in the innermost of its namespaces; 0 if `status` does not say.
uint32_t innermost_pid(const std::string& status) {
  constexpr std::string_view key = "NSpid:";
  std::ifstream file(status);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t last = line.find_last_of(" \t");
    return last == std::string::npos ? 0 : static_cast<uint32_t>(std::strtoul(line.c_str() + last + 1, nullptr, 10));
  }
  return 0;
}

}  // namespace

const char* name_of(ProcessState state) {
  switch (state) {
    case ProcessState::running: return "running";
    case ProcessState::stopped: return "stopped";
    case ProcessState::gone: return "gone";
    case ProcessState::not_seen: return "not seen";
    case ProcessState::other_machine: return "other boot";
  }
  return "?";
}

LocalProcesses::LocalProcesses(const std::string& proc_dir)
    : proc_dir_(proc_dir),
      boot_id_(first_line("sys/kernel/random/boot_id")),
      pid_namespace_(abi::pid_namespace_of(proc_dir, "self")) {
  sees_all_ = pid_namespace_ == first_pid_namespace;
  std::error_code error;
  for (fs::directory_iterator it(proc_dir_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const uint32_t pid_namespace = abi::pid_namespace_of(proc_dir_, name);
    if (pid_namespace == pid_namespace_) continue;
    if (pid_namespace == 0) {  // another user's; or it has just ended
      sees_all_ = sees_all_ && !fs::exists(it->path(), error);
      continue;
    }
    const uint32_t there = innermost_pid((it->path() / "status").string());
    if (there != 0) in_others_[{pid_namespace, there}] = static_cast<uint32_t>(std::strtoul(name.c_str(), nullptr, 10));
  }
  if (error) sees_all_ = false;
}

std::string LocalProcesses::first_line(const std::string& path) const {
  std::ifstream file(proc_dir_ + "/" + path);
  std::string line;
  std::getline(file, line);
  return line;
}

abi::ProcessName LocalProcesses::name_of(uint32_t pid) const {
  for (const auto& [there, here] : in_others_)
    if (here == pid) return {there.second, there.first};
  std::error_code error;
  return {pid, fs::exists(proc_dir_ + "/" + std::to_string(pid), error) ? pid_namespace_ : 0};
}

std::optional<uint32_t> LocalProcesses::pid_here(const abi::ProcessName& name) const {
  if (abi::same_pid_namespace(name.pid_namespace, pid_namespace_)) return name.pid;
  const auto it = in_others_.find({name.pid_namespace, name.pid});
  return it != in_others_.end() ? std::optional(it->second) : std::nullopt;
}

std::optional<uid_t> LocalProcesses::user_of(const abi::ProcessName& name) const {
  const std::optional<uint32_t> pid = pid_here(name);
  if (!pid) return std::nullopt;
  std::ifstream file(proc_dir_ + "/" + std::to_string(*pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    unsigned effective = 0;
    if (std::sscanf(line.c_str(), "Uid: %*u %u", &effective) == 1) return effective;
  }
  return std::nullopt;
}

bool LocalProcesses::may_exist(const abi::ProcessName& name) const {
  const std::optional<uint32_t> pid = pid_here(name);
  if (!pid) return !sees_all_;
  std::error_code error;
  return fs::exists(proc_dir_ + "/" + std::to_string(*pid), error);
}

ProcessState LocalProcesses::state(const std::string& boot_id, const abi::ProcessName& name, uint64_t pid_start_ticks,
                                   bool agent_alive) const {
  if (boot_id != boot_id_) return ProcessState::other_machine;
  const bool seen_if_there = sees_all_ || abi::same_pid_namespace(name.pid_namespace, pid_namespace_);
  const ProcessState unseen =
      agent_alive ? ProcessState::running : seen_if_there ? ProcessState::gone : ProcessState::not_seen;
  const std::optional<uint32_t> pid = pid_here(name);
  if (!pid) return unseen;
  const std::string stat = first_line(std::to_string(*pid) + "/stat");
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos) return unseen;
  char state = '?';
  unsigned long long start_ticks = 0;
  if (std::sscanf(stat.c_str() + name_end + 2,
                  "%c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
                  &start_ticks) != 2)
    return unseen;
  if (start_ticks != pid_start_ticks) return unseen;
  if (state == 'T' || state == 't') return ProcessState::stopped;
  return state == 'Z' || state == 'X' ? ProcessState::gone : ProcessState::running;
}

}  // namespace ccld::decision
