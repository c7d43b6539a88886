#include "nccl/hooks/own_log.h"

#include "debug.h"
#include "nccl/hooks/ccld_hooks.h"
#include "probe/probe.h"

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

}  // namespace ccld::hooks

bool ccld_warns() { return ccld::hooks::warning; }
