// Streams: queues of work, each emptied in order by a thread of its own.
//
// Contract
//   Work of one stream runs in the order of its submission. A piece of work may also wait for positions of other
//   streams; these are always submitted before it, so that streams never wait for each other in a circle.
//   Default stream semantics are CUDA's legacy ones: work of the default stream waits for all earlier work of the
//   device's blocking streams, and their later work waits for it.
//
//   As with a GPU's driver, who submits to a stream far behind waits until it has caught up a little: a program that
//   queues without end (nccl-tests with many iterations) is held, not given memory without end.
//
// Threads: safe from any thread.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace ccld::cpu_device {

using Work = std::function<void()>;

// Unfinished pieces of work in a stream beyond which submit() waits.
constexpr uint64_t stream_backlog_max = 1024;

class Stream;
struct EventState;
struct CaptureMembership;
using StreamPtr = std::shared_ptr<Stream>;

// A point in a stream: the end of its sequence-th piece of work.
struct StreamPosition {
  StreamPtr stream;
  uint64_t sequence = 0;

  bool reached() const;
  void wait() const;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  enum class Kind { legacy_default, blocking, non_blocking };

  Stream(int device, Kind kind, unsigned flags, int priority);

  int device() const { return device_; }
  Kind kind() const { return kind_; }
  unsigned flags() const { return flags_; }
  int priority() const { return priority_; }
  unsigned long long id() const { return id_; }

  // Use submit(), which knows about default streams.
  StreamPosition enqueue(Work work, std::vector<StreamPosition> dependencies);
  StreamPosition last();
  bool reached(uint64_t sequence);
  void wait(uint64_t sequence);
  // Until fewer than stream_backlog_max pieces of work are unfinished.
  void wait_for_room();
  // No more work will come: the thread ends once the queue is empty.
  void close();

  // Set while the stream takes part in a capture (capture.cc owns it, under its lock).
  std::shared_ptr<CaptureMembership> capture;
  std::atomic<bool> capturing{false};

 private:
  struct Item {
    Work work;
    std::vector<StreamPosition> dependencies;
  };

  void run();

  const int device_;
  const Kind kind_;
  const unsigned flags_;
  const int priority_;
  const unsigned long long id_;

  std::mutex mutex_;
  std::condition_variable submitted_;
  std::condition_variable completed_some_;
  std::deque<Item> queue_;
  uint64_t submitted_count_ = 0;
  uint64_t completed_count_ = 0;
  bool running_ = false;
  bool closed_ = false;
};

// What a stream can be asked to do; also the content of a graph's node.
struct Operation {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  Work work;                          // empty for event nodes
  std::shared_ptr<EventState> event;  // of event nodes
};

StreamPtr create_stream(unsigned flags, int priority);
// A stream that only the CPU device itself uses.
StreamPtr create_internal_stream(int device);
// nullptr if the handle is not a stream's. Default stream handles mean those of the calling thread and its device.
StreamPtr find_stream(cudaStream_t handle);

// Runs `operation` on the stream, or adds it to the graph that the stream is being captured into; then, and when it
// fails, `position` is left empty.
cudaError_t submit(const StreamPtr&, Operation operation, StreamPosition* position = nullptr);
// The same without a look at captures: really runs.
StreamPosition submit_now(const StreamPtr&, Work work, std::vector<StreamPosition> dependencies = {});

void synchronize_device(int device);
// All streams that a synchronisation with `stream` waits for have nothing left to do.
bool is_idle(const StreamPtr&);

}  // namespace ccld::cpu_device
