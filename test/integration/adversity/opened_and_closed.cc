// The library in a program that is not linked to it, as in Python: opened when all else is loaded, so that there is no
// static TLS to spare, used, closed, and opened again. "blocked": the diagnostic thread meanwhile waits in a call of
// the system, which returns when the library has been closed.
#include <dlfcn.h>
#include <nccl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<bool> blocks{false};
std::atomic<int> blocked{0}, returned{0};

void pause_10_ms() { usleep(10000); }

[[noreturn]] void fail(const char* what) {
  const char* why = dlerror();
  fprintf(stderr, "not so: %s: %s\n", what, why != nullptr ? why : "");
  exit(1);
}

void use(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail("it can be opened");
  const auto init_all = reinterpret_cast<decltype(&ncclCommInitAll)>(dlsym(handle, "ncclCommInitAll"));
  const auto destroy = reinterpret_cast<decltype(&ncclCommDestroy)>(dlsym(handle, "ncclCommDestroy"));
  if (init_all == nullptr || destroy == nullptr) fail("it has NCCL's functions");
  ncclComm_t comms[2];
  for (int i = 0; i < 2; ++i) {
    if (init_all(comms, 2, nullptr) != ncclSuccess) fail("communicators can be made");
    for (ncclComm_t comm : comms)
      if (destroy(comm) != ncclSuccess) fail("communicators can be destroyed");
  }
  dlclose(handle);
}

}  // namespace

// The first call of the diagnostic thread.
extern "C" __attribute__((visibility("default"))) int prctl(int option, ...) {
  __builtin_va_list list;
  __builtin_va_start(list, option);
  const auto value = __builtin_va_arg(list, unsigned long);
  __builtin_va_end(list);
  constexpr unsigned long of_diagnostic_thread_ns = 10000;
  if (option == PR_SET_TIMERSLACK && value == of_diagnostic_thread_ns && blocks) {
    ++blocked;
    while (blocks) pause_10_ms();
    ++returned;
  }
  return static_cast<int>(syscall(SYS_prctl, option, value, 0, 0, 0));
}

int main(int count, char** arguments) {
  blocks = count > 2 && strcmp(arguments[2], "blocked") == 0;
  for (int i = 0; i < 3; ++i) use(arguments[1]);
  if (blocks) {
    if (blocked == 0) fail("the diagnostic thread is in a call of the system");
    blocks = false;
    while (returned != blocked) pause_10_ms();
    for (int i = 0; i < 10; ++i) pause_10_ms();  // it goes on with what follows the call
    use(arguments[1]);
  }
  printf("as it should be\n");
  return 0;
}
