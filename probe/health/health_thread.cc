#include "probe/health/health_thread.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>

#include "probe/agent/diagnostic_thread.h"
#include "probe/counters/log.h"
#include "probe/counters/signals.h"
#include "probe/frames/frame_file.h"
#include "probe/health/neighbours.h"
#include "probe/health/sampler.h"
#include "probe/settings.h"

namespace ccld::probe {
namespace {

constexpr unsigned long timer_slack_ns = 50000000;  // nobody cares when exactly
constexpr unsigned stop_wait_ms_max = 300;

class Lock {
 public:
  explicit Lock(pthread_mutex_t* mutex) : mutex_(mutex) { pthread_mutex_lock(mutex_); }
  ~Lock() { pthread_mutex_unlock(mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t* mutex_;
};

timespec as_timespec(uint64_t ns) {
  timespec t{};
  t.tv_sec = static_cast<time_t>(ns / ns_per_s);
  t.tv_nsec = static_cast<long>(ns % ns_per_s);
  return t;
}

std::atomic<HealthThread*> of_process{nullptr};

void stop_at_exit() {
  if (in_forked_child()) return;  // the thread is its parent's, and so may be the lock
  if (HealthThread* thread = of_process.load(std::memory_order_acquire)) thread->stop(stop_wait_ms_max);
}

}  // namespace

HealthThread::HealthThread(Options options, ProcessFile* file) : options_(std::move(options)), file_(file) {
  pthread_mutex_init(&mutex_, nullptr);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&changed_, &attributes);
  pthread_condattr_destroy(&attributes);
}

void HealthThread::collect(Instant now, std::vector<Message>* out) {
  MetricsMessage message;
  {
    Lock lock(&mutex_);
    if (stop_ || failed_) return;
    const bool sleeps = now.monotonic_ns - asked_ns_ > options_.timeout_ns;
    asked_ns_ = now.monotonic_ns;
    if (!started_ && !start()) return;
    if (sleeps) pthread_cond_broadcast(&changed_);
    if (version_ == told_version_) return;
    told_version_ = version_;
    message.metrics = values_;
  }
  if (!message.metrics.empty()) out->push_back(std::move(message));
}

bool HealthThread::start() {
  const int error = [this] {
    const SignalsBlocked blocked;
    return pthread_create(&thread_, nullptr, run, this);
  }();
  if (error != 0) {
    failed_ = true;
    warn_once(Warning::thread, std::string("no health thread, nothing is said of the host: ") + strerror(error));
    return false;
  }
  pthread_setname_np(thread_, "ccld-health");
  started_ = true;
  return true;
}

void* HealthThread::run(void* self) {
  auto* thread = static_cast<HealthThread*>(self);
  prctl(PR_SET_TIMERSLACK, timer_slack_ns, 0, 0, 0);
  try {
    thread->loop();
  } catch (const std::exception& e) {
    warn_of_exception("the health thread has ended, nothing is said of the host any more", e);
  }
  Lock lock(&thread->mutex_);
  thread->finished_ = true;
  pthread_cond_broadcast(&thread->changed_);
  return nullptr;
}

bool HealthThread::wait_until(uint64_t monotonic_ns) {
  const timespec until = as_timespec(monotonic_ns);
  SystemClock clock;
  Lock lock(&mutex_);
  while (!stop_) {
    const uint64_t now_ns = clock.now().monotonic_ns;
    const bool asked = now_ns < asked_ns_ + options_.timeout_ns;
    if (asked && now_ns >= monotonic_ns) return true;
    if (asked)
      pthread_cond_timedwait(&changed_, &mutex_, &until);
    else
      pthread_cond_wait(&changed_, &mutex_);
  }
  return false;
}

void HealthThread::loop() {
  SystemClock clock;
  SamplerOptions sampler_options;
  sampler_options.period_ns = options_.period_ns;
  Sampler sampler(sampler_options, clock);
  std::vector<std::string> absent;
  add_all_parts(&sampler, options_.roots, &absent);
  for (const std::string& line : absent) log_line(LogLevel::info, "health: " + line);
  const ProcessIdentity& process = process_identity();
  Neighbours neighbours({options_.frames_dir, process.name, process.boot_id, options_.stale_keep_ns});
  bool speaks = false;
  uint64_t looked_ns = 0;
  do {
    const uint64_t now_ns = clock.now().monotonic_ns;
    if (looked_ns == 0 || now_ns - looked_ns > options_.look_again_ns) {
      speaks = neighbours.look(now_ns);
      looked_ns = now_ns;
    }
    if (sampler.tick(speaks)) {
      Metrics values = sampler.values();
      Lock lock(&mutex_);
      values_.swap(values);
      ++version_;
    }
    metric_set(file_, abi::MetricId::health_cpu_ns, clock.thread_cpu_ns());
    metric_set(file_, abi::MetricId::health_sources, sampler.source_count());
  } while (wait_until(std::max(sampler.next_due_ns(), clock.now().monotonic_ns + options_.period_ns / 2)));
}

bool HealthThread::stop(unsigned wait_ms_max) {
  SystemClock clock;
  const timespec until = as_timespec(clock.now().monotonic_ns + wait_ms_max * ns_per_ms);
  bool ended = true;
  bool joinable = false;
  {
    Lock lock(&mutex_);
    if (stop_) return true;
    stop_ = true;
    pthread_cond_broadcast(&changed_);
    joinable = started_;
    while (started_ && !finished_) {
      if (pthread_cond_timedwait(&changed_, &mutex_, &until) != 0) break;
    }
    ended = !started_ || finished_;
  }
  if (joinable) {
    if (ended)
      pthread_join(thread_, nullptr);
    else
      pthread_detach(thread_);  // it is in a call of a driver that does not return
  }
  return ended;
}

ProcessSource* health_source() {
  if (settings().health_ms == 0) return nullptr;
  ProcessFile* file = process_file();
  if (file == nullptr) return nullptr;
  static HealthThread* const thread = [file] {
    HealthThread::Options options;
    options.frames_dir = settings().frames_dir;
    options.stale_keep_ns = static_cast<uint64_t>(settings().stale_keep_s) * ns_per_s;
    options.period_ns = static_cast<uint64_t>(settings().health_ms) * ns_per_ms;
    auto* made = new HealthThread(options, file);
    of_process.store(made, std::memory_order_release);
    std::atexit(stop_at_exit);
    return made;
  }();
  return thread;
}

}  // namespace ccld::probe
