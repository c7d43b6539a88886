#include "nccl/cpu_device/cuda/graph.h"

#include <cuda_runtime_api.h>
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "test/unit/cpu_device/gate.h"
#include "test/unit/cpu_device/launch.h"

using namespace ccld::cpu_device;

namespace {

struct Fixture {
  cudaStream_t stream;
  int* value;
  Fixture() {
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(reinterpret_cast<void**>(&value), 1024);
    cudaMemset(value, 0, 1024);
  }
  ~Fixture() {
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    cudaFree(value);
    cudaGetLastError();
  }
};

cudaGraphNode_t add_host(cudaGraph_t graph, std::vector<cudaGraphNode_t> dependencies, cudaHostFn_t function,
                         void* data) {
  cudaHostNodeParams parameters{};
  parameters.fn = function;
  parameters.userData = data;
  cudaGraphNode_t node;
  REQUIRE(cudaGraphAddHostNode(&node, graph, dependencies.data(), dependencies.size(), &parameters) == cudaSuccess);
  return node;
}

struct Letter {
  std::string* text;
  std::mutex* mutex;
  char letter;
  static void write(void* data) {
    auto* self = static_cast<Letter*>(data);
    std::lock_guard<std::mutex> lock(*self->mutex);
    *self->text += self->letter;
  }
};

}  // namespace

