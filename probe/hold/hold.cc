#include "probe/hold/hold.h"

#include <algorithm>
#include <chrono>

#include "probe/agent/clock.h"
#include "probe/frames/doorbell.h"
#include "probe/frames/words.h"

namespace ccld::probe {
namespace {

// The steady clock is CLOCK_MONOTONIC.
using Steady = std::chrono::steady_clock;
Steady::time_point at(uint64_t ns) { return Steady::time_point(std::chrono::nanoseconds(ns)); }
uint64_t now_ns() { return static_cast<uint64_t>(Steady::now().time_since_epoch().count()); }

// A call that has passed the question whether it holds shows in the frame much sooner; idleness counts from then on.
constexpr uint64_t settle_ns = 20 * ns_per_ms;
// Whether NCCL has nothing left to do is asked that often, and whether a call has slipped through.
constexpr uint64_t ask_again_ns = 5 * ns_per_ms;

// Kernels of graphs and of the program begin without a call that could hold.
bool runs_without_calls(const Comm& comm) {
  return load_acquire(comm.header->api.captured_plans) != 0 ||
         (load_acquire(comm.header->state.hidden) & (abi::hidden_device_api | abi::hidden_gin)) != 0;
}

}  // namespace

Hold& process_hold() {
  static Hold* const hold = new Hold;
  return *hold;
}

void Hold::add(Comm* comm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  comms_.push_back(comm);
  if (holds_) comm->hold_before.store(0, std::memory_order_relaxed);
}

void Hold::remove(Comm* comm) {
  std::unique_lock<std::mutex> lock(mutex_);
  comm->hold_before.store(hold_never, std::memory_order_seq_cst);
  comms_.erase(std::remove(comms_.begin(), comms_.end(), comm), comms_.end());
  if (target_ == comm) {
    release(true);
    target_ = nullptr;
  }
  // A call that holds in it, as where another thread aborts it, goes on before it is gone.
  changed_.notify_all();
  changed_.wait(lock, [&] { return std::find(inside_.begin(), inside_.end(), comm) == inside_.end(); });
}

void Hold::set_all(uint64_t before) {
  for (Comm* comm : comms_) comm->hold_before.store(before, std::memory_order_seq_cst);
}

void Hold::release(bool over) {
  if (holds_) budget_ns_ -= std::min(budget_ns_, now_ns() - begun_ns_);
  holds_ = false;
  over_ |= over || (target_ != nullptr && budget_ns_ == 0);
  set_all(hold_never);
  changed_.notify_all();
}

void Hold::here(Comm& comm, bool collective, bool captured) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (has_to_hold(comm, collective) && captured) {
    refused_ = true;
    return release(true);
  }
  inside_.push_back(&comm);
  while (has_to_hold(comm, collective)) {
    if (!holds_) {
      begun_ns_ = now_ns();
      until_ns_ = begun_ns_ + budget_ns_;
      holds_ = true;
      set_all(0);
      changed_.notify_all();
    }
    if (changed_.wait_until(lock, at(until_ns_)) == std::cv_status::timeout && holds_ && now_ns() >= until_ns_)
      release(true);
  }
  inside_.erase(std::find(inside_.begin(), inside_.end(), &comm));
  changed_.notify_all();
}

bool Hold::begin(uint64_t comm_uid, uint64_t budget_ns, Place* place, std::string* refusal) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto is_it = [comm_uid](const Comm* c) { return c->identity.comm_uid == comm_uid; };
  const auto found = std::find_if(comms_.begin(), comms_.end(), is_it);
  if (found == comms_.end()) return false;
  const Comm& comm = **found;
  *place = {comm.setup.rank, comm.setup.rank_count, comm.setup.cuda_device, comm.identity.channels};
  refusal->clear();
  if (std::count_if(comms_.begin(), comms_.end(), is_it) > 1)
    *refusal = "this process has several ranks of the communicator, of which one thread may wait for another";
  else if (std::any_of(comms_.begin(), comms_.end(), [](const Comm* c) { return runs_without_calls(*c); }))
    *refusal = "this process launches CUDA graphs, or kernels of its own with NCCL's device API: those cannot be held";
  target_ = refusal->empty() ? *found : nullptr;
  before_ = 0;
  budget_ns_ = budget_ns;
  over_ = refused_ = false;
  return true;
}

uint64_t Hold::entered() const { return load_acquire(target_->header->api.entered_op_seq); }

uint64_t Hold::operations() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return target_ != nullptr ? entered() : 0;
}

abi::HoldState Hold::before(uint64_t op_seq) {
  const std::lock_guard<std::mutex> lock(mutex_);
  release(false);
  if (refused_) return abi::HoldState::refused;
  if (target_ == nullptr || over_) return abi::HoldState::over;
  before_ = op_seq;
  if (entered() >= op_seq) return abi::HoldState::passed;
  target_->hold_before.store(op_seq, std::memory_order_seq_cst);
  return abi::HoldState::coming;
}

abi::HoldState Hold::wait(uint64_t until_ns, uint64_t (*idle_at)()) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (refused_) return abi::HoldState::refused;
    if (target_ == nullptr || over_) return abi::HoldState::over;
    if (holds_ && idle_at() >= begun_ns_ + settle_ns) return abi::HoldState::holds;
    if (!holds_ && entered() >= before_) return abi::HoldState::passed;
    const uint64_t now = now_ns();
    if (now >= until_ns) return abi::HoldState::coming;
    if (holds_) doorbell_ring();  // a thread that rests does not look
    changed_.wait_until(lock, at(std::min(until_ns, now + ask_again_ns)));
  }
}

uint64_t Hold::until_ns() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return holds_ ? until_ns_ : UINT64_MAX;
}

void Hold::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  release(true);
  target_ = nullptr;
}

}  // namespace ccld::probe
