#include "probe/counters/log.h"

#include <atomic>

namespace ccld::probe {
namespace {

std::atomic<Log> current_log{nullptr};
std::atomic<abi::LogVerbosity> verbosity{abi::LogVerbosity::info};
std::atomic<uint64_t> occurrences[static_cast<size_t>(Warning::count)];

}  // namespace

void log_set(Log log) { current_log.store(log, std::memory_order_release); }

void log_set_verbosity(abi::LogVerbosity wanted) { verbosity.store(wanted, std::memory_order_relaxed); }

void log_trace(const std::string& line) {
  if (verbosity.load(std::memory_order_relaxed) >= abi::LogVerbosity::trace) log_line(LogLevel::info, line);
}

void log_line(LogLevel level, const std::string& line) {
  if (level == LogLevel::info && verbosity.load(std::memory_order_relaxed) < abi::LogVerbosity::info) return;
  if (Log log = current_log.load(std::memory_order_acquire)) log(level, line.c_str());
}

bool warn_once(Warning kind, const std::string& line) {
  if (occurrences[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed) != 0) return false;
  log_line(LogLevel::warning, line);
  return true;
}

void warn_of_exception(const char* ended, const std::exception& e) noexcept {
  try {
    warn_once(Warning::memory, std::string(ended) + ": " + e.what());
  } catch (const std::exception&) {  // not even for the line
  }
}

uint64_t warning_count(Warning kind) { return occurrences[static_cast<size_t>(kind)].load(std::memory_order_relaxed); }

}  // namespace ccld::probe
