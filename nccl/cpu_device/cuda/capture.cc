#include "nccl/cpu_device/cuda/capture.h"

#include <algorithm>
#include <set>
#include <thread>

#include "nccl/cpu_device/base/diagnostics.h"
#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/graph.h"

namespace ccld::cpu_device {

struct Capture {
  unsigned long long id = 0;
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id owner;
  Stream* origin = nullptr;
  bool valid = true;
  std::vector<StreamPtr> members;
};

struct CaptureMembership {
  std::shared_ptr<Capture> capture;
  std::vector<cudaGraphNode_t> tail;      // what the next operation of the stream depends on
  std::vector<cudaGraphNode_t> captured;  // those of `tail` that the stream itself captured: must be joined again
};

namespace {

// One lock for all captures: they are rare, and calls without one never take it.
struct CaptureState {
  std::mutex mutex;
  std::vector<std::shared_ptr<Capture>> active;
  unsigned long long next_id = 1;
};

CaptureState& state() {
  static auto* const instance = new CaptureState;
  return *instance;
}

std::atomic<int> active_captures{0};
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

bool any_capture() { return active_captures.load(std::memory_order_relaxed) != 0; }

void add_unique(std::vector<cudaGraphNode_t>* nodes, const std::vector<cudaGraphNode_t>& more) {
  for (cudaGraphNode_t node : more) {
    if (std::find(nodes->begin(), nodes->end(), node) == nodes->end()) nodes->push_back(node);
  }
}

// The functions below are called with the lock held.

// A captured operation of a default stream would tie it to everything else: refuse, as CUDA does.
cudaError_t refuse_implicit_dependency(const StreamPtr& stream) {
  if (stream->kind() != Stream::Kind::legacy_default) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (const auto& capture : state().active) {
    for (const StreamPtr& member : capture->members) {
      if (member->kind() != Stream::Kind::blocking || member->device() != stream->device()) continue;
      capture->valid = false;
      error = cudaErrorStreamCaptureImplicit;
    }
  }
  return error;
}

// The membership of a stream that is being captured; nullptr if it is not.
CaptureMembership* membership_of(const StreamPtr& stream, cudaError_t* error) {
  *error = cudaSuccess;
  if (stream->capture == nullptr) {
    *error = refuse_implicit_dependency(stream);
    return nullptr;
  }
  if (!stream->capture->capture->valid) *error = cudaErrorStreamCaptureInvalidated;
  return stream->capture.get();
}

void join(const StreamPtr& stream, const std::shared_ptr<Capture>& capture) {
  stream->capture = std::make_shared<CaptureMembership>();
  stream->capture->capture = capture;
  stream->capturing = true;
  capture->members.push_back(stream);
}

void append(CaptureMembership* membership, const Operation& operation) {
  cudaGraphNode_t node = membership->capture->graph->add(operation, membership->tail);
  membership->tail = {node};
  membership->captured = {node};
}

std::set<cudaGraphNode_t> ancestors_of(const std::vector<cudaGraphNode_t>& nodes) {
  std::set<cudaGraphNode_t> seen;
  std::vector<cudaGraphNode_t> pending = nodes;
  while (!pending.empty()) {
    cudaGraphNode_t node = pending.back();
    pending.pop_back();
    if (!seen.insert(node).second) continue;
    pending.insert(pending.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return seen;
}

bool all_joined(const Capture& capture, const CaptureMembership& origin) {
  const std::set<cudaGraphNode_t> joined = ancestors_of(origin.tail);
  for (const StreamPtr& member : capture.members) {
    for (cudaGraphNode_t node : member->capture->captured) {
      if (joined.count(node) == 0) return false;
    }
  }
  return true;
}

void end(const std::shared_ptr<Capture>& capture) {
  for (const StreamPtr& member : capture->members) {
    member->capturing = false;
    member->capture = nullptr;
  }
  capture->members.clear();
  auto& active = state().active;
  active.erase(std::remove(active.begin(), active.end(), capture), active.end());
  --active_captures;
}

}  // namespace

cudaError_t capture_operation(const StreamPtr& stream, const Operation& operation, bool* captured) {
  if (!any_capture()) return cudaSuccess;
  std::lock_guard<std::mutex> lock(state().mutex);
  cudaError_t error;
  CaptureMembership* membership = membership_of(stream, &error);
  if (membership == nullptr || error != cudaSuccess) return error;
  append(membership, operation);
  *captured = true;
  return cudaSuccess;
}

cudaError_t capture_event_record(const StreamPtr& stream, const EventPtr& event, unsigned flags, bool* captured) {
  if (!any_capture()) {
    event->captured_in = nullptr;
    return cudaSuccess;
  }
  std::lock_guard<std::mutex> lock(state().mutex);
  cudaError_t error;
  CaptureMembership* membership = membership_of(stream, &error);
  if (error != cudaSuccess) return error;
  if (membership == nullptr) {
    event->captured_in = nullptr;
    return cudaSuccess;
  }
  *captured = true;
  if ((flags & cudaEventRecordExternal) != 0) {
    append(membership, {cudaGraphNodeTypeEventRecord, {}, event});
  } else {
    event->captured_in = membership->capture;
    event->captured_nodes = membership->tail;
  }
  return cudaSuccess;
}

cudaError_t capture_event_wait(const StreamPtr& stream, const EventPtr& event, unsigned flags, bool* captured) {
  if (!any_capture()) return cudaSuccess;
  std::lock_guard<std::mutex> lock(state().mutex);
  cudaError_t error;
  CaptureMembership* membership = membership_of(stream, &error);
  if (error != cudaSuccess) return error;
  const bool external = (flags & cudaEventWaitExternal) != 0;
  const std::shared_ptr<Capture>& source = event->captured_in;
  const bool source_active =
      source != nullptr && std::find(state().active.begin(), state().active.end(), source) != state().active.end();
  if (membership != nullptr && external) {
    append(membership, {cudaGraphNodeTypeWaitEvent, {}, event});
    *captured = true;
    return cudaSuccess;
  }
  if (membership == nullptr) {
    if (!source_active) return cudaSuccess;
    if (stream->kind() == Stream::Kind::legacy_default) {
      source->valid = false;
      return cudaErrorStreamCaptureImplicit;
    }
    join(stream, source);
    membership = stream->capture.get();
  } else if (!source_active) {
    membership->capture->valid = false;
    return cudaErrorStreamCaptureIsolation;  // the graph would depend on work outside of it
  } else if (source != membership->capture) {
    membership->capture->valid = false;
    source->valid = false;
    return cudaErrorStreamCaptureMerge;
  }
  *captured = true;
  add_unique(&membership->tail, event->captured_nodes);
  return cudaSuccess;
}

cudaError_t check_synchronizing_call(const StreamPtr& stream) {
  if (!any_capture()) return cudaSuccess;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    if (stream->capture != nullptr) {
      stream->capture->capture->valid = false;
      return cudaErrorStreamCaptureUnsupported;
    }
    const cudaError_t error = refuse_implicit_dependency(stream);
    if (error != cudaSuccess) return error;
  }
  return check_unsafe_call();
}

cudaError_t check_event_call(const EventPtr& event) {
  if (!any_capture()) return cudaSuccess;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    for (const auto& capture : state().active) {
      if (event->captured_in != capture) continue;
      capture->valid = false;
      return cudaErrorCapturedEvent;
    }
  }
  return check_unsafe_call();
}

cudaError_t check_unsafe_call() {
  if (!any_capture() || thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  std::lock_guard<std::mutex> lock(state().mutex);
  cudaError_t error = cudaSuccess;
  for (const auto& capture : state().active) {
    const bool mine = capture->owner == std::this_thread::get_id();
    const bool forbids =
        mine ? capture->mode != cudaStreamCaptureModeRelaxed
             : capture->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
    if (!forbids) continue;
    capture->valid = false;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

void leave_capture(const StreamPtr& stream) {
  if (!stream->capturing) return;
  std::lock_guard<std::mutex> lock(state().mutex);
  if (stream->capture == nullptr) return;
  const std::shared_ptr<Capture> capture = stream->capture->capture;
  if (capture->origin == stream.get()) {
    end(capture);
    return;
  }
  auto& members = capture->members;
  members.erase(std::remove(members.begin(), members.end(), stream), members.end());
  stream->capturing = false;
  stream->capture = nullptr;
}

}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  if (stream->kind() == Stream::Kind::legacy_default) return remember(cudaErrorStreamCaptureUnsupported);
  std::lock_guard<std::mutex> lock(state().mutex);
  if (stream->capture != nullptr) return remember(cudaErrorIllegalState);
  auto capture = std::make_shared<Capture>();
  capture->id = state().next_id++;
  capture->mode = mode;
  capture->owner = std::this_thread::get_id();
  capture->origin = stream.get();
  state().active.push_back(capture);
  ++active_captures;
  join(stream, capture);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  std::unique_ptr<CUgraph_st> dropped;  // destroyed after the lock: it may call the user
  std::lock_guard<std::mutex> lock(state().mutex);
  if (graph != nullptr) *graph = nullptr;
  if (stream->capture == nullptr) return remember(cudaErrorIllegalState);
  const std::shared_ptr<Capture> capture = stream->capture->capture;
  if (capture->origin != stream.get()) {
    capture->valid = false;
    return remember(cudaErrorStreamCaptureUnmatched);
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->owner != std::this_thread::get_id()) {
    return remember(cudaErrorStreamCaptureWrongThread);
  }
  cudaError_t error = cudaSuccess;
  if (!capture->valid) {
    error = cudaErrorStreamCaptureInvalidated;
  } else if (!all_joined(*capture, *stream->capture)) {
    error = cudaErrorStreamCaptureUnjoined;
  }
  end(capture);
  dropped = std::move(capture->graph);
  if (error == cudaSuccess && graph != nullptr) *graph = dropped.release();
  return remember(error);
}

CCLD_CUDA_API cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(handle, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

CCLD_CUDA_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                                   unsigned long long* id, cudaGraph_t* graph,
                                                   const cudaGraphNode_t** dependencies,
                                                   const cudaGraphEdgeData** edges, size_t* count) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  *status = cudaStreamCaptureStatusNone;
  if (edges != nullptr) *edges = nullptr;  // dependencies never carry edge data here
  if (!any_capture()) return cudaSuccess;
  std::lock_guard<std::mutex> lock(state().mutex);
  const CaptureMembership* membership = stream->capture.get();
  if (membership == nullptr) {
    // Asking about the default stream while another one is captured is an implicit dependency, too.
    return remember(refuse_implicit_dependency(stream));
  }
  if (!membership->capture->valid) {
    *status = cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
  }
  *status = cudaStreamCaptureStatusActive;
  if (id != nullptr) *id = membership->capture->id;
  if (graph != nullptr) *graph = membership->capture->graph.get();
  if (dependencies != nullptr) *dependencies = membership->tail.data();
  if (count != nullptr) *count = membership->tail.size();
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* nodes,
                                                              const cudaGraphEdgeData*, size_t count, unsigned flags) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  std::lock_guard<std::mutex> lock(state().mutex);
  CaptureMembership* membership = stream->capture.get();
  if (membership == nullptr) return remember(cudaErrorIllegalState);
  if (!membership->capture->valid) return remember(cudaErrorStreamCaptureInvalidated);
  const std::vector<cudaGraphNode_t> given(nodes, nodes + count);
  if (flags == cudaStreamSetCaptureDependencies) {
    membership->tail = given;
    // Nodes dropped this way need no join.
    auto& captured = membership->captured;
    captured.erase(std::remove_if(captured.begin(), captured.end(),
                                  [&](cudaGraphNode_t node) {
                                    return std::find(given.begin(), given.end(), node) == given.end();
                                  }),
                   captured.end());
  } else if (flags == cudaStreamAddCaptureDependencies) {
    add_unique(&membership->tail, given);
  } else {
    return remember(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (*mode != cudaStreamCaptureModeGlobal && *mode != cudaStreamCaptureModeThreadLocal &&
      *mode != cudaStreamCaptureModeRelaxed) {
    return remember(cudaErrorInvalidValue);
  }
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}
