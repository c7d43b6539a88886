// The thread that looks after the process and its host, once a second, so that slow sources never delay the diagnostic
// thread.
//
// Contract
//   health_source() is what the diagnostic thread asks. Its first question starts the thread "ccld-health" (all signals
//   blocked); five seconds without a question put it to sleep until the next. So a process that sends nothing has no
//   such thread. It ends with the process, in bounded time; a forked child has none. Each source that does not exist is
//   said once, as an information line. Files of processes that are gone are removed (neighbours.h). Off with
//   NCCL_PROBE_HEALTH_MS=0. Its processor time is metric health_cpu_ns.
//
// Threads: HealthThread::collect, one (the diagnostic thread); stop, any.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "probe/agent/sources.h"
#include "probe/health/part.h"
#include "probe/process/process_file.h"

namespace ccld::probe {

class HealthThread final : public ProcessSource {
 public:
  struct Options {
    HealthRoots roots;
    std::string frames_dir;
    uint64_t period_ns = ns_per_s;
    uint64_t timeout_ns = 5 * ns_per_s;      // without a question
    uint64_t look_again_ns = 30 * ns_per_s;  // how often it is looked who else is there
    uint64_t stale_keep_ns = 600 * ns_per_s;
  };
  // Lives until the process ends: the thread may outlast everything else.
  HealthThread(Options options, ProcessFile* file);

  void collect(Instant now, std::vector<Message>* out) override;
  // Idempotent; afterwards nothing starts the thread again. Waits at most `wait_ms_max`; true if the thread has ended.
  bool stop(unsigned wait_ms_max);

 private:
  static void* run(void* self);
  void loop();
  bool start();
  bool wait_until(uint64_t monotonic_ns);  // false: it is to end

  const Options options_;
  ProcessFile* const file_;
  pthread_mutex_t mutex_;
  pthread_cond_t changed_;
  // guarded by mutex_
  bool started_ = false;
  bool failed_ = false;
  bool stop_ = false;
  bool finished_ = false;
  uint64_t asked_ns_ = 0;
  Metrics values_;
  uint64_t version_ = 0;
  // the diagnostic thread
  uint64_t told_version_ = 0;
  pthread_t thread_{};
};

}  // namespace ccld::probe
