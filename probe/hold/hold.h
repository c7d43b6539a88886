// Holding a training process before a collective, so that its hardware can be tested while NCCL has nothing to do.
//
// The ranks of a communicator hold before the same collective: what they called earlier has all its participants and
// ends, so their GPUs become idle. While one thread holds, every other call of NCCL in the process holds too.
//
// Contract
//   A process holds for at most `budget_ns` in a test, however often it is told another operation; then it goes on by
//   itself. No call that holds changes or fails. Without a test, and always without NCCL_PROBE_VALIDATE=1, no thread
//   ever comes here.
//
// Threads: add(), remove(), here(), holds(): any. begin() to end(): that of the test.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "probe/frames/comm.h"
#include "schemas/abi/validation_library.h"

namespace ccld::probe {

class Hold {
 public:
  // Communicators of this process, from ready to end. One that ends is tested no more: a call that holds in it goes on,
  // and remove() waits for that.
  void add(Comm*);
  void remove(Comm*);

  // Whether this call has to hold. `captured`: it is recorded into a CUDA graph, which may not wait.
  void here(Comm&, bool collective, bool captured);
  // A thread holds now.
  bool holds() const { return holds_.load(std::memory_order_relaxed); }

  // ---- one test at a time
  struct Place {
    int rank, rank_count, cuda_device;
    std::vector<ChannelTopology> channels;
  };
  // False: this process has no such communicator. `refusal`: it has, and cannot hold.
  bool begin(uint64_t comm_uid, uint64_t budget_ns, Place* place, std::string* refusal);
  uint64_t operations();
  abi::HoldState before(uint64_t op_seq);
  // `idle_at`: when NCCL was last seen to have nothing to do in this process, 0: it has.
  abi::HoldState wait(uint64_t until_ns, uint64_t (*idle_at)());
  uint64_t until_ns();
  // All threads go on.
  void end();

 private:
  void set_all(uint64_t before);
  void release(bool over);
  uint64_t entered() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Comm*> comms_;  // guarded by mutex_, as all below
  std::vector<Comm*> inside_;  // of the calls in here()
  Comm* target_ = nullptr;    // null: there is no test, or its communicator has ended
  uint64_t before_ = 0;       // 0: nothing was asked yet
  uint64_t budget_ns_ = 0;    // left when the present hold began
  uint64_t begun_ns_ = 0, until_ns_ = 0;
  bool over_ = false, refused_ = false;
  std::atomic<bool> holds_{false};
};

// That of this process. Never destroyed: communicators may end after the static objects of the process.
Hold& process_hold();

}  // namespace ccld::probe
