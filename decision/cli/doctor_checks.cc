#include "decision/cli/doctor_checks.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "decision/cli/local_processes.h"
#include "decision/cli/service_client.h"
#include "decision/report/text_format.h"
#include "decision/server/surroundings.h"
#include "schemas/abi/process_reader.h"
#include "schemas/endpoints/endpoint_list.h"
#include "zmq.hpp"

namespace ccld::decision {
namespace {

namespace fs = std::filesystem;
using report::Json;

Checked ok(std::string what) { return {Health::ok, std::move(what), ""}; }
Checked warn(std::string what, std::string remedy) { return {Health::warn, std::move(what), std::move(remedy)}; }
Checked fail(std::string what, std::string remedy) { return {Health::fail, std::move(what), std::move(remedy)}; }

// What a process has mapped that concerns us.
struct Mappings {
  bool readable = false;
  std::string libnccl;  // as the process sees the path; empty: none
  bool frames = false;
  bool of_nccl() const { return frames || !libnccl.empty(); }
};

Mappings mappings_of(const std::string& process_dir) {
  Mappings found;
  std::ifstream file(process_dir + "/maps");
  for (std::string line; std::getline(file, line);) {
    found.readable = true;
    const size_t path = line.find('/');
    if (path == std::string::npos) continue;
    const std::string name = line.substr(path);
    const size_t base = name.rfind('/') + 1;
    if (absl::StartsWith(name.substr(base), "libnccl.so")) found.libnccl = name;
    if (absl::StartsWith(name.substr(base), "ccld-") &&
        (absl::StrContains(name, ".frame") || absl::StrContains(name, ".process")))
      found.frames = true;
  }
  return found;
}

// Whether the library reads the settings of the probe: every build of ours does, no other one.
std::optional<bool> is_ours(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  constexpr absl::string_view marker = "NCCL_PROBE_ENDPOINT";
  constexpr size_t block = 1 << 20;
  std::string bytes;
  for (std::string kept; file;) {
    bytes = kept;
    bytes.resize(kept.size() + block);
    file.read(bytes.data() + kept.size(), block);
    bytes.resize(kept.size() + static_cast<size_t>(file.gcount()));
    if (absl::StrContains(bytes, marker)) return true;
    kept = bytes.substr(bytes.size() - std::min(bytes.size(), marker.size()));
  }
  return false;
}

// As NCCL numbers itself: 22907 is 2.29.7.
std::string nccl_version_text(uint32_t v) {
  return v == 0 ? "version not known yet" : absl::StrCat(v / 10000, ".", v / 100 % 100, ".", v % 100);
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// Processes of this user (root: of all) that have NCCL or frames mapped.
std::vector<uint32_t> processes_with_nccl(const DoctorOptions& options) {
  std::vector<uint32_t> pids;
  std::error_code error;
  for (fs::directory_iterator it(options.proc_dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    struct stat status {};
    if (!is_number(name) || stat(it->path().c_str(), &status) != 0) continue;
    if (geteuid() != 0 && status.st_uid != geteuid()) continue;
    if (mappings_of(it->path().string()).of_nccl()) pids.push_back(static_cast<uint32_t>(std::stoul(name)));
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

// The folder of frames as the process itself sees it, when it is not ours.
std::string process_file_of(const DoctorOptions& options, const abi::ProcessName& name, uint32_t pid) {
  const std::string file = abi::process_file_name(name);
  const std::string here = absl::StrCat(options.dir, "/", file);
  std::error_code error;
  if (fs::exists(here, error)) return here;
  const std::string there = absl::StrCat(options.proc_dir, "/", pid, "/root", options.dir, "/", file);
  return fs::exists(there, error) ? there : here;
}

// NCCL_PROBE_ENDPOINT with which the process was started: its file shows only the one that it uses. That alone, if it
// is none of them: an operator has named it, or NCCL's configuration file.
std::vector<std::string> endpoints_of(const std::string& process_dir, const std::string& in_use) {
  constexpr absl::string_view name = "NCCL_PROBE_ENDPOINT=";
  std::ifstream file(process_dir + "/environ", std::ios::binary);
  for (std::string variable; std::getline(file, variable, '\0');) {
    if (!absl::StartsWith(variable, name)) continue;
    std::vector<std::string> all = endpoints_in(variable.substr(name.size()));
    if (std::find(all.begin(), all.end(), in_use) != all.end()) return all;
  }
  return {in_use};
}

// Whether keys are the reason that nothing of a process arrives.
void check_delivery(const std::string& who, const std::string& endpoint, size_t endpoints,
                    const abi::ProcessView& process, std::vector<Checked>& out) {
  const auto state = static_cast<abi::ServiceState>(process.metric(abi::MetricId::agent_service_state));
  const bool keys = process.metric(abi::MetricId::agent_service_keys) != 0;
  switch (state) {
    case abi::ServiceState::rejected:
      out.push_back(fail(absl::StrCat(who, ": ", endpoint, " does not accept its key"), "`ccld keys add` the public key of its NCCL_PROBE_KEY_FILE (`ccld keys show`)"));
      return;
    case abi::ServiceState::one_sided:
      out.push_back(keys ? fail(absl::StrCat(who, ": ", endpoint, " uses no keys, and NCCL_PROBE_SERVER_KEY demands one"), "give the service --telemetry-secret-file")
                         : fail(absl::StrCat(who, ": ", endpoint, " lets in only who has a key"), "set NCCL_PROBE_SERVER_KEY and NCCL_PROBE_KEY_FILE before it starts"));
      return;
    case abi::ServiceState::other_key:
      out.push_back(fail(absl::StrCat(who, ": ", endpoint, " ends the handshake"), "its key is not that of NCCL_PROBE_SERVER_KEY (`ccld keys show` on its host), or it has none (--telemetry-secret-file)"));
      return;
    case abi::ServiceState::unusable:
      out.push_back(fail(absl::StrCat(who, ": the endpoint, a key or libzmq cannot be used, nothing is sent"), "NCCL's log names it: NCCL_DEBUG=WARN"));
      return;
    default: break;
  }
  out.push_back(
      ok(absl::StrCat(who, ": it sends to ", endpoint, endpoints > 1 ? absl::StrCat(" (one of ", endpoints, ")") : "",
                      keys ? ", with keys" : ", without keys")));
}

void check_process(const DoctorOptions& options, const LocalProcesses& processes, uint32_t pid,
                   std::vector<Checked>& out, std::vector<std::string>& endpoints) {
  const std::string who = absl::StrCat("pid ", pid);
  const std::string folder = absl::StrCat(options.proc_dir, "/", pid);
  std::error_code error;
  if (!fs::exists(folder, error)) {
    out.push_back(fail(who + ": there is no such process here", "give the pid as this host (or this container) has it"));
    return;
  }
  const Mappings m = mappings_of(folder);
  if (!m.readable) {
    out.push_back(warn(who + ": its memory map cannot be read", "run as its owner or as root"));
  } else if (!m.of_nccl()) {
    out.push_back(fail(who + ": no libnccl.so.2 is loaded",
                       "it has not called NCCL yet, or NCCL is linked in: scripts/torch-demo tells which"));
    return;
  } else if (!m.libnccl.empty()) {
    const auto ours = is_ours(folder + "/root" + m.libnccl);
    if (ours.has_value() && !*ours) {
      out.push_back(fail(absl::StrCat(who, ": libnccl is not ours (", m.libnccl, ")"),
                         "LD_LIBRARY_PATH or LD_PRELOAD must name ours before it starts"));
      return;
    }
    out.push_back(ours.has_value() ? ok(absl::StrCat(who, ": our libnccl is loaded (", m.libnccl, ")"))
                                   : warn(absl::StrCat(who, ": ", m.libnccl, " cannot be read"), "run as its owner or as root"));
  }

  const std::string path = process_file_of(options, processes.name_of(pid), pid);
  std::string reason;
  const auto file = abi::MappedProcess::open(path, &reason);
  if (!file.has_value()) {
    const bool missing = reason == std::strerror(ENOENT);
    out.push_back(missing ? warn(absl::StrCat(who, ": no process file in ", options.dir),
                                 "no communicator yet, NCCL_PROBE_ENABLE=0, or another NCCL_PROBE_FRAMES_DIR (--dir)")
                          : fail(absl::StrCat(path, ": ", reason), "versions of libnccl and ccld must fit; or run as its owner"));
    return;
  }
  const abi::ProcessIdentityPart& id = file->view().identity();
  out.push_back(ok(absl::StrCat(who, ": NCCL ", nccl_version_text(id.nccl_version), ", process file version ", id.abi_major, ".",
                                id.abi_minor, ", job ", abi::ProcessView::text(id.job))));
  const abi::ControlStateLine state = file->view().control_state();
  if (state.running == 0) out.push_back(warn(who + ": its probe is stopped", absl::StrCat("ccld tune --pid ", pid, " running=1")));
  const std::string endpoint = abi::ProcessView::text(state.endpoint);
  if (endpoint.empty()) {
    out.push_back(warn(who + ": it sends no telemetry", "set NCCL_PROBE_ENDPOINT before it starts, or `ccld tune --pid N endpoint=...`"));
    return;
  }
  const std::vector<std::string> all = endpoints_of(folder, endpoint);
  endpoints.insert(endpoints.end(), all.begin(), all.end());
  check_delivery(who, endpoint, all.size(), file->view(), out);
}

}  // namespace

std::string text_of(const Checked& f) {
  const char* const word = f.health == Health::ok ? "ok" : f.health == Health::warn ? "warn" : "FAIL";
  return absl::StrFormat("%-5s %s%s%s", word, report::printable(f.what), f.remedy.empty() ? "" : "  -> ",
                         report::printable(f.remedy));
}

std::vector<Checked> check_folder(const DoctorOptions& options) {
  std::vector<Checked> out;
  struct statvfs space {};
  if (statvfs(options.dir.c_str(), &space) != 0) {
    out.push_back(fail(absl::StrCat(options.dir, ": ", std::strerror(errno)), "frames need this folder: --dir, NCCL_PROBE_FRAMES_DIR"));
    return out;
  }
  if (access(options.dir.c_str(), W_OK | X_OK) != 0)
    out.push_back(fail(absl::StrCat(options.dir, " is not writable for this user"), "chmod 1777, as on every host"));
  // What the probe leaves to NCCL (probe/README.md): with less, frames lie in the memory of processes and nobody sees them.
  constexpr uint64_t left_to_others = 256ull << 20;
  const uint64_t total = uint64_t{space.f_blocks} * space.f_frsize, free = uint64_t{space.f_bavail} * space.f_frsize;
  const std::string room = absl::StrCat(options.dir, ": ", free >> 20, " of ", total >> 20, " MiB free");
  if (free < std::min(left_to_others, total / 2))
    out.push_back(warn(room, "remove what is left over (ccld frames --clean), or give the container a larger one (--shm-size)"));
  else
    out.push_back(ok(room));
  size_t files = 0, closed = 0;
  std::error_code error;
  for (fs::directory_iterator it(options.dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    abi::ProcessName owner;
    uint32_t number = 0;
    if (!abi::parse_frame_file_name(name, &owner, &number) && !abi::parse_process_file_name(name, &owner)) continue;
    ++files;
    if (access(it->path().c_str(), R_OK) != 0) ++closed;
  }
  if (closed > 0)
    out.push_back(warn(absl::StrCat(closed, " of ", files, " frame and process files belong to another user"), "run as their owner or as root"));
  else
    out.push_back(ok(report::count_text(files, "frame or process file", "frame and process files")));
  return out;
}

std::vector<Checked> check_processes(const DoctorOptions& options, std::vector<std::string>* endpoints) {
  std::vector<Checked> out;
  const LocalProcesses processes(options.proc_dir);
  const bool named = !options.pids.empty();
  for (const uint32_t pid : named ? options.pids : processes_with_nccl(options)) {
    std::vector<Checked> of_process;
    std::vector<std::string> its_endpoints;
    check_process(options, processes, pid, of_process, its_endpoints);
    // It ended while it was looked at. That is no fault, unless the user asked for this process.
    if (!named && !mappings_of(absl::StrCat(options.proc_dir, "/", pid)).of_nccl()) continue;
    out.insert(out.end(), of_process.begin(), of_process.end());
    if (endpoints != nullptr) endpoints->insert(endpoints->end(), its_endpoints.begin(), its_endpoints.end());
  }
  if (out.empty())
    out.push_back(warn("no process of this user uses NCCL here", "run it where the ranks are; --pid N looks at one"));
  return out;
}

std::vector<std::string> endpoints_to_check(const std::string& given, std::vector<std::string> of_processes) {
  constexpr char default_endpoint[] = "tcp://127.0.0.1:5566";  // of `ccld serve`
  std::vector<std::string> all = std::move(of_processes);
  if (!given.empty()) all = endpoints_in(given);
  if (all.empty()) all = {given.empty() ? default_endpoint : given};
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Checked handshake_finding(const std::string& endpoint, Handshake handshake, bool keys) {
  const std::string what = absl::StrCat("telemetry ", endpoint);
  switch (handshake) {
    case Handshake::done:
      return keys ? ok(what + " accepts our key and has proved its own: authentication is in force") : ok(what + " answers as ZeroMQ does");
    case Handshake::rejected:
      return fail(what + " does not accept our key", "`ccld keys add` adds its public key to the service's list (`ccld keys show` prints that)");
    case Handshake::one_sided:
      return keys ? fail(what + " uses no keys, and ours demand that it proves its own", "give the service --telemetry-secret-file, or unset NCCL_PROBE_SERVER_KEY and NCCL_PROBE_KEY_FILE")
                  : warn(what + " lets in only who has a key: authentication is in force, and none was given here", "--server-key and --key-file, as the probes have them in NCCL_PROBE_SERVER_KEY and NCCL_PROBE_KEY_FILE");
    case Handshake::broken_off:
      if (keys) return fail(what + " breaks off the handshake", "its key is not that of NCCL_PROBE_SERVER_KEY (`ccld keys show` on its host), it uses no keys (--telemetry-secret-file), or it is another program");
      [[fallthrough]];
    case Handshake::silent:
      return fail(what + " accepts connections and does not speak ZeroMQ", "another program listens there: `ccld serve --listen` says where ours does");
    case Handshake::unreachable: break;
  }
  return fail(what + " cannot be reached", "is `ccld serve` running, does it listen there, does a firewall stand between?");
}

Checked check_endpoint_answers(const std::string& endpoint, const std::optional<ProbeKeys>& keys) {
  const std::string what = absl::StrCat("telemetry ", endpoint);
  if (const absl::Status s = server::check_endpoint(endpoint); !s.ok())
    return fail(absl::StrCat(what, ": ", s.message()), "tcp://address:port or ipc://path");
  constexpr std::chrono::milliseconds timeout(3000);
  try {
    return handshake_finding(endpoint, try_handshake(endpoint, keys, timeout), keys.has_value());
  } catch (const zmq::error_t& e) {
    return fail(absl::StrCat(what, ": ", e.what()), "tcp://address:port or ipc://path");
  }
}

namespace {

// Who may send and ask; an older service does not say.
void check_access(const Json& access, std::vector<Checked>& out) {
  if (!access.is_object()) return;
  const bool keys = report::text_of(access, "telemetry") == "keys";
  out.push_back(keys ? ok(absl::StrCat("telemetry is authenticated: ", report::count_text(report::number_of(access, "keys"), "key is", "keys are"), " let in"))
                     : ok("telemetry is not authenticated: everyone who reaches the service can send"));
  const bool tls = access.value("tls", false);
  out.push_back(report::text_of(access, "http") == "tokens"
                    ? ok(absl::StrCat("questions need a token", tls ? "" : ", which crosses the network unencrypted"))
                    : ok("questions are not authenticated: everyone who reaches the service can ask"));
  if (const uint64_t refused = report::number_of(access, "refused_total"); refused > 0) {
    std::string reasons;
    for (const auto& [reason, count] : report::member(access, "refused").items()) {
      if (count.is_number_unsigned() && count.get<uint64_t>() > 0)
        absl::StrAppend(&reasons, reasons.empty() ? "" : ", ", reason, " ", count.get<uint64_t>());
    }
    out.push_back(warn(absl::StrCat("the service turned away ", report::count_text(refused, "connection", "connections"), " (", reasons, ")"),
                       "ccld status names them; ccld keys add lets a key in"));
  }
}

}  // namespace

std::vector<Checked> check_service(const ServiceAddress& service) {
  std::vector<Checked> out;
  const auto health = ask_service(service, "/healthz");
  if (!health.ok()) {
    out.push_back(fail(std::string(health.status().message()), "start `ccld serve`, or say where it is: --http, CCLD_HTTP"));
    if (absl::StrContains(health.status().message(), "no service answers")) return out;
  } else {
    out.push_back(ok(absl::StrCat("service ", service.url, " is well, its newest look is ", report::number_of(*health, "last_look_ms"), " ms old")));
  }
  const absl::Time before = absl::Now();
  const auto status = ask_service(service, "/v1/status?limit=1");
  const absl::Time after = absl::Now();
  if (!status.ok()) {
    const bool token = absl::IsUnauthenticated(status.status()) || absl::IsPermissionDenied(status.status());
    out.push_back(fail(std::string(status.status().message()),
                       token ? "`ccld tokens add` on the service's host makes one" : "versions of ccld must fit on both sides"));
    return out;
  }
  const std::string version = report::text_of(*status, "version", "?");
  out.push_back(version == CCLD_VERSION
                    ? ok(absl::StrCat("service and this ccld are both version ", version))
                    : warn(absl::StrCat("the service is version ", version, ", this ccld is ", CCLD_VERSION), "use the same on both sides"));
  absl::Time theirs;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, report::text_of(*status, "time"), &theirs, &error)) {
    // Its newest snapshot may be some seconds old, which is not its clock's fault.
    const absl::Duration apart = theirs > after ? theirs - after : theirs < before ? before - theirs : absl::ZeroDuration();
    constexpr absl::Duration apart_max = absl::Seconds(10);
    const std::string text = absl::StrCat("the clocks of the service and of this host are ", absl::ToInt64Milliseconds(apart), " ms apart at most");
    out.push_back(apart <= apart_max ? ok(text) : warn(text, "times in verdicts are the service's: run NTP on both"));
  }
  check_access(report::member(*status, "access"), out);
  const Json& ingest = report::member(*status, "ingest");
  const uint64_t batches = report::number_of(ingest, "batches");
  const uint64_t refused = report::number_of(ingest, "rejected_total");
  const uint64_t other_version = report::number_of(report::member(ingest, "rejected"), "version");
  if (other_version > 0)
    out.push_back(fail(absl::StrCat("the service refused ", other_version, " messages of another version"), "libnccl and ccld must be of one release"));
  else if (refused > 0)
    out.push_back(warn(absl::StrCat("the service refused ", refused, " messages"), "ccld status names the reason"));
  if (batches == 0)
    out.push_back(warn("the service has heard of no process", "NCCL_PROBE_ENDPOINT of the ranks must name its telemetry endpoint"));
  else
    out.push_back(ok(absl::StrCat("the service knows ", report::count_text(report::number_of(*status, "process_count"), "process", "processes"))));
  if (const uint64_t lost = report::number_of(ingest, "lost_batches"); lost > 0)
    out.push_back(warn(absl::StrCat("the service missed ", lost, " of ", lost + batches, " batches"), "processes ended, or the network loses telemetry: see dropped_batches in /v1/processes"));
  return out;
}

}  // namespace ccld::decision
