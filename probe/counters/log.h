// Where the probe says something: NCCL's own log, through the function given to set_log. At most one line per kind of
// trouble.
//
// Threads: all functions, any thread.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "probe/probe.h"

namespace ccld::probe {

// Kinds of trouble. Each is reported once per process; later occurrences only count.
enum class Warning : uint8_t {
  frame_file,
  thread,
  memory,
  transport_library,
  transport_endpoint,
  transport_context,
  transport_keys,
  file_lost,
  file_gone,
  other,
  count
};

void log_set(Log);
// Lines of less importance than that are left out (NCCL_DEBUG filters what is left).
void log_set_verbosity(abi::LogVerbosity);
// Unconditionally; used for the lines that are already unique, such as one per wrong setting.
void log_line(LogLevel, const std::string& line);
// Only with LogVerbosity::trace: what happens often.
void log_trace(const std::string& line);
inline void log_warning(const std::string& line) { log_line(LogLevel::warning, line); }
// Logs `line` as a warning if this kind was never reported. Returns whether it did.
bool warn_once(Warning, const std::string& line);
// An exception that leaves a thread ends the process, which is somebody's training: "`ended`: out of memory" instead, once.
void warn_of_exception(const char* ended, const std::exception&) noexcept;
uint64_t warning_count(Warning);

}  // namespace ccld::probe
