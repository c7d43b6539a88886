#include "probe/hold/validation.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "probe/agent/clock.h"
#include "probe/counters/log.h"
#include "probe/counters/signals.h"
#include "probe/hold/hold.h"
#include "schemas/abi/validation_library.h"

namespace ccld::probe {
namespace {

constexpr int stop_wait_ms_max = 1000;

struct Test {
  ValidationWish wish;
  uint64_t (*idle_at)() = nullptr;
  std::unique_ptr<Test> before;  // it is waited for
  pthread_t thread{};
  std::atomic<bool> wanted{true}, finished{false};
};

abi::ValidateInJob* library = nullptr;
Test* newest = nullptr;  // of the diagnostic thread; freed by the next one, which joins its thread
std::atomic<Test*> running{nullptr};
std::atomic<bool> stopped{false};

Test& test_of(void* context) { return *static_cast<Test*>(context); }

abi::ValidationHold door_of(Test& test) {
  abi::ValidationHold door{};
  door.context = &test;
  door.operations = [](void*) { return process_hold().operations(); };
  door.before = [](void* context, uint64_t op_seq) {
    return test_of(context).wanted ? process_hold().before(op_seq) : abi::HoldState::over;
  };
  door.wait = [](void* context, uint64_t until_ns) {
    return test_of(context).wanted ? process_hold().wait(until_ns, test_of(context).idle_at) : abi::HoldState::over;
  };
  door.until = [](void*) { return process_hold().until_ns(); };
  door.wanted = [](void* context) { return test_of(context).wanted.load(); };
  return door;
}

// What came of it; empty: the communicator is not one of this process.
std::string run(Test& test) {
  Hold::Place place;
  std::string refusal;
  if (!process_hold().begin(test.wish.comm_uid, uint64_t{test.wish.hold_ms} * ns_per_ms, &place, &refusal)) return "";
  std::vector<abi::ValidationNeighbours> channels;
  for (const ChannelTopology& c : place.channels) channels.push_back({c.ring_prev, c.ring_next, c.tree_up});
  abi::ValidationTask task{};
  task.version = abi::validation_version;
  task.rank = place.rank;
  task.rank_count = place.rank_count;
  task.cuda_device = place.cuda_device;
  task.meet = test.wish.meet.c_str();
  task.refusal = refusal.empty() ? nullptr : refusal.c_str();
  task.channels = channels.data();
  task.channel_count = channels.size();
  task.hold = door_of(test);
  char line[512] = "";
  library(&task, line, sizeof(line));
  process_hold().end();
  return line;
}

void* run_thread(void* argument) {
  Test& test = test_of(argument);
  try {
    if (test.before != nullptr) {
      pthread_join(test.before->thread, nullptr);
      test.before.reset();
    }
    if (test.wanted)
      if (const std::string line = run(test); !line.empty()) log_line(LogLevel::info, "hardware test: " + line);
  } catch (const std::exception& e) {
    process_hold().end();
    warn_of_exception("the hardware test has ended", e);
  }
  test.finished = true;
  return nullptr;
}

}  // namespace

void validation_prepare() {
  void* const handle = dlopen(abi::validation_library, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) library = reinterpret_cast<abi::ValidateInJob*>(dlsym(handle, abi::validation_function));
  if (library != nullptr) return;
  const char* const reason = dlerror();
  log_warning(std::string("NCCL_PROBE_VALIDATE=1, but hardware cannot be tested in this process: ") +
              (reason != nullptr ? reason : "unknown error"));
}

void validation_start(const ValidationWish& wish, uint64_t (*idle_at)()) {
  if (library == nullptr || stopped) return;
  auto test = std::make_unique<Test>();
  test->wish = wish;
  test->idle_at = idle_at;
  if (newest != nullptr) {
    newest->wanted = false;
    process_hold().end();
    test->before.reset(newest);
  }
  const int error = [&test] {
    const SignalsBlocked blocked;
    return pthread_create(&test->thread, nullptr, run_thread, test.get());
  }();
  if (error != 0) {
    newest = test->before.release();
    warn_once(Warning::thread, std::string("no thread to test hardware: ") + std::strerror(error));
    return;
  }
  pthread_setname_np(test->thread, "ccld-validate");
  newest = test.release();
  running = newest;
}

void validation_stop() {
  stopped = true;
  Test* const test = running.exchange(nullptr);
  if (test == nullptr) return;
  test->wanted = false;
  process_hold().end();
  for (int waited_ms = 0; waited_ms < stop_wait_ms_max && !test->finished; ++waited_ms) {
    const timespec pause{0, 1000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  }
}

}  // namespace ccld::probe
