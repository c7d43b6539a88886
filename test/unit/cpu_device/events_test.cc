#include "nccl/cpu_device/cuda/events.h"

#include <atomic>
#include <catch2/catch.hpp>

#include "test/unit/cpu_device/gate.h"

using namespace ccld::cpu_device;

extern "C" int ccld_cpu_device_busy(void* stream, unsigned long long device_ns);

namespace {

struct Fixture {
  cudaStream_t first, second;
  cudaEvent_t event, timed;
  Fixture() {
    cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaEventCreate(&timed);
  }
  ~Fixture() {
    cudaDeviceSynchronize();
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
    cudaEventDestroy(event);
    cudaEventDestroy(timed);
    cudaGetLastError();
  }
};

void set_flag(void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }

}  // namespace

TEST_CASE("An event that was never recorded is complete", "[events]") {
  Fixture f;
  REQUIRE(cudaEventQuery(f.event) == cudaSuccess);
  REQUIRE(cudaEventSynchronize(f.event) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(f.first, f.event, 0) == cudaSuccess);
}

TEST_CASE("A stream waits for an event of another", "[events]") {
  Fixture f;
  Gate gate;
  std::atomic<bool> passed{false};
  gate.close_stream(f.first);
  cudaEventRecord(f.event, f.first);
  cudaStreamWaitEvent(f.second, f.event, 0);
  cudaLaunchHostFunc(f.second, set_flag, &passed);
  gate.wait_for_arrival();
  REQUIRE(cudaEventQuery(f.event) == cudaErrorNotReady);
  REQUIRE_FALSE(passed);
  gate.open();
  REQUIRE(cudaStreamSynchronize(f.second) == cudaSuccess);
  REQUIRE(passed);
  REQUIRE(cudaEventQuery(f.event) == cudaSuccess);
}

TEST_CASE("A wait means the record that was last when it was called", "[events]") {
  Fixture f;
  Gate gate;
  cudaEventRecord(f.event, f.first);
  cudaStreamWaitEvent(f.second, f.event, 0);
  gate.close_stream(f.first);
  cudaEventRecord(f.event, f.first);  // later: the second stream does not wait for it
  REQUIRE(cudaStreamSynchronize(f.second) == cudaSuccess);
  REQUIRE(cudaEventQuery(f.event) == cudaErrorNotReady);
}

TEST_CASE("An event can be destroyed while a stream waits for it", "[events]") {
  Fixture f;
  Gate gate;
  cudaEvent_t event;
  std::atomic<bool> passed{false};
  cudaEventCreate(&event);
  gate.close_stream(f.first);
  cudaEventRecord(event, f.first);
  cudaStreamWaitEvent(f.second, event, 0);
  cudaLaunchHostFunc(f.second, set_flag, &passed);
  REQUIRE(cudaEventDestroy(event) == cudaSuccess);
  REQUIRE(cudaEventRecord(event, f.first) == cudaErrorInvalidResourceHandle);
  gate.open();
  cudaStreamSynchronize(f.second);
  REQUIRE(passed);
}

TEST_CASE("Elapsed time is measured between records", "[events]") {
  Fixture f;
  cudaEvent_t begin;
  cudaEventCreate(&begin);
  float elapsed_ms = 0;
  REQUIRE(cudaEventElapsedTime(&elapsed_ms, begin, f.timed) == cudaErrorInvalidResourceHandle);
  Gate gate;
  gate.close_stream(f.first);
  cudaEventRecord(begin, f.first);
  ccld_cpu_device_busy(f.first, 20'000'000);
  cudaEventRecord(f.timed, f.first);
  REQUIRE(cudaEventElapsedTime(&elapsed_ms, begin, f.timed) == cudaErrorNotReady);
  gate.open();
  REQUIRE(cudaEventSynchronize(f.timed) == cudaSuccess);
  REQUIRE(cudaEventElapsedTime(&elapsed_ms, begin, f.timed) == cudaSuccess);
  REQUIRE(elapsed_ms >= 19.9f);
  REQUIRE(cudaEventElapsedTime(&elapsed_ms, begin, f.event) == cudaErrorInvalidResourceHandle);
  cudaEventDestroy(begin);
}

TEST_CASE("An event of the default stream follows the blocking streams", "[events]") {
  Fixture f;
  Gate gate;
  cudaStream_t blocking;
  cudaStreamCreate(&blocking);
  gate.close_stream(blocking);
  cudaEventRecord(f.event, nullptr);
  gate.wait_for_arrival();
  REQUIRE(cudaEventQuery(f.event) == cudaErrorNotReady);
  gate.open();
  REQUIRE(cudaEventSynchronize(f.event) == cudaSuccess);
  cudaStreamDestroy(blocking);
}
