#include "nccl/cpu_device/cuda/capture.h"

#include <cuda_runtime_api.h>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "test/unit/cpu_device/gate.h"
#include "test/unit/cpu_device/launch.h"

using namespace ccld::cpu_device;

namespace {

struct Fixture {
  cudaStream_t stream, side;
  cudaEvent_t fork, join;
  int* value;
  cudaGraph_t graph = nullptr;
  Fixture() {
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
    cudaMalloc(reinterpret_cast<void**>(&value), 1024);
    cudaMemset(value, 0, 1024);
  }
  ~Fixture() {
    cudaStreamSynchronize(stream);
    cudaStreamSynchronize(side);
    cudaStreamDestroy(stream);
    cudaStreamDestroy(side);
    cudaEventDestroy(fork);
    cudaEventDestroy(join);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaFree(value);
    cudaGetLastError();
  }
  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    REQUIRE(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
  }
  cudaError_t end() { return cudaStreamEndCapture(stream, &graph); }
  cudaStreamCaptureStatus status(cudaStream_t of) {
    cudaStreamCaptureStatus result;
    REQUIRE(cudaStreamIsCapturing(of, &result) == cudaSuccess);
    return result;
  }
};

size_t node_count(cudaGraph_t graph) {
  size_t count = 0;
  cudaGraphGetNodes(graph, nullptr, &count);
  return count;
}

void replay(cudaGraph_t graph, cudaStream_t stream, int times) {
  cudaGraphExec_t executable;
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  for (int i = 0; i < times; ++i) REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  REQUIRE(cudaGraphExecDestroy(executable) == cudaSuccess);
}

}  // namespace

TEST_CASE("What is captured does not run until the graph is replayed, then every time", "[capture]") {
  Fixture f;
  const KernelBody add = [&] {
    if (thread_index() == 0) f.value[0] += 3;
  };
  f.begin();
  REQUIRE(f.status(f.stream) == cudaStreamCaptureStatusActive);
  REQUIRE(launch(f.stream, 1, 32, &add) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(f.value + 1, f.value, 4, cudaMemcpyDeviceToDevice, f.stream) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(f.value + 2, 1, 4, f.stream) == cudaSuccess);
  REQUIRE(f.end() == cudaSuccess);
  REQUIRE(f.status(f.stream) == cudaStreamCaptureStatusNone);
  REQUIRE(f.value[0] == 0);
  REQUIRE(node_count(f.graph) == 3);
  replay(f.graph, f.stream, 4);
  REQUIRE(f.value[0] == 12);
  REQUIRE(f.value[1] == 12);
  REQUIRE(f.value[2] == 0x01010101);
}

TEST_CASE("A stream joins a capture by waiting for one of its events and must be joined again", "[capture]") {
  Fixture f;
  const KernelBody left = [&] {
    if (thread_index() == 0) f.value[0] = f.value[5] + 1;
  };
  const KernelBody right = [&] {
    if (thread_index() == 0) f.value[1] = f.value[5] + 2;
  };
  const KernelBody sum = [&] {
    if (thread_index() == 0) f.value[5] = f.value[0] + f.value[1];
  };
  f.begin();
  cudaEventRecord(f.fork, f.stream);
  REQUIRE(cudaStreamWaitEvent(f.side, f.fork, 0) == cudaSuccess);
  REQUIRE(f.status(f.side) == cudaStreamCaptureStatusActive);
  launch(f.stream, 1, 32, &left);
  launch(f.side, 1, 32, &right);
  SECTION("joined") {
    cudaEventRecord(f.join, f.side);
    cudaStreamWaitEvent(f.stream, f.join, 0);
    launch(f.stream, 1, 32, &sum);
    REQUIRE(f.end() == cudaSuccess);
    REQUIRE(f.status(f.side) == cudaStreamCaptureStatusNone);
    REQUIRE(node_count(f.graph) == 3);
    replay(f.graph, f.stream, 3);
    REQUIRE(f.value[5] == 21);  // x -> 2x + 3, three times from 0
  }
  SECTION("not joined") {
    REQUIRE(f.end() == cudaErrorStreamCaptureUnjoined);
    REQUIRE(f.graph == nullptr);
  }
}