TEST_CASE("A graph of every kind of node replays in the order of its dependencies", "[graph]") {
  Fixture f;
  cudaGraph_t graph;
  REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
  cudaGraphNode_t memset_node, kernel_node, memcpy_node, empty_node;
  cudaMemsetParams fill{};
  fill.dst = f.value;
  fill.value = 10;
  fill.elementSize = 4;
  fill.width = 1;
  fill.height = 1;
  REQUIRE(cudaGraphAddMemsetNode(&memset_node, graph, nullptr, 0, &fill) == cudaSuccess);
  const KernelBody add = [&] {
    if (thread_index() == 0) *f.value += 5;
  };
  const KernelBody* body = &add;
  void* arguments[] = {&body};
  cudaKernelNodeParams kernel{};
  kernel.func = const_cast<void*>(body_kernel());
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(32);
  kernel.kernelParams = arguments;
  REQUIRE(cudaGraphAddKernelNode(&kernel_node, graph, &memset_node, 1, &kernel) == cudaSuccess);
  REQUIRE(cudaGraphAddMemcpyNode1D(&memcpy_node, graph, &kernel_node, 1, f.value + 1, f.value, 4,
                                   cudaMemcpyDeviceToDevice) == cudaSuccess);
  REQUIRE(cudaGraphAddEmptyNode(&empty_node, graph, &memcpy_node, 1) == cudaSuccess);
  int seen = 0;
  struct Read {
    int *from, *to;
    static void run(void* data) { *static_cast<Read*>(data)->to = *static_cast<Read*>(data)->from; }
  } read{f.value + 1, &seen};
  add_host(graph, {empty_node}, &Read::run, &read);
  size_t count = 0;
  REQUIRE(cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess);
  REQUIRE(count == 5);
  cudaGraphNodeType type;
  REQUIRE(cudaGraphNodeGetType(kernel_node, &type) == cudaSuccess);
  REQUIRE(type == cudaGraphNodeTypeKernel);

  cudaGraphExec_t executable;
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  for (int replay = 0; replay < 5; ++replay) {
    *f.value = -100;
    seen = 0;
    REQUIRE(cudaGraphLaunch(executable, f.stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(f.stream) == cudaSuccess);
    REQUIRE(seen == 15);
  }
  REQUIRE(cudaGraphExecDestroy(executable) == cudaSuccess);
}

TEST_CASE("Branches of a graph run side by side and join", "[graph]") {
  Fixture f;
  cudaGraph_t graph;
  cudaGraphCreate(&graph, 0);
  // Two branches that wait for each other: a replay that runs them one after the other never ends.
  struct Meeting {
    std::atomic<int> arrived{0};
    int after = 0;
    static void meet(void* data) {
      auto* self = static_cast<Meeting*>(data);
      for (++self->arrived; self->arrived < 2;) std::this_thread::yield();
    }
    static void join(void* data) {
      auto* self = static_cast<Meeting*>(data);
      self->after = self->arrived;
    }
  } meeting;
  cudaGraphNode_t root;
  cudaGraphAddEmptyNode(&root, graph, nullptr, 0);
  cudaGraphNode_t left = add_host(graph, {root}, &Meeting::meet, &meeting);
  cudaGraphNode_t right = add_host(graph, {root}, &Meeting::meet, &meeting);
  add_host(graph, {left, right}, &Meeting::join, &meeting);
  cudaGraphExec_t executable;
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(executable, f.stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(f.stream) == cudaSuccess);
  REQUIRE(meeting.after == 2);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_CASE("A replay is ordered within its stream, and replays of one graph follow each other", "[graph]") {
  Fixture f;
  std::string text;
  std::mutex mutex;
  Letter a{&text, &mutex, 'a'}, b{&text, &mutex, 'b'}, before{&text, &mutex, '<'}, after{&text, &mutex, '>'};
  cudaGraph_t graph;
  cudaGraphCreate(&graph, 0);
  cudaGraphNode_t first = add_host(graph, {}, &Letter::write, &a);
  add_host(graph, {first}, &Letter::write, &b);
  cudaGraphExec_t executable;
  cudaGraphInstantiate(&executable, graph, 0);
  cudaStream_t other;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  Gate gate;
  gate.close_stream(f.stream);
  cudaLaunchHostFunc(f.stream, &Letter::write, &before);
  cudaGraphLaunch(executable, f.stream);
  cudaLaunchHostFunc(f.stream, &Letter::write, &after);
  cudaGraphLaunch(executable, other);  // another stream, but the same graph
  gate.open();
  cudaStreamSynchronize(f.stream);
  cudaStreamSynchronize(other);
  REQUIRE((text == "<ab>ab" || text == "<aba>b" || text == "<abab>"));
  cudaStreamDestroy(other);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_CASE("Event nodes record and wait at every replay", "[graph]") {
  Fixture f;
  cudaEvent_t event;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaGraph_t producer, consumer;
  cudaGraphCreate(&producer, 0);
  cudaGraphCreate(&consumer, 0);
  cudaGraphNode_t node;
  REQUIRE(cudaGraphAddEventRecordNode(&node, producer, nullptr, 0, event) == cudaSuccess);
  REQUIRE(cudaGraphAddEventWaitNode(&node, consumer, nullptr, 0, event) == cudaSuccess);
  cudaGraphExec_t produce, consume;
  cudaGraphInstantiate(&produce, producer, 0);
  cudaGraphInstantiate(&consume, consumer, 0);
  cudaStream_t other;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  for (int replay = 0; replay < 3; ++replay) {
    Gate gate;
    gate.close_stream(f.stream);
    cudaGraphLaunch(produce, f.stream);
    cudaGraphLaunch(consume, other);
    gate.wait_for_arrival();
    REQUIRE(cudaStreamQuery(other) == cudaErrorNotReady);
    gate.open();
    REQUIRE(cudaStreamSynchronize(other) == cudaSuccess);
    REQUIRE(cudaEventQuery(event) == cudaSuccess);
  }
  cudaStreamDestroy(other);
  cudaGraphExecDestroy(produce);
  cudaGraphExecDestroy(consume);
  cudaGraphDestroy(producer);
  cudaGraphDestroy(consumer);
  cudaEventDestroy(event);
}

TEST_CASE("A user object lives as long as the last graph and replay that retain it", "[graph]") {
  Fixture f;
  std::atomic<bool> destroyed{false};
  cudaUserObject_t object;
  REQUIRE(cudaUserObjectCreate(
              &object, &destroyed, [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }, 1,
              cudaUserObjectNoDestructorSync) == cudaSuccess);
  cudaGraph_t graph;
  cudaGraphCreate(&graph, 0);
  REQUIRE(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove) == cudaSuccess);
  cudaGraphExec_t executable;
  cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  REQUIRE_FALSE(destroyed);
  {
    Gate gate;
    gate.close_stream(f.stream);
    cudaGraphLaunch(executable, f.stream);
    cudaGraphExecDestroy(executable);
    REQUIRE_FALSE(destroyed);
  }
  cudaStreamSynchronize(f.stream);
  REQUIRE(destroyed);
}

TEST_CASE("A circle of dependencies cannot be instantiated", "[graph]") {
  cudaGraph_t graph;
  cudaGraphCreate(&graph, 0);
  cudaGraphNode_t a, b;
  cudaGraphAddEmptyNode(&a, graph, nullptr, 0);
  cudaGraphAddEmptyNode(&b, graph, &a, 1);
  REQUIRE(cudaGraphAddDependencies(graph, &b, &a, nullptr, 1) == cudaSuccess);
  cudaGraphExec_t executable;
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaErrorInvalidValue);
  cudaGraphDestroy(graph);
  cudaGetLastError();
}
