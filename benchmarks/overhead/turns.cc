#include "benchmarks/overhead/turns.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ccld::bench {
namespace {

constexpr unsigned blocks_max = 256;

// What runs of an operation: those in `order`, of which `turn` has the processor.
struct Turns {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  unsigned expected = 0;
  unsigned order[blocks_max] = {};
  unsigned count = 0;
  unsigned turn = 0;
  sem_t go[blocks_max];  // one for each thread that runs blocks
  sem_t launched;
};

Turns& turns() {
  static auto* const instance = [] {
    auto* made = new Turns;
    for (sem_t& semaphore : made->go) sem_init(&semaphore, 0, 0);
    sem_init(&made->launched, 0, 0);
    return made;
  }();
  return *instance;
}

std::atomic<unsigned> block_threads{0}, idle_threads{0};
thread_local int slot = -1;           // of a thread that runs blocks
thread_local bool in_turns = false;   // its present block takes part

void wait_for(sem_t* semaphore) {
  while (sem_wait(semaphore) != 0) {
  }
}

void enter() {
  Turns& all = turns();
  pthread_mutex_lock(&all.mutex);
  in_turns = all.expected != 0;
  if (in_turns) {
    all.order[all.count++] = static_cast<unsigned>(slot);
    if (all.count == all.expected) {  // all that were expected have come
      all.turn = 0;
      sem_post(&all.go[all.order[0]]);
    }
  }
  pthread_mutex_unlock(&all.mutex);
  if (!in_turns) return;
  sem_post(&all.launched);
  wait_for(&all.go[slot]);
}

void hand_over() {
  Turns& all = turns();
  pthread_mutex_lock(&all.mutex);
  all.turn = (all.turn + 1) % all.count;
  const unsigned next = all.order[all.turn];
  pthread_mutex_unlock(&all.mutex);
  if (next == static_cast<unsigned>(slot)) return;
  sem_post(&all.go[next]);
  wait_for(&all.go[slot]);
}

void leave() {
  if (!in_turns) return;
  in_turns = false;
  Turns& all = turns();
  pthread_mutex_lock(&all.mutex);
  --all.count;
  for (unsigned i = all.turn; i < all.count; ++i) all.order[i] = all.order[i + 1];
  if (all.count != 0) {
    all.turn %= all.count;
    sem_post(&all.go[all.order[all.turn]]);
  }
  pthread_mutex_unlock(&all.mutex);
}

template <typename Function>
Function libc(const char* name, const char* version = nullptr) {
  void* const found = version != nullptr ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    fprintf(stderr, "ccld-bench: libc has no %s\n", name);
    abort();
  }
  return reinterpret_cast<Function>(found);
}

}  // namespace

void turns_begin(unsigned blocks) {
  pthread_mutex_lock(&turns().mutex);
  turns().expected = blocks < blocks_max ? blocks : blocks_max;
  pthread_mutex_unlock(&turns().mutex);
}

void turns_await_launch() { wait_for(&turns().launched); }

void turns_await_idle() {
  while (idle_threads.load() != block_threads.load()) sched_yield();
}

}  // namespace ccld::bench

// ---- in place of libc's ---------------------------------------------------------------------------------------------

extern "C" {

// A thread of the CPU device that runs blocks is known by its name.
int pthread_setname_np(pthread_t thread, const char* name) {
  using namespace ccld::bench;
  static const auto real = libc<int (*)(pthread_t, const char*)>("pthread_setname_np");
  if (strcmp(name, "ccld-block") == 0 && pthread_equal(thread, pthread_self()) && slot < 0) {
    slot = static_cast<int>(block_threads.fetch_add(1));
    if (static_cast<unsigned>(slot) >= blocks_max) abort();
  }
  return real(thread, name);
}

// Only between two blocks does such a thread wait here.
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  using namespace ccld::bench;
  // Older than the rest: without its version dlsym() may find the function that LinuxThreads had.
  static const auto real = libc<int (*)(pthread_cond_t*, pthread_mutex_t*)>("pthread_cond_wait", "GLIBC_2.3.2");
  if (slot < 0) return real(condition, mutex);
  leave();
  idle_threads.fetch_add(1);
  const int result = real(condition, mutex);
  idle_threads.fetch_sub(1);
  enter();
  return result;
}

int sched_yield() {
  using namespace ccld::bench;
  static const auto real = libc<int (*)()>("sched_yield");
  if (!in_turns) return real();
  hand_over();
  return 0;
}

int nanosleep(const timespec* wanted, timespec* left) {
  using namespace ccld::bench;
  static const auto real = libc<int (*)(const timespec*, timespec*)>("nanosleep");
  if (!in_turns) return real(wanted, left);
  hand_over();
  return 0;
}

}  // extern "C"