TEST_CASE("External events become nodes of the graph", "[capture]") {
  Fixture f;
  f.begin();
  REQUIRE(cudaStreamWaitEvent(f.stream, f.fork, cudaEventWaitExternal) == cudaSuccess);
  REQUIRE(cudaEventRecordWithFlags(f.join, f.stream, cudaEventRecordExternal) == cudaSuccess);
  REQUIRE(f.end() == cudaSuccess);
  REQUIRE(node_count(f.graph) == 2);
  Gate gate;
  gate.close_stream(f.side);
  cudaEventRecord(f.fork, f.side);
  cudaGraphExec_t executable;
  cudaGraphInstantiate(&executable, f.graph, 0);
  cudaGraphLaunch(executable, f.stream);
  gate.wait_for_arrival();
  REQUIRE(cudaEventQuery(f.join) == cudaErrorNotReady);
  gate.open();
  REQUIRE(cudaEventSynchronize(f.join) == cudaSuccess);
  cudaGraphExecDestroy(executable);
}

TEST_CASE("The dependencies of a capturing stream can be read and replaced", "[capture]") {
  Fixture f;
  f.begin(cudaStreamCaptureModeRelaxed);
  cudaMemsetAsync(f.value, 1, 4, f.stream);
  cudaStreamCaptureStatus status;
  unsigned long long id = 0;
  cudaGraph_t graph;
  const cudaGraphNode_t* nodes;
  size_t count = 0;
  REQUIRE(cudaStreamGetCaptureInfo(f.stream, &status, &id, &graph, &nodes, nullptr, &count) == cudaSuccess);
  REQUIRE(status == cudaStreamCaptureStatusActive);
  REQUIRE(id != 0);
  REQUIRE(count == 1);
  cudaGraphNode_t record;
  REQUIRE(cudaGraphAddEventRecordNode(&record, graph, nodes, count, f.fork) == cudaSuccess);
  REQUIRE(cudaStreamUpdateCaptureDependencies(f.stream, &record, nullptr, 1, cudaStreamSetCaptureDependencies) ==
          cudaSuccess);
  REQUIRE(cudaStreamGetCaptureInfo(f.stream, &status, nullptr, nullptr, &nodes, nullptr, &count) == cudaSuccess);
  REQUIRE(count == 1);
  REQUIRE(nodes[0] == record);
  REQUIRE(f.end() == cudaSuccess);
  replay(f.graph, f.stream, 1);
  REQUIRE(cudaEventQuery(f.fork) == cudaSuccess);
}

