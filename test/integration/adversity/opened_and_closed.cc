// The library in a program that is not linked to it, as in Python: opened when all else is loaded, so that there is no
// static TLS to spare, used, closed, and opened again.
#include <dlfcn.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>

namespace {

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

int main(int, char** arguments) {
  for (int i = 0; i < 3; ++i) use(arguments[1]);
  printf("as it should be\n");
  return 0;
}
