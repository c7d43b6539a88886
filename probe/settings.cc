#include "probe/settings.h"

#include <cerrno>
#include <cstdlib>
#include <variant>

#include "probe/counters/log.h"
#include "schemas/abi/job.h"
#include "schemas/endpoints/endpoint_list.h"

namespace ccld::probe {
namespace {

using Member = std::variant<bool Settings::*, int64_t Settings::*, std::string Settings::*>;

enum class Text { any, job, folder, endpoint, server_key, key_file };

struct Row {
  const char* name;
  Member member;
  const char* default_text;
  int64_t min, max;  // of numbers
  Text text;         // of strings
  const char* help;
};

// The order is that of the README. 63 characters is what a probing frame has room for.
constexpr size_t job_bytes_max = 63;

const Row table[] = {
    {"NCCL_PROBE_ENABLE", &Settings::enable, "1", 0, 1, Text::any, "0 switches the probe off completely."},
    {"NCCL_PROBE_ENDPOINT", &Settings::endpoint, "", 0, 0, Text::endpoint,
     "Where `ccld serve` listens, for example `tcp://127.0.0.1:5566`. Several are the nodes of one service: one is "
     "used at a time. Empty: nothing is sent, the frames can still be read."},
    {"NCCL_PROBE_SERVER_KEY", &Settings::server_key, "", 0, 0, Text::server_key,
     "Public key of the service: 40 characters, or the file that has it (it begins with `/`). With it telemetry is "
     "encrypted and goes only to a service that proves this key. A key that cannot be used: nothing is sent."},
    {"NCCL_PROBE_KEY_FILE", &Settings::key_file, "", 0, 0, Text::key_file,
     "File with the secret key by which the service knows this process (`ccld keys make`). Needed with "
     "`NCCL_PROBE_SERVER_KEY`."},
    {"NCCL_PROBE_JOB", &Settings::job, abi::unnamed_job, 0, 0, Text::job,
     "Name of the job, equal on all its ranks. Not set: `SLURM_JOB_ID` if there is one."},
    {"NCCL_PROBE_FRAMES_DIR", &Settings::frames_dir, "/dev/shm", 0, 0, Text::folder,
     "Folder of the probing frames; it should be in memory and private to the machine."},
    {"NCCL_PROBE_FRAMES_SHARED", &Settings::frames_shared, "0", 0, 1, Text::any,
     "1: other users of the machine may read the frames too. Each process of a job that runs as another user needs "
     "it."},
    {"NCCL_PROBE_SAMPLE_US", &Settings::sample_us, "1000", 100, 1000000, Text::any,
     "Time between two samples while an operation is in flight (the paper's 1 ms)."},
    {"NCCL_PROBE_BUDGET_PPM", &Settings::budget_ppm, "3000", 0, 1000000, Text::any,
     "Processor time that the diagnostic thread may use for each GPU of the process, in millionths of one core: 3000 "
     "is "
     "0.3 %. Sampling slows down to stay within it. 0: no budget."},
    {"NCCL_PROBE_IDLE_MS", &Settings::idle_ms, "20", 1, 1000, Text::any,
     "Longest time between two samples soon after something was in flight: a new operation is noticed at most that "
     "late."},
    {"NCCL_PROBE_REST_MS", &Settings::rest_ms, "1000", 1, 1000, Text::any,
     "Longest sleep once nothing has been in flight for a few seconds; a new operation then wakes the thread."},
    {"NCCL_PROBE_FLUSH_MS", &Settings::flush_ms, "100", 1, 10000, Text::any,
     "Finished rounds are sent that often, batched."},
    {"NCCL_PROBE_HEARTBEAT_MS", &Settings::heartbeat_ms, "1000", 100, 60000, Text::any,
     "How often every communicator reports where it stands, and the probe its own health. At rest half as often, "
     "but not less often than every 2 s unless that was asked for."},
    {"NCCL_PROBE_LATE_MS", &Settings::late_ms, "1000", 10, 3600000, Text::any,
     "A communicator is late when something is in flight and nothing moved for that long."},
    {"NCCL_PROBE_LATE_REPORT_MS", &Settings::late_report_ms, "100", 10, 60000, Text::any,
     "How often a late communicator reports where it stands."},
    {"NCCL_PROBE_POLL_FRESH_MS", &Settings::poll_fresh_ms, "1000", 10, 60000, Text::any,
     "A thread of the GPU counts as waiting if it polled within that time; otherwise it is silent."},
    {"NCCL_PROBE_QUEUE_MAX", &Settings::queue_max, "256", 1, 100000, Text::any,
     "Batches that wait for the service before new ones are dropped (and counted)."},
    {"NCCL_PROBE_LINGER_MS", &Settings::linger_ms, "200", 0, 200, Text::any,
     "Longest time the end of the process waits for batches that are not sent yet."},
    {"NCCL_PROBE_SIBLINGS_MS", &Settings::siblings_ms, "500", 100, 60000, Text::any,
     "How often the states of the other processes of the job on this machine are read."},
    {"NCCL_PROBE_STALE_KEEP_S", &Settings::stale_keep_s, "600", 0, 604800, Text::any,
     "How long the frame of a killed process is kept for `ccld frames` before a living process removes it."},
    {"NCCL_PROBE_HEALTH_MS", &Settings::health_ms, "1000", 0, 60000, Text::any,
     "How often the process, its host, GPUs and network ports are looked at (costly sources less often). 0: never."},
    {"NCCL_PROBE_STREAM_WRITES", &Settings::stream_writes, "0", 0, 1, Text::any,
     "1: the stream itself says when a symmetric kernel or a collective of the copy engines begins and ends "
     "(`cuStreamWriteValue32` before and after it). Such a kernel then no longer overlaps with its neighbours on the "
     "stream. "
     "0: nothing is measured of them."},
    {"NCCL_PROBE_VALIDATE", &Settings::validate, "0", 0, 1, Text::any,
     "1: who may tune the probes may also test the hardware of this process while the job runs (`ccld validate "
     "--in-job`): it then holds before a collective, for 5 s unless more is asked for."},
};

std::string accepted(const Row& row) {
  if (std::holds_alternative<bool Settings::*>(row.member)) return "0 or 1";
  if (std::holds_alternative<int64_t Settings::*>(row.member))
    return std::to_string(row.min) + " to " + std::to_string(row.max);
  switch (row.text) {
    case Text::endpoint:
      return "transport://address, up to " + std::to_string(endpoints_max) +
             " of tcp://address:port with commas between them, or empty";
    case Text::folder: return "an absolute path";
    case Text::server_key: return "a key, an absolute path or empty";
    case Text::key_file: return "an absolute path or empty";
    case Text::job: return "1 to " + std::to_string(job_bytes_max) + " printable characters";
    case Text::any: break;
  }
  return "any text";
}

bool acceptable_text(Text kind, const std::string& text) {
  switch (kind) {
    case Text::endpoint: return text.empty() || !endpoints_in(text).empty();
    case Text::folder: return !text.empty() && text[0] == '/';
    case Text::job:
      if (text.empty() || text.size() > job_bytes_max) return false;
      for (unsigned char c : text)
        if (c < 0x20 || c == 0x7f) return false;
      return true;
    case Text::server_key:  // judged where they are used: there is no default that would do in their place
    case Text::key_file:
    case Text::any: break;
  }
  return true;
}

bool parse_number(const std::string& text, int64_t min, int64_t max, int64_t* value) {
  if (text.empty() || text[0] == ' ') return false;
  char* end = nullptr;
  errno = 0;
  const long long parsed = std::strtoll(text.c_str(), &end, 10);
  if (errno != 0 || *end != '\0' || parsed < min || parsed > max) return false;
  *value = parsed;
  return true;
}

bool assign(const Row& row, const std::string& text, Settings* settings) {
  if (auto member = std::get_if<bool Settings::*>(&row.member)) {
    if (text != "0" && text != "1") return false;
    settings->*(*member) = text == "1";
    return true;
  }
  if (auto member = std::get_if<int64_t Settings::*>(&row.member))
    return parse_number(text, row.min, row.max, &(settings->*(*member)));
  if (!acceptable_text(row.text, text)) return false;
  settings->*std::get<std::string Settings::*>(row.member) = text;
  return true;
}

}  // namespace

Settings parse_settings(const Environment& environment, std::vector<std::string>* warnings) {
  Settings settings;
  for (const Row& row : table) {
    assign(row, row.default_text, &settings);
    if (row.text == Text::job) {
      const char* slurm_job = environment("SLURM_JOB_ID");
      if (slurm_job != nullptr) assign(row, slurm_job, &settings);
    }
    const char* given = environment(row.name);
    if (given == nullptr || assign(row, given, &settings)) continue;
    if (warnings != nullptr)
      warnings->push_back(std::string(row.name) + "=\"" + given + "\" is not usable (accepted: " + accepted(row) +
                          "), using the default \"" + row.default_text + "\"");
  }
  return settings;
}

const Settings& settings() {
  // Never destroyed: threads may still look at it while the process ends.
  static const Settings* const process_settings = [] {
    std::vector<std::string> warnings;
    auto* parsed = new Settings(parse_settings([](const char* name) { return std::getenv(name); }, &warnings));
    for (const std::string& line : warnings) log_line(LogLevel::warning, line);
    return parsed;
  }();
  return *process_settings;
}

std::string settings_markdown() {
  std::string text = "| variable | default | accepted | meaning |\n|---|---|---|---|\n";
  for (const Row& row : table) {
    const std::string shown = row.default_text[0] == '\0' ? "empty" : "`" + std::string(row.default_text) + "`";
    text += "| `" + std::string(row.name) + "` | " + shown + " | " + accepted(row) + " | " + row.help + " |\n";
  }
  return text;
}

}  // namespace ccld::probe
