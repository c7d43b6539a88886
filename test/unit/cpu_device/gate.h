// A host function for streams that blocks them until the test opens it.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <mutex>

namespace ccld::cpu_device {

class Gate {
 public:
  ~Gate() { open(); }

  void close_stream(cudaStream_t stream) { cudaLaunchHostFunc(stream, &Gate::wait_open, this); }

  void open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

  // Until a stream has arrived at the gate.
  void wait_for_arrival() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return arrived_; });
  }

 private:
  static void wait_open(void* data) {
    auto* gate = static_cast<Gate*>(data);
    std::unique_lock<std::mutex> lock(gate->mutex_);
    gate->arrived_ = true;
    gate->changed_.notify_all();
    gate->changed_.wait(lock, [&] { return gate->open_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  bool arrived_ = false;
};

}  // namespace ccld::cpu_device
