// Time as the diagnostic thread sees it, injected so that tests own it.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <ctime>

namespace ccld::probe {

struct Instant {
  uint64_t monotonic_ns = 0;
  int64_t realtime_ns = 0;
  // Of a sample: what it sees happened since the sample before, by so much earlier on average.
  int64_t seen_late_ns = 0;
  int64_t happened_realtime_ns() const { return realtime_ns - seen_late_ns; }
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
  // Processor time of the calling thread.
  virtual uint64_t thread_cpu_ns() const = 0;
};

class SystemClock final : public Clock {
 public:
  Instant now() const override { return {read(CLOCK_MONOTONIC), static_cast<int64_t>(read(CLOCK_REALTIME))}; }
  uint64_t thread_cpu_ns() const override { return read(CLOCK_THREAD_CPUTIME_ID); }

 private:
  static uint64_t read(clockid_t id) {
    timespec t{};
    clock_gettime(id, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
  }
};

constexpr uint64_t ns_per_us = 1000;
constexpr uint64_t ns_per_ms = 1000000;
constexpr uint64_t ns_per_s = 1000000000;

}  // namespace ccld::probe
