#include "nccl/hooks/own_log.h"

#include <mutex>

#include "debug.h"
#include "nccl/hooks/ccld_hooks.h"
#include "probe/probe.h"
#include "schemas/build_id/build_id.h"

namespace ccld::hooks {
namespace {

thread_local bool warning = false;

void log_through_nccl(probe::LogLevel level, const char* line) {
  if (level == probe::LogLevel::warning) {
    warning = true;
    WARN("PROBE %s", line);
    warning = false;
  } else {
    INFO(NCCL_INIT, "PROBE %s", line);
  }
}

}  // namespace

void connect_log() { probe::set_log(&log_through_nccl); }

void inform(const std::string& line) { log_through_nccl(probe::LogLevel::info, line.c_str()); }

void warn(const std::string& line) { log_through_nccl(probe::LogLevel::warning, line.c_str()); }

void say_build(int rank) {
  // The first message of a process has NCCL read NCCL_DEBUG; its version, before this, was that.
  const bool every_rank = ncclDebugLevel > NCCL_LOG_WARN;
  if (!every_rank && (ncclDebugLevel == NCCL_LOG_NONE || rank != 0)) return;
  static std::once_flag said;
  std::call_once(said, [every_rank] {
    const std::string line = std::string("PROBE ccld ") + release_version() + ", build " + build_id() +
                             (probe::enabled() ? "" : ", off (NCCL_PROBE_ENABLE=0)");
    if (every_rank)
      inform(line.substr(sizeof("PROBE ") - 1));
    else
      VERSION("%s", line.c_str());
  });
}

}  // namespace ccld::hooks

bool ccld_warns() { return ccld::hooks::warning; }
