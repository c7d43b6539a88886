// Memory of a file that somebody else may truncate. The first touch of a page that the file has lost is a signal
// (SIGBUS), which ends the process. With this guard the memory becomes zeros that belong to nobody else, and the
// process goes on.
//
//   BusGuard guard = BusGuard::over(memory, bytes);   // a mapping of whole pages
//   ...
//   if (guard.lost()) ...                             // from some moment on it was zeros
//
// Contract
//   One handler for the process, installed by the first guard. Other faults go where they went before: to the handler
//   that was there, or they end the process as ever. A handler that somebody installs later and that does not pass on
//   what it does not know takes the protection away, no more. At most guards_max at a time; one beyond them protects
//   nothing. The guard goes before the mapping does.
//
// Threads: any; the handler takes no lock and allocates nothing.
#pragma once

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <sys/mman.h>

namespace ccld::abi {

class BusGuard {
 public:
  static constexpr size_t guards_max = 4096;

  BusGuard() = default;
  static BusGuard over(void* memory, size_t bytes) {
    install();
    BusGuard guard;
    for (Range& range : ranges()) {
      uintptr_t free = 0;
      if (!range.begin.compare_exchange_strong(free, reserved, std::memory_order_acquire)) continue;
      range.lost.store(false, std::memory_order_relaxed);
      range.end.store(reinterpret_cast<uintptr_t>(memory) + bytes, std::memory_order_relaxed);
      range.begin.store(reinterpret_cast<uintptr_t>(memory), std::memory_order_release);
      guard.range_ = &range;
      break;
    }
    return guard;
  }
  BusGuard(BusGuard&& other) noexcept : range_(std::exchange(other.range_, nullptr)) {}
  BusGuard& operator=(BusGuard&& other) noexcept {
    std::swap(range_, other.range_);
    return *this;
  }
  ~BusGuard() {
    if (range_ != nullptr) range_->begin.store(0, std::memory_order_release);
  }

  bool lost() const { return range_ != nullptr && range_->lost.load(std::memory_order_acquire); }

 private:
  struct Range {
    std::atomic<uintptr_t> begin{0}, end{0};  // begin: 0: free
    std::atomic<bool> lost{false};
  };
  using Ranges = Range[guards_max];
  static constexpr uintptr_t reserved = 1;  // no page begins there

  static Ranges& ranges() {
    static Ranges all;
    return all;
  }
  static struct sigaction& before() {
    static struct sigaction action;
    return action;
  }

  // Puts back what was there, unless somebody has replaced ours: the library may be unloaded before the process ends.
  struct Installed {
    Installed() {
      ranges();  // before the first signal
      struct sigaction ours {};
      ours.sa_sigaction = on_bus_error;
      ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
      sigemptyset(&ours.sa_mask);
      sigaction(SIGBUS, &ours, &before());
    }
    ~Installed() {
      struct sigaction now {};
      if (sigaction(SIGBUS, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_bus_error)
        sigaction(SIGBUS, &before(), nullptr);
    }
  };
  static void install() { static const Installed installed; }

  static void on_bus_error(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
    for (Range& range : ranges()) {
      const uintptr_t begin = range.begin.load(std::memory_order_acquire);
      if (begin <= reserved || at < begin) continue;
      const uintptr_t end = range.end.load(std::memory_order_relaxed);
      if (at >= end) continue;
      // Shared: after a fork a private page would be copied at the next write.
      // First: whoever sees zeros knows that they are none of ours.
      range.lost.store(true, std::memory_order_seq_cst);
      void* const zeros = mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      if (zeros == MAP_FAILED) break;
      errno = error;
      return;
    }
    errno = error;
    pass_on(signal, info, context);
  }
  static void pass_on(int signal, siginfo_t* info, void* context) {
    const struct sigaction& previous = before();
    if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
    if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
    // It happens again when this returns, and ends the process as if we were not here.
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    sigaction(signal, &usual, nullptr);
  }

  Range* range_ = nullptr;
};

}  // namespace ccld::abi
