#include "probe/transport/zmq_needs.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "probe/counters/signals.h"

namespace ccld::probe {
namespace {

// Counted with libzmq 4.3.4: two threads, each with two descriptors; one for each of four sockets, one for the
// connection and one while a name is resolved; and some, since others open files at the same time.
constexpr int threads = 2;
constexpr int descriptors = 24;
// Queues, buffers, and what the allocator reserves for each thread.
constexpr size_t address_space_bytes = size_t{160} << 20;

std::string no(const std::string& what, int error) { return "no room for " + what + ": " + std::strerror(error); }

std::string missing_threads() {
  pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;  // so that all are there at once
  pthread_t started[threads];
  const SignalsBlocked blocked;
  pthread_mutex_lock(&held);
  const auto wait = [](void* mutex) -> void* {
    pthread_mutex_lock(static_cast<pthread_mutex_t*>(mutex));
    pthread_mutex_unlock(static_cast<pthread_mutex_t*>(mutex));
    return nullptr;
  };
  int count = 0, error = 0;
  while (count < threads && (error = pthread_create(&started[count], nullptr, wait, &held)) == 0) ++count;
  pthread_mutex_unlock(&held);
  for (int i = 0; i < count; ++i) pthread_join(started[i], nullptr);
  return error == 0 ? "" : no("two more threads", error);
}

std::string missing_descriptors() {
  int opened[descriptors];
  int count = 0;
  while (count < descriptors && (opened[count] = eventfd(0, EFD_CLOEXEC)) >= 0) ++count;
  const int error = errno;
  for (int i = 0; i < count; ++i) close(opened[i]);
  return count == descriptors ? "" : no(std::to_string(descriptors) + " more descriptors", error);
}

std::string missing_memory() {
  void* memory = mmap(nullptr, address_space_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return no(std::to_string(address_space_bytes >> 20) + " MiB of address space", errno);
  munmap(memory, address_space_bytes);
  return "";
}

}  // namespace

std::string missing_for_zmq() {
  std::string line = missing_threads();
  return line.empty() ? missing_for_zmq_socket() : line;
}

std::string missing_for_zmq_socket() {
  std::string line = missing_descriptors();
  return line.empty() ? missing_memory() : line;
}

}  // namespace ccld::probe
