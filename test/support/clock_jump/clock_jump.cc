// Preloaded into a process (LD_PRELOAD), it moves that process's calendar, as an administrator or a time server does,
// while it runs: CLOCK_REALTIME is what the kernel says plus the nanoseconds that the file CCLD_TEST_CLOCK_JUMP holds
// (8 bytes, signed, of this machine). Clocks that only go forward stay as they are.
//
// Errors: without the file, or with one that is too small, the calendar is the kernel's. Threads: any.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

using ClockGettime = int (*)(clockid_t, timespec*);
constexpr int64_t ns_per_s = 1'000'000'000;

const std::atomic<int64_t>* mapped_jump() {
  const char* const path = std::getenv("CCLD_TEST_CLOCK_JUMP");
  const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat status {};
  void* memory = MAP_FAILED;
  if (fstat(file, &status) == 0 && status.st_size >= static_cast<off_t>(sizeof(int64_t)))
    memory = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<const std::atomic<int64_t>*>(memory);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock, timespec* time) {
  static const auto real = reinterpret_cast<ClockGettime>(dlsym(RTLD_NEXT, "clock_gettime"));
  static const std::atomic<int64_t>* const jump = mapped_jump();
  const int result = real(clock, time);
  if (result != 0 || clock != CLOCK_REALTIME || jump == nullptr) return result;
  const int64_t now_ns =
      static_cast<int64_t>(time->tv_sec) * ns_per_s + time->tv_nsec + jump->load(std::memory_order_relaxed);
  time->tv_sec = static_cast<time_t>(now_ns / ns_per_s);
  time->tv_nsec = static_cast<long>(now_ns % ns_per_s);
  return 0;
}
