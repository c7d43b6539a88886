// Processes of this machine by what their files call them (schemas/abi/file_names.h), also those of containers whose pid
// namespace can be looked into from here.
//
// A snapshot: what begins later is not known. Nothing fails: what cannot be read is not seen. Threads: any.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "schemas/abi/file_names.h"

namespace ccld::decision {

enum class ProcessState {
  running,
  stopped,
  gone,           // its files were left behind
  not_seen,       // in a pid namespace that cannot be looked into, and nothing moves in its file
  other_machine,  // or before the last boot
};
const char* name_of(ProcessState);

class LocalProcesses {
 public:
  explicit LocalProcesses(const std::string& proc_dir = "/proc");

  // What the process that has this id here calls itself. One that is not there: with an unknown namespace.
  abi::ProcessName name_of(uint32_t pid) const;

  // As whom the process of this name runs; nothing: it cannot be seen from here.
  std::optional<uid_t> user_of(const abi::ProcessName&) const;

  // Whether there is a process of this name, or may be one where we cannot look.
  bool may_exist(const abi::ProcessName&) const;

  // `agent_alive`: its file has just moved.
  ProcessState state(const std::string& boot_id, const abi::ProcessName&, uint64_t pid_start_ticks,
                     bool agent_alive) const;

 private:
  std::optional<uint32_t> pid_here(const abi::ProcessName&) const;
  std::string first_line(const std::string& path) const;  // below proc_dir

  std::string proc_dir_;
  std::string boot_id_;
  uint32_t pid_namespace_;
  bool sees_all_ = true;  // no process is hidden from us, so who is not seen is gone
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> in_others_;  // (namespace, pid there) -> pid here
};

}  // namespace ccld::decision
