#include "nccl/cpu_device/cuda/streams.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <map>
#include <shared_mutex>
#include <thread>
#include <unordered_map>

#include "nccl/cpu_device/control/control_file.h"
#include "nccl/cpu_device/control/faults.h"
#include "nccl/cpu_device/cuda/capture.h"
#include "nccl/cpu_device/cuda/device.h"
#include "nccl/cpu_device/cuda/errors.h"

namespace ccld::cpu_device {
namespace {

// The streams of one device that have, or may get, work.
struct DeviceStreams {
  std::mutex mutex;  // also makes "look at other streams, then enqueue" one step
  StreamPtr legacy_default;
  std::vector<StreamPtr> alive;
};

DeviceStreams& streams_of(int device) {
  static auto* const all = new std::array<DeviceStreams, 64>;
  return (*all)[device];
}

// Handles that users hold.
struct HandleTable {
  std::shared_mutex mutex;
  std::unordered_map<cudaStream_t, StreamPtr> streams;
};

HandleTable& handles() {
  static auto* const table = new HandleTable;
  return *table;
}

void forget(const StreamPtr& stream) {
  DeviceStreams& streams = streams_of(stream->device());
  std::lock_guard<std::mutex> lock(streams.mutex);
  auto& alive = streams.alive;
  alive.erase(std::remove(alive.begin(), alive.end(), stream), alive.end());
}

StreamPtr make_stream(int device, Stream::Kind kind, unsigned flags, int priority) {
  start_control_file();
  auto stream = std::make_shared<Stream>(device, kind, flags, priority);
  DeviceStreams& streams = streams_of(device);
  std::lock_guard<std::mutex> lock(streams.mutex);
  streams.alive.push_back(stream);
  return stream;
}

StreamPtr legacy_default_stream(int device) {
  DeviceStreams& streams = streams_of(device);
  {
    std::lock_guard<std::mutex> lock(streams.mutex);
    if (streams.legacy_default != nullptr) return streams.legacy_default;
  }
  StreamPtr made = make_stream(device, Stream::Kind::legacy_default, cudaStreamDefault, 0);
  std::lock_guard<std::mutex> lock(streams.mutex);
  if (streams.legacy_default == nullptr) streams.legacy_default = made;
  return streams.legacy_default;
}

// One for each thread and device; ends with the thread.
struct ThreadStreams {
  std::map<int, StreamPtr> streams;
  ~ThreadStreams() {
    for (auto& [device, stream] : streams) stream->close();
  }
};

StreamPtr thread_default_stream(int device) {
  thread_local ThreadStreams mine;
  StreamPtr& stream = mine.streams[device];
  if (stream == nullptr) stream = make_stream(device, Stream::Kind::blocking, cudaStreamDefault, 0);
  return stream;
}

std::vector<StreamPtr> alive_streams(int device) {
  DeviceStreams& streams = streams_of(device);
  std::lock_guard<std::mutex> lock(streams.mutex);
  return streams.alive;
}

unsigned long long next_stream_id() {
  static std::atomic<unsigned long long> ids{1};
  return ids.fetch_add(1);
}

}  // namespace

bool StreamPosition::reached() const { return stream == nullptr || stream->reached(sequence); }

void StreamPosition::wait() const {
  if (stream != nullptr) stream->wait(sequence);
}

Stream::Stream(int device, Kind kind, unsigned flags, int priority)
    : device_(device), kind_(kind), flags_(flags), priority_(priority), id_(next_stream_id()) {}

StreamPosition Stream::enqueue(Work work, std::vector<StreamPosition> dependencies) {
  std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back({std::move(work), std::move(dependencies)});
  if (!running_) {
    running_ = true;
    std::thread([self = shared_from_this()] { self->run(); }).detach();
  }
  submitted_.notify_one();
  return {shared_from_this(), ++submitted_count_};
}

StreamPosition Stream::last() {
  std::lock_guard<std::mutex> lock(mutex_);
  return {shared_from_this(), submitted_count_};
}

bool Stream::reached(uint64_t sequence) {
  std::lock_guard<std::mutex> lock(mutex_);
  return completed_count_ >= sequence;
}

void Stream::wait(uint64_t sequence) {
  std::unique_lock<std::mutex> lock(mutex_);
  completed_some_.wait(lock, [&] { return completed_count_ >= sequence; });
}

void Stream::wait_for_room() {
  std::unique_lock<std::mutex> lock(mutex_);
  completed_some_.wait(lock, [&] { return submitted_count_ - completed_count_ < stream_backlog_max; });
}

void Stream::close() {
  bool has_thread;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    has_thread = running_;
    submitted_.notify_one();
  }
  if (!has_thread) forget(shared_from_this());
}

void Stream::run() {
  pthread_setname_np(pthread_self(), "ccld-stream");
  prctl(PR_SET_TIMERSLACK, 1000);  // ns; device-busy time should end on time
  set_current_device(device_);
  work_for_gpu(static_cast<unsigned>(physical_index(device_)));
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    submitted_.wait(lock, [&] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) break;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    for (const StreamPosition& dependency : item.dependencies) dependency.wait();
    wait_while_device_frozen();
    if (item.work) item.work();
    item = {};  // what the work held goes before anyone learns that it is done
    lock.lock();
    ++completed_count_;
    completed_some_.notify_all();
  }
  lock.unlock();
  forget(shared_from_this());
}

StreamPtr create_internal_stream(int device) {
  return make_stream(device, Stream::Kind::non_blocking, cudaStreamNonBlocking, 0);
}

