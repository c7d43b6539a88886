// GPUs of the CPU device share the processors of their host, and measured at the same time they would measure each
// other: there the ranks of a host take turns. Real GPUs do not, and never come here.
//
// Contract
//   One turn at a time on a machine, by a lock on a file in TMPDIR that only this user can open; it ends with its
//   holder.
// Errors: std::runtime_error. Threads: one.
#pragma once

#include <chrono>

namespace ccld::decision::validate {

class Turn {
 public:
  // Waits for it. `wanted` false: does nothing.
  Turn(bool wanted, std::chrono::steady_clock::time_point until);
  ~Turn();
  Turn(const Turn&) = delete;

 private:
  int file_ = -1;
};

}  // namespace ccld::decision::validate
