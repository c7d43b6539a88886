#include "decision/cli/tune_local.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "decision/cli/local_processes.h"
#include "schemas/abi/bus_guard.h"
#include "schemas/abi/process_reader.h"

namespace ccld::decision {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds look_every{2};

template <class T>
void store(T& word, T value) {
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}

// Readers take the line word by word between two equal, even sequences.
uint64_t write_request(abi::ProcessHeader& header, const ControlWishes& w) {
  abi::ControlLine& line = header.control;
  const uint64_t newest = std::max(__atomic_load_n(&line.sequence, __ATOMIC_ACQUIRE),
                                   __atomic_load_n(&header.control_state.applied_sequence, __ATOMIC_ACQUIRE));
  const uint64_t odd = newest | 1;  // a writer that died within leaves an odd one
  store(line.sequence, odd);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  store(line.fields, w.fields);
  store(line.running, uint32_t{w.running});
  store(line.sample_us, w.sample_us);
  store(line.log, w.log);
  store(line.budget_ppm, w.budget_ppm);
  char endpoint[sizeof line.endpoint] = {};
  w.endpoint.copy(endpoint, sizeof endpoint - 1);
  for (size_t i = 0; i < sizeof endpoint; ++i) store(line.endpoint[i], endpoint[i]);
  __atomic_store_n(&line.sequence, odd + 1, __ATOMIC_RELEASE);
  return odd + 1;
}

}  // namespace

absl::StatusOr<abi::ControlStateLine> tune_process(const TuneLocal& request) {
  const abi::ProcessName process = LocalProcesses().name_of(request.pid);
  const std::string path = absl::StrCat(request.dir, "/", abi::process_file_name(process));
  const auto deadline = Clock::now() + request.timeout;
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    const int error = errno;
    if (error == ENOENT)
      return absl::NotFoundError(absl::StrCat("process ", request.pid, " has no probe: there is no ", path,
                                              "; if it is in a container with a /dev/shm of its own: --dir /proc/",
                                              request.pid, "/root/dev/shm"));
    if (error == EACCES || error == EPERM || error == EROFS) {
      return absl::PermissionDeniedError(
          absl::StrCat("process ", request.pid, " may only be tuned by its owner: ", path, ": ", std::strerror(error)));
    }
    return absl::FailedPreconditionError(absl::StrCat(path, ": ", std::strerror(error)));
  }
  const absl::Cleanup close_file = [fd] { close(fd); };  // and with it the lock
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return absl::FailedPreconditionError(absl::StrCat(path, ": cannot be locked: ", std::strerror(errno)));
    }
    if (Clock::now() >= deadline)
      return absl::DeadlineExceededError(absl::StrCat(path, ": somebody else holds its lock"));
    std::this_thread::sleep_for(look_every);
  }
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
    return absl::FailedPreconditionError(absl::StrCat(path, ": not a regular file"));
  const auto bytes = static_cast<size_t>(status.st_size);
  if (bytes < sizeof(abi::ProcessHeader))
    return absl::FailedPreconditionError(absl::StrCat(path, ": truncated: ", bytes, " bytes"));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return absl::FailedPreconditionError(absl::StrCat(path, ": cannot be mapped: ", std::strerror(errno)));
  const absl::Cleanup unmap = [memory, bytes] { munmap(memory, bytes); };
  const abi::BusGuard guard = abi::BusGuard::over(memory, bytes);
  std::string error;
  const auto view = abi::ProcessView::open(memory, bytes, &error);
  if (!view) return absl::FailedPreconditionError(absl::StrCat(path, ": ", error));

  const uint64_t sequence = write_request(*static_cast<abi::ProcessHeader*>(memory), request.wishes);
  for (;;) {
    const abi::ControlStateLine state = view->control_state();
    if (guard.lost()) return absl::FailedPreconditionError(absl::StrCat(path, ": it was truncated"));
    if (state.applied_sequence >= sequence) return state;
    if (kill(static_cast<pid_t>(request.pid), 0) != 0 && errno == ESRCH) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": process ", request.pid, " is gone, its file was left behind"));
    }
    if (Clock::now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("process ", request.pid, " did not answer within ", request.timeout.count(),
                       " ms: is it stopped? It takes the request up when it runs again"));
    }
    std::this_thread::sleep_for(look_every);
  }
}

}  // namespace ccld::decision
