// Threads that share the work of one caller: run() calls `work` for each number and returns when all is done. What is
// worked on belongs to one number each, so nothing is locked.
//
// Contract: who calls works too, and waits for nobody who has not begun: on a busy machine it does all of it alone. In
// which order, and by which thread, is not determined. With one thread nothing is started. Threads: run() by one at a
// time, and not from within `work`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace ccld::decision {

class Workers {
 public:
  using Work = absl::FunctionRef<void(size_t)>;

  // `threads`: with the caller's.
  explicit Workers(size_t threads = 1);
  ~Workers();
  Workers(const Workers&) = delete;

  size_t threads() const { return helpers_.size() + 1; }
  // work(0) ... work(count - 1). Nobody is woken for less than `count_min` of them: that takes some 20 us.
  void run(size_t count, size_t count_min, Work work);

 private:
  struct Job {
    Work work;
    size_t count;
    std::atomic<size_t> next{0};
    void take_part();
  };
  void help();

  std::vector<std::thread> helpers_;
  std::atomic<uint32_t> calls_{0};  // changes when there is work, and at the end
  std::atomic<Job*> job_{nullptr};  // nullptr: there is none to begin with
  std::atomic<size_t> helping_{0};  // that may have a look at it
  std::atomic<bool> ends_{false};
};

// More are of no use (server/thread_count.h).
constexpr size_t threads_max = 64;

}  // namespace ccld::decision
