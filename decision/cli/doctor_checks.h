// What `ccld doctor` looks at: is our library in force in a process, can it write its frames, does its telemetry reach a
// service, and is that service well. Each check says what it found and, where that is not well, what to do.
// Nothing here changes anything, and nothing fails: what cannot be looked at is a finding. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decision/cli/handshake.h"
#include "decision/cli/service_client.h"

namespace ccld::decision {

enum class Health { ok, warn, fail };

// What one check found.
struct Checked {
  Health health = Health::ok;
  std::string what;
  std::string remedy;  // empty: nothing to do
};

struct DoctorOptions {
  std::vector<uint32_t> pids;  // empty: all processes of this user that use NCCL
  std::string proc_dir = "/proc";
  std::string dir = "/dev/shm";  // of frames
  ServiceAddress service;        // its query API
  std::string endpoint;  // of its telemetry, or several; empty: what the processes have in force, or the default
  std::string server_key, key_file;  // NCCL_PROBE_SERVER_KEY, NCCL_PROBE_KEY_FILE
};

// "ok    telemetry tcp://127.0.0.1:5566 answers as ZeroMQ does"
// "FAIL  pid 4711: libnccl.so.2 is not ours (/usr/lib/libnccl.so.2)  -> LD_LIBRARY_PATH or LD_PRELOAD must name ours"
std::string text_of(const Checked&);

std::vector<Checked> check_folder(const DoctorOptions&);
// Also adds the endpoints that are in force there, the one in use of several and the others.
std::vector<Checked> check_processes(const DoctorOptions&, std::vector<std::string>* endpoints);
// Each once. `given`: DoctorOptions::endpoint; what is no endpoint is kept, to be found wrong.
std::vector<std::string> endpoints_to_check(const std::string& given, std::vector<std::string> of_processes);
// TCP, then the handshake of ZeroMQ: another program on that port answers the first and not the second.
// With keys also whether both sides accept those of the other.
Checked check_endpoint_answers(const std::string& endpoint, const std::optional<ProbeKeys>& keys);
Checked handshake_finding(const std::string& endpoint, Handshake, bool keys);
// Health, version, clock, what it refused, and whether it knows who sends and asks.
std::vector<Checked> check_service(const ServiceAddress&);

}  // namespace ccld::decision
