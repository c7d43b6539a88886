#include "probe/agent/diagnostic_thread.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <mutex>

#include <dlfcn.h>
#include <pthread.h>
#include <sys/prctl.h>

#include "probe/agent/sources.h"
#include "probe/counters/log.h"
#include "probe/counters/signals.h"
#include "probe/frames/doorbell.h"
#include "probe/frames/frame_file.h"
#include "probe/hold/hold.h"
#include "probe/hold/validation.h"
#include "probe/process/process_file.h"
#include "probe/settings.h"
#include "probe/transport/curve_keys.h"
#include "probe/transport/endpoints.h"
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
// Without membarrier the doorbell may be missed once in a while.
constexpr uint64_t rest_inexact_ns = 50 * ns_per_ms;
constexpr int stop_wait_ms_max = 1000;

std::unique_ptr<Transport> open_transport(const std::string& endpoint) {
  ZmqOptions options;
  options.endpoint = endpoint;
  const ProcessFile* file = process_file();
  const abi::ProcessName& name = process_identity().name;
  options.choice = endpoint_choice(file != nullptr ? file->header->identity.host : "", name.pid, name.pid_namespace);
  options.queue_max = static_cast<int>(settings().queue_max);
  options.linger_ms = static_cast<int>(settings().linger_ms);
  std::string error;
  const auto keys = read_curve_keys(settings().server_key, settings().key_file, &error);
  if (!keys) {
    warn_once(Warning::transport_keys, "nothing is sent to " + endpoint + ": " + error);
    return nullptr;
  }
  options.keys = *keys;
  options.read_keys = [] {
    std::string ignored;  // who removes a file for a moment means no other key
    return read_curve_keys(settings().server_key, settings().key_file, &ignored);
  };
  std::unique_ptr<Transport> transport = open_zmq_transport(options);
  // Once more: handlers run in reverse order, and the thread must stop before the static objects of libzmq go, which is
  // loaded by now and stays.
  static std::once_flag registered;
  if (transport != nullptr) std::call_once(registered, [] { std::atexit(stop_diagnostic_thread); });
  return transport;
}

uint64_t idle_at_ns() {
  const Agent* const agent = existing_agent();
  return agent != nullptr ? agent->idle_at_ns() : 0;
}

void sleep_until(uint64_t monotonic_ns) {
  timespec t{};
  t.tv_sec = static_cast<time_t>(monotonic_ns / ns_per_s);
  t.tv_nsec = static_cast<long>(monotonic_ns % ns_per_s);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
}

void watch(Diagnostics& d) {
  prctl(PR_SET_TIMERSLACK, timer_slack_ns, 0, 0, 0);
  if (!settings().endpoint.empty()) d.agent.set_transport(open_transport(settings().endpoint));
  d.agent.set_open_transport(open_transport);
  if (may_hold()) {
    validation_prepare();
    d.agent.set_holds([] { return process_hold().holds(); });
    d.agent.set_validate([](const ValidationWish& wish) { validation_start(wish, idle_at_ns); });
  }
  d.agent.set_board(process_board());
  for (ProcessSource* source : {init_source(), net_source(), health_source()})
    if (source != nullptr) d.agent.add_source(source);
  const bool exact = doorbell_prepare();
  while (!d.stop.load(std::memory_order_acquire)) {
    uint64_t due_ns = d.agent.tick();
    if (!d.agent.resting()) {
      sleep_until(due_ns);
      continue;
    }
    if (!exact) due_ns = std::min(due_ns, d.clock.now().monotonic_ns + rest_inexact_ns);
    const auto news = [](void* argument) {
      auto& rested = *static_cast<Diagnostics*>(argument);
      return rested.stop.load(std::memory_order_acquire) || rested.agent.anything_new();
    };
    if (doorbell_rest(due_ns, news, &d)) d.agent.count_wakeup();
  }
  d.agent.close();
  d.agent.set_transport(nullptr);
}

void* run(void* argument) {
  auto& d = *static_cast<Diagnostics*>(argument);
  try {
    watch(d);
  } catch (const std::exception& e) {
    warn_of_exception("the diagnostic thread has ended, nothing is sent any more", e);
  }
  d.finished.store(true, std::memory_order_release);
  return nullptr;
}

// A thread that waits for the system or a driver cannot be joined, and must not come back to code that is gone: whoever
// unloads the library unloads no thread. Without the probe's threads it can be unloaded.
void stay_loaded() {
  Dl_info library;
  if (dladdr(reinterpret_cast<void*>(&run), &library) == 0) return;
  // Part of the program itself: there is nothing to unload, and no error that the program is to find.
  if (dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == nullptr) (void)dlerror();
}

bool start_thread(Diagnostics* d) {
  stay_loaded();
  const int error = [d] {
    const SignalsBlocked blocked;
    return pthread_create(&d->thread, nullptr, run, d);
  }();
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
  sender.pid = process_identity().name.pid;
  sender.pid_namespace = process_identity().name.pid_namespace;
  sender.pid_start_ticks = process_identity().start_ticks;
  // Until a communicator says what NCCL calls this host; one that never comes to be is told about, too.
  if (const ProcessFile* file = process_file()) sender.host = file->header->identity.host;
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
  validation_stop();
  Diagnostics* d = diagnostics.load(std::memory_order_acquire);
  if (d == nullptr) return;
  d->stop.store(true, std::memory_order_seq_cst);
  doorbell_ring();
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