StreamPtr create_stream(unsigned flags, int priority) {
  const bool non_blocking = (flags & cudaStreamNonBlocking) != 0;
  StreamPtr stream = make_stream(current_device(), non_blocking ? Stream::Kind::non_blocking : Stream::Kind::blocking,
                                 flags, priority);
  std::unique_lock<std::shared_mutex> lock(handles().mutex);
  handles().streams[reinterpret_cast<cudaStream_t>(stream.get())] = stream;
  return stream;
}

StreamPtr find_stream(cudaStream_t handle) {
  if (visible_device_count() == 0) return nullptr;
  if (handle == nullptr || handle == cudaStreamLegacy) return legacy_default_stream(current_device());
  if (handle == cudaStreamPerThread) return thread_default_stream(current_device());
  std::shared_lock<std::shared_mutex> lock(handles().mutex);
  const auto found = handles().streams.find(handle);
  return found == handles().streams.end() ? nullptr : found->second;
}

StreamPosition submit_now(const StreamPtr& stream, Work work, std::vector<StreamPosition> dependencies) {
  if (stream->kind() == Stream::Kind::non_blocking) return stream->enqueue(std::move(work), std::move(dependencies));
  DeviceStreams& streams = streams_of(stream->device());
  std::lock_guard<std::mutex> lock(streams.mutex);
  if (stream->kind() == Stream::Kind::legacy_default) {
    for (const StreamPtr& other : streams.alive) {
      if (other->kind() != Stream::Kind::blocking) continue;
      StreamPosition last = other->last();
      if (!last.reached()) dependencies.push_back(std::move(last));
    }
  } else if (streams.legacy_default != nullptr) {
    StreamPosition last = streams.legacy_default->last();
    if (!last.reached()) dependencies.push_back(std::move(last));
  }
  return stream->enqueue(std::move(work), std::move(dependencies));
}

cudaError_t submit(const StreamPtr& stream, Operation operation, StreamPosition* position) {
  bool captured = false;
  const cudaError_t error = capture_operation(stream, operation, &captured);
  if (error != cudaSuccess || captured) return error;
  stream->wait_for_room();
  StreamPosition submitted = submit_now(stream, std::move(operation.work));
  if (position != nullptr) *position = std::move(submitted);
  return cudaSuccess;
}

void synchronize_device(int device) {
  for (const StreamPtr& stream : alive_streams(device)) stream->last().wait();
}

bool is_idle(const StreamPtr& stream) {
  if (!stream->last().reached()) return false;
  if (stream->kind() != Stream::Kind::legacy_default) return true;
  for (const StreamPtr& other : alive_streams(stream->device())) {
    if (other->kind() == Stream::Kind::blocking && !other->last().reached()) return false;
  }
  return true;
}

}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

namespace {

cudaError_t create(cudaStream_t* handle, unsigned flags, int priority) {
  if (handle == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) return remember(cudaErrorInvalidValue);
  if (visible_device_count() == 0) return remember(cudaErrorNoDevice);
  *handle = reinterpret_cast<cudaStream_t>(create_stream(flags, priority).get());
  return cudaSuccess;
}

}  // namespace

CCLD_CUDA_API cudaError_t cudaStreamCreate(cudaStream_t* handle) { return create(handle, cudaStreamDefault, 0); }

CCLD_CUDA_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  return create(handle, flags, 0);
}

CCLD_CUDA_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int priority) {
  return create(handle, flags, priority);
}

CCLD_CUDA_API cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  StreamPtr stream;
  {
    std::unique_lock<std::shared_mutex> lock(handles().mutex);
    const auto found = handles().streams.find(handle);
    if (found == handles().streams.end()) return remember(cudaErrorInvalidResourceHandle);
    stream = found->second;
    handles().streams.erase(found);
  }
  leave_capture(stream);
  stream->close();  // returns at once; work that was submitted still runs
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  const cudaError_t error = check_synchronizing_call(stream);
  if (error != cudaSuccess) return remember(error);
  if (stream->kind() == Stream::Kind::legacy_default) {
    if (!is_idle(stream)) submit_now(stream, {}).wait();
  } else {
    stream->last().wait();
  }
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  const cudaError_t error = check_synchronizing_call(stream);
  if (error != cudaSuccess) return remember(error);
  return remember(is_idle(stream) ? cudaSuccess : cudaErrorNotReady);
}

CCLD_CUDA_API cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  *id = stream->id();
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  *flags = stream->flags();
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  *priority = stream->priority();
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  *device = stream->device();
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  if (function == nullptr) return remember(cudaErrorInvalidValue);
  return remember(submit(stream, {cudaGraphNodeTypeHost, [=] { function(data); }, nullptr}));
}

CCLD_CUDA_API cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t callback, void* data,
                                                unsigned flags) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  if (callback == nullptr || flags != 0) return remember(cudaErrorInvalidValue);
  if (stream->capturing) return remember(cudaErrorStreamCaptureUnsupported);
  return remember(submit(stream, {cudaGraphNodeTypeHost, [=] { callback(handle, cudaSuccess, data); }, nullptr}));
}

// The device computes for `device_ns`, as if a kernel of that length ran, without using the host's processor. Programs
// find it with dlsym(); it exists only here, so that its absence tells them that the GPU is real.
CCLD_CUDA_API int ccld_cpu_device_busy(void* handle, unsigned long long device_ns) {
  const StreamPtr stream = find_stream(static_cast<cudaStream_t>(handle));
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  return remember(submit(stream, {cudaGraphNodeTypeKernel, [=] { spend_device_time(device_ns); }, nullptr}));
}
