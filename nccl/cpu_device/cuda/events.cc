#include "nccl/cpu_device/cuda/events.h"

#include <shared_mutex>
#include <unordered_map>

#include "nccl/cpu_device/base/clock.h"
#include "nccl/cpu_device/cuda/capture.h"
#include "nccl/cpu_device/cuda/errors.h"

namespace ccld::cpu_device {
namespace {

struct EventTable {
  std::shared_mutex mutex;
  std::unordered_map<cudaEvent_t, EventPtr> events;
};

EventTable& table() {
  static auto* const instance = new EventTable;
  return *instance;
}

}  // namespace

uint64_t EventState::begin_record() {
  std::lock_guard<std::mutex> lock(mutex);
  return ++recorded;
}

void EventState::complete_record(uint64_t record) {
  std::lock_guard<std::mutex> lock(mutex);
  if (record > completed) {
    completed = record;
    time_ns = monotonic_ns();
  }
  completed_one.notify_all();
}

void EventState::wait_for(uint64_t record) {
  std::unique_lock<std::mutex> lock(mutex);
  completed_one.wait(lock, [&] { return completed >= record; });
}

bool EventState::is_complete(uint64_t* last_record) {
  std::lock_guard<std::mutex> lock(mutex);
  *last_record = recorded;
  return completed >= recorded;
}

EventPtr find_event(cudaEvent_t handle) {
  std::shared_lock<std::shared_mutex> lock(table().mutex);
  const auto found = table().events.find(handle);
  return found == table().events.end() ? nullptr : found->second;
}

StreamPosition record_now(const StreamPtr& stream, const EventPtr& event, std::vector<StreamPosition> dependencies) {
  const uint64_t record = event->begin_record();
  return submit_now(
      stream, [event, record] { event->complete_record(record); }, std::move(dependencies));
}

StreamPosition wait_now(const StreamPtr& stream, const EventPtr& event, std::vector<StreamPosition> dependencies) {
  uint64_t record;
  Work work;
  if (!event->is_complete(&record)) work = [event, record] { event->wait_for(record); };
  return submit_now(stream, std::move(work), std::move(dependencies));
}

cudaError_t record_event(const StreamPtr& stream, const EventPtr& event, unsigned flags) {
  bool captured = false;
  const cudaError_t error = capture_event_record(stream, event, flags, &captured);
  if (error == cudaSuccess && !captured) record_now(stream, event);
  return error;
}

}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  constexpr unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (handle == nullptr || (flags & ~known) != 0) return remember(cudaErrorInvalidValue);
  auto event = std::make_shared<EventState>();
  event->timing = (flags & cudaEventDisableTiming) == 0;
  *handle = reinterpret_cast<cudaEvent_t>(event.get());
  std::unique_lock<std::shared_mutex> lock(table().mutex);
  table().events[*handle] = std::move(event);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaEventCreate(cudaEvent_t* handle) {
  return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

CCLD_CUDA_API cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  std::unique_lock<std::shared_mutex> lock(table().mutex);
  return remember(table().events.erase(handle) != 0 ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

CCLD_CUDA_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags) {
  const EventPtr event = find_event(handle);
  const StreamPtr stream = find_stream(stream_handle);
  if (event == nullptr || stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  return remember(record_event(stream, event, flags));
}

CCLD_CUDA_API cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  return cudaEventRecordWithFlags(handle, stream_handle, cudaEventRecordDefault);
}

CCLD_CUDA_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
  const EventPtr event = find_event(handle);
  const StreamPtr stream = find_stream(stream_handle);
  if (event == nullptr || stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  bool captured = false;
  const cudaError_t error = capture_event_wait(stream, event, flags, &captured);
  if (error != cudaSuccess) return remember(error);
  uint64_t record;
  if (!captured && !event->is_complete(&record)) wait_now(stream, event);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const EventPtr event = find_event(handle);
  if (event == nullptr) return remember(cudaErrorInvalidResourceHandle);
  const cudaError_t error = check_event_call(event);
  if (error != cudaSuccess) return remember(error);
  uint64_t record;
  return remember(event->is_complete(&record) ? cudaSuccess : cudaErrorNotReady);
}

CCLD_CUDA_API cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const EventPtr event = find_event(handle);
  if (event == nullptr) return remember(cudaErrorInvalidResourceHandle);
  const cudaError_t error = check_event_call(event);
  if (error != cudaSuccess) return remember(error);
  uint64_t record;
  if (!event->is_complete(&record)) event->wait_for(record);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaEventElapsedTime(float* elapsed_ms, cudaEvent_t begin_handle, cudaEvent_t end_handle) {
  const EventPtr begin = find_event(begin_handle), end = find_event(end_handle);
  if (begin == nullptr || end == nullptr || !begin->timing || !end->timing) {
    return remember(cudaErrorInvalidResourceHandle);
  }
  uint64_t begin_record, end_record;
  const bool complete = begin->is_complete(&begin_record) & end->is_complete(&end_record);
  if (begin_record == 0 || end_record == 0) return remember(cudaErrorInvalidResourceHandle);
  if (!complete) return remember(cudaErrorNotReady);
  *elapsed_ms = static_cast<float>(static_cast<double>(static_cast<int64_t>(end->time_ns - begin->time_ns)) * 1e-6);
  return cudaSuccess;
}
