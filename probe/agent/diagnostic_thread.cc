#include "probe/agent/diagnostic_thread.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>

#include <pthread.h>
#include <sys/prctl.h>

#include "probe/counters/log.h"
#include "probe/frames/frame_file.h"
#include "probe/settings.h"
#include "probe/transport/zmq_transport.h"

namespace ccld::probe {
namespace {

// Nothing of this is ever destroyed: communicators may end after the static objects of the process.
struct Diagnostics {
  SystemClock clock;
  Agent agent;
  pthread_t thread{};
  std::atomic<bool> stop{false};
  std::atomic<bool> finished{false};

  Diagnostics(const Settings& settings, const Sender& sender) : agent(settings, sender, clock) {}
};

std::mutex start_mutex;
std::atomic<Diagnostics*> diagnostics{nullptr};
std::atomic<bool> forked{false};
std::atomic<bool> ending{false};

// A sleep of 1 ms should not become 1.05: the default slack of 50 us is for threads that do not care.
constexpr unsigned long timer_slack_ns = 10000;
constexpr int stop_wait_ms_max = 1000;

void sleep_until(uint64_t monotonic_ns) {
  timespec t{};
  t.tv_sec = static_cast<time_t>(monotonic_ns / ns_per_s);
  t.tv_nsec = static_cast<long>(monotonic_ns % ns_per_s);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
}

void* run(void* argument) {
  auto& d = *static_cast<Diagnostics*>(argument);
  prctl(PR_SET_TIMERSLACK, timer_slack_ns, 0, 0, 0);
  const Settings& s = settings();
  if (!s.endpoint.empty()) {
    ZmqOptions options;
    options.endpoint = s.endpoint;
    options.queue_max = static_cast<int>(s.queue_max);
    options.linger_ms = static_cast<int>(s.linger_ms);
    d.agent.set_transport(open_zmq_transport(options));
    // Once more: handlers run in reverse order, and the thread must stop before libzmq's own static objects go.
    std::atexit(stop_diagnostic_thread);
  }
  while (!d.stop.load(std::memory_order_acquire)) sleep_until(d.agent.tick());
  d.agent.close();
  d.agent.set_transport(nullptr);
  d.finished.store(true, std::memory_order_release);
  return nullptr;
}

bool start_thread(Diagnostics* d) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&d->thread, nullptr, run, d);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    warn_once(Warning::thread, std::string("no diagnostic thread, nothing is sent: ") + std::strerror(error));
    return false;
  }
  pthread_setname_np(d->thread, "ccld-probe");
  return true;
}

}  // namespace

bool in_forked_child() { return forked.load(std::memory_order_relaxed); }

Agent* existing_agent() {
  if (in_forked_child()) return nullptr;
  Diagnostics* d = diagnostics.load(std::memory_order_acquire);
  return d != nullptr ? &d->agent : nullptr;
}

Agent* running_agent() {
  if (in_forked_child() || ending.load(std::memory_order_acquire)) return nullptr;
  if (Diagnostics* d = diagnostics.load(std::memory_order_acquire)) return &d->agent;
  std::lock_guard<std::mutex> lock(start_mutex);
  if (Diagnostics* d = diagnostics.load(std::memory_order_acquire)) return &d->agent;
  static bool failed = false;
  if (failed) return nullptr;
  Sender sender;
  sender.job = settings().job;
  sender.boot_id = process_identity().boot_id;
  sender.pid = process_identity().pid;
  sender.pid_start_ticks = process_identity().start_ticks;
  auto* d = new Diagnostics(settings(), sender);
  pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
  std::atexit(stop_diagnostic_thread);
  if (!start_thread(d)) {
    failed = true;
    delete d;
    return nullptr;
  }
  diagnostics.store(d, std::memory_order_release);
  return &d->agent;
}

void stop_diagnostic_thread() {
  if (in_forked_child() || ending.exchange(true, std::memory_order_acq_rel)) return;
  Diagnostics* d = diagnostics.load(std::memory_order_acquire);
  if (d == nullptr) return;
  d->stop.store(true, std::memory_order_release);
  // It wakes up at least every NCCL_PROBE_IDLE_MS and closes within NCCL_PROBE_LINGER_MS.
  for (int waited_ms = 0; waited_ms < stop_wait_ms_max && !d->finished.load(std::memory_order_acquire); ++waited_ms) {
    const timespec pause{0, 1000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  }
  if (d->finished.load(std::memory_order_acquire))
    pthread_join(d->thread, nullptr);
  else
    pthread_detach(d->thread);
}

}  // namespace ccld::probe
