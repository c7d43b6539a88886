// The names of the files of frames and processes, and what tells processes of one machine apart.
//
// A process id means something in its pid namespace only: containers that share /dev/shm (docker run --ipc=host,
// hostIPC of Kubernetes) have processes with equal ids, and none sees those of another. So names carry the namespace.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>

#include <sys/stat.h>

namespace ccld::abi {

struct ProcessName {
  uint32_t pid = 0;
  uint32_t pid_namespace = 0;  // inode of /proc/<pid>/ns/pid, which Linux numbers with 32 bits; 0: not known
  friend bool operator==(const ProcessName& a, const ProcessName& b) {
    return a.pid == b.pid && a.pid_namespace == b.pid_namespace;
  }
};

// The namespace of a process ("self", "4711") that `proc_dir` shows; 0 if it cannot be read.
inline uint32_t pid_namespace_of(const std::string& proc_dir, const std::string& process) {
  struct stat status {};
  return stat((proc_dir + "/" + process + "/ns/pid").c_str(), &status) == 0 ? static_cast<uint32_t>(status.st_ino) : 0;
}

// Whether who is in one can see who is in the other. What is not known may be the same.
inline bool same_pid_namespace(uint32_t one, uint32_t other) { return one == other || one == 0 || other == 0; }

// What the names of all files of a process begin with: "ccld-<pid>-<namespace>".
inline std::string file_prefix(const ProcessName& process) {
  return "ccld-" + std::to_string(process.pid) + "-" + std::to_string(process.pid_namespace);
}

// "ccld-<pid>-<namespace>-<number>.frame"
inline std::string frame_file_name(const ProcessName& process, uint32_t comm_number) {
  return file_prefix(process) + "-" + std::to_string(comm_number) + ".frame";
}

// "ccld-<pid>-<namespace>-<number>.spare": what was the frame of that communicator and waits to be another one's. Nobody
// reads it.
inline std::string spare_file_name(const ProcessName& process, uint32_t comm_number) {
  return file_prefix(process) + "-" + std::to_string(comm_number) + ".spare";
}

// "ccld-<pid>-<namespace>.process"
inline std::string process_file_name(const ProcessName& process) { return file_prefix(process) + ".process"; }

// True if `name` is such a name; gives its parts.
inline bool parse_frame_file_name(const std::string& name, ProcessName* process, uint32_t* comm_number) {
  ProcessName p;
  uint32_t number = 0;
  if (sscanf(name.c_str(), "ccld-%" SCNu32 "-%" SCNu32 "-%" SCNu32 ".frame", &p.pid, &p.pid_namespace, &number) != 3)
    return false;
  if (name != frame_file_name(p, number)) return false;  // leading zeros, signs, something after it
  *process = p;
  *comm_number = number;
  return true;
}

inline bool parse_spare_file_name(const std::string& name, ProcessName* process) {
  ProcessName p;
  uint32_t number = 0;
  if (sscanf(name.c_str(), "ccld-%" SCNu32 "-%" SCNu32 "-%" SCNu32 ".spare", &p.pid, &p.pid_namespace, &number) != 3)
    return false;
  if (name != spare_file_name(p, number)) return false;
  *process = p;
  return true;
}

inline bool parse_process_file_name(const std::string& name, ProcessName* process) {
  ProcessName p;
  if (sscanf(name.c_str(), "ccld-%" SCNu32 "-%" SCNu32 ".process", &p.pid, &p.pid_namespace) != 2) return false;
  if (name != process_file_name(p)) return false;
  *process = p;
  return true;
}

}  // namespace ccld::abi