TEST_CASE("Calls that wait are refused during a capture and spoil it", "[capture]") {
  Fixture f;
  f.begin();
  SECTION("stream synchronisation") { REQUIRE(cudaStreamSynchronize(f.stream) == cudaErrorStreamCaptureUnsupported); }
  SECTION("stream query") { REQUIRE(cudaStreamQuery(f.stream) == cudaErrorStreamCaptureUnsupported); }
  SECTION("query of a captured event") {
    cudaEventRecord(f.fork, f.stream);
    REQUIRE(cudaEventQuery(f.fork) == cudaErrorCapturedEvent);
  }
  SECTION("allocation") {
    void* memory;
    REQUIRE(cudaMalloc(&memory, 100) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("device synchronisation") { REQUIRE(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported); }
  SECTION("synchronous copy") {
    int host = 0;
    REQUIRE(cudaMemcpy(f.value, &host, 4, cudaMemcpyHostToDevice) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("dependency on work outside of the capture") {
    cudaEventRecord(f.join, f.side);
    REQUIRE(cudaStreamWaitEvent(f.stream, f.join, 0) == cudaErrorStreamCaptureIsolation);
  }
  REQUIRE(f.status(f.stream) == cudaStreamCaptureStatusInvalidated);
  REQUIRE(cudaMemsetAsync(f.value, 0, 4, f.stream) == cudaErrorStreamCaptureInvalidated);
  REQUIRE(f.end() == cudaErrorStreamCaptureInvalidated);
  REQUIRE(f.graph == nullptr);
  cudaGetLastError();
  REQUIRE(cudaMemsetAsync(f.value, 0, 4, f.stream) == cudaSuccess);  // usable again
}

TEST_CASE("The default stream may not be used while a blocking stream is captured", "[capture]") {
  Fixture f;
  cudaStream_t blocking;
  cudaStreamCreate(&blocking);
  REQUIRE(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(f.value, 0, 4, nullptr) == cudaErrorStreamCaptureImplicit);
  REQUIRE(cudaStreamEndCapture(blocking, &f.graph) == cudaErrorStreamCaptureInvalidated);
  cudaStreamDestroy(blocking);
  REQUIRE(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) == cudaErrorStreamCaptureUnsupported);
}

TEST_CASE("The capture mode decides which threads may allocate", "[capture]") {
  Fixture f;
  const auto allocate_in_another_thread = [] {
    cudaError_t error;
    std::thread([&] {
      void* memory;
      error = cudaMalloc(&memory, 100);
      if (error == cudaSuccess) cudaFree(memory);
    }).join();
    return error;
  };
  SECTION("global: none") {
    f.begin(cudaStreamCaptureModeGlobal);
    REQUIRE(allocate_in_another_thread() == cudaErrorStreamCaptureUnsupported);
    REQUIRE(f.end() == cudaErrorStreamCaptureInvalidated);
  }
  SECTION("thread local: others") {
    f.begin(cudaStreamCaptureModeThreadLocal);
    REQUIRE(allocate_in_another_thread() == cudaSuccess);
    REQUIRE(f.end() == cudaSuccess);
  }
  SECTION("relaxed: all") {
    void* memory;
    f.begin(cudaStreamCaptureModeRelaxed);
    REQUIRE(cudaMalloc(&memory, 100) == cudaSuccess);
    REQUIRE(f.end() == cudaSuccess);
    cudaFree(memory);
  }
  SECTION("a thread that said it is relaxed may") {
    void* memory;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    f.begin(cudaStreamCaptureModeGlobal);
    REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
    REQUIRE(cudaMalloc(&memory, 100) == cudaSuccess);
    REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
    REQUIRE(f.end() == cudaSuccess);
    cudaFree(memory);
  }
}

TEST_CASE("A graph is not instantiated by a thread that captures another", "[capture]") {
  Fixture f;
  f.begin(cudaStreamCaptureModeThreadLocal);
  REQUIRE(f.end() == cudaSuccess);
  cudaGraph_t first = f.graph;
  f.graph = nullptr;
  cudaGraphExec_t executable;
  f.begin(cudaStreamCaptureModeThreadLocal);
  REQUIRE(cudaGraphInstantiate(&executable, first, 0) == cudaErrorStreamCaptureUnsupported);
  REQUIRE(f.end() == cudaErrorStreamCaptureInvalidated);
  REQUIRE(cudaGraphInstantiate(&executable, first, 0) == cudaSuccess);
  REQUIRE(cudaGraphExecDestroy(executable) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(first) == cudaSuccess);
}

TEST_CASE("A capture ends on the stream and thread where it began", "[capture]") {
  Fixture f;
  f.begin(cudaStreamCaptureModeThreadLocal);
  cudaError_t error;
  std::thread([&] { error = f.end(); }).join();
  REQUIRE(error == cudaErrorStreamCaptureWrongThread);
  cudaEventRecord(f.fork, f.stream);
  cudaStreamWaitEvent(f.side, f.fork, 0);
  cudaGraph_t other;
  REQUIRE(cudaStreamEndCapture(f.side, &other) == cudaErrorStreamCaptureUnmatched);
  REQUIRE(f.end() == cudaErrorStreamCaptureInvalidated);
  REQUIRE(f.end() == cudaErrorIllegalState);
}
