#include "nccl/cpu_device/cuda/graph.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "nccl/cpu_device/base/diagnostics.h"
#include "nccl/cpu_device/cuda/capture.h"
#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/events.h"
#include "nccl/cpu_device/cuda/launch.h"
#include "nccl/cpu_device/cuda/memory.h"

namespace ccld::cpu_device {

void retain_user_object(cudaUserObject_t object, unsigned count) {
  std::lock_guard<std::mutex> lock(object->mutex);
  object->references += count;
}

void release_user_object(cudaUserObject_t object, unsigned count) {
  {
    std::lock_guard<std::mutex> lock(object->mutex);
    object->references -= std::min(count, object->references);
    if (object->references != 0) return;
  }
  object->destroy(object->data);
  delete object;
}

namespace {

// A node of an executable graph. Nodes of one lane follow each other on the same stream.
struct PlannedNode {
  Operation operation;
  size_t lane;
  bool first_in_lane;
  std::vector<size_t> waits_for;  // planned nodes of other lanes
};

// An executable graph; shared with its unfinished replays.
struct Plan {
  std::vector<PlannedNode> nodes;  // in an order that respects the dependencies
  size_t lanes = 0;
  std::vector<cudaUserObject_t> user_objects;

  std::mutex mutex;  // one replay is submitted at a time
  std::vector<StreamPtr> lane_streams;
  StreamPosition last_replay;

  ~Plan() {
    for (const StreamPtr& stream : lane_streams) stream->close();
    for (cudaUserObject_t object : user_objects) release_user_object(object, 1);
  }
};

// Nodes in an order in which every node comes after its dependencies, and otherwise as they were created; shorter than
// the graph if the dependencies go in a circle.
std::vector<const CUgraphNode_st*> in_dependency_order(const CUgraph_st& graph) {
  std::vector<size_t> missing(graph.nodes.size());
  std::vector<std::vector<size_t>> dependents(graph.nodes.size());
  std::set<size_t> ready;
  for (const auto& node : graph.nodes) {
    missing[node->index] = node->dependencies.size();
    for (cudaGraphNode_t dependency : node->dependencies) dependents[dependency->index].push_back(node->index);
    if (node->dependencies.empty()) ready.insert(node->index);
  }
  std::vector<const CUgraphNode_st*> order;
  while (!ready.empty()) {
    const size_t index = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(graph.nodes[index].get());
    for (size_t dependent : dependents[index]) {
      if (--missing[dependent] == 0) ready.insert(dependent);
    }
  }
  return order;
}

std::shared_ptr<Plan> make_plan(const CUgraph_st& graph) {
  const std::vector<const CUgraphNode_st*> order = in_dependency_order(graph);
  if (order.size() != graph.nodes.size()) return nullptr;
  auto plan = std::make_shared<Plan>();
  std::vector<size_t> planned_index(graph.nodes.size());
  std::vector<size_t> lane_tails;  // the last planned node of each lane
  for (const CUgraphNode_st* node : order) {
    const size_t mine = plan->nodes.size();
    planned_index[node->index] = mine;
    PlannedNode planned{node->operation, lane_tails.size(), true, {}};
    for (cudaGraphNode_t dependency : node->dependencies) {
      const size_t other = planned_index[dependency->index];
      const size_t lane = plan->nodes[other].lane;
      if (planned.first_in_lane && lane_tails[lane] == other) {  // continue that lane
        planned.lane = lane;
        planned.first_in_lane = false;
      } else {
        planned.waits_for.push_back(other);
      }
    }
    if (planned.first_in_lane) lane_tails.push_back(mine);
    lane_tails[planned.lane] = mine;
    plan->nodes.push_back(std::move(planned));
  }
  plan->lanes = lane_tails.size();
  plan->user_objects = graph.user_objects;
  for (cudaUserObject_t object : plan->user_objects) retain_user_object(object, 1);
  return plan;
}

StreamPosition replay_node(const StreamPtr& stream, const PlannedNode& node, std::vector<StreamPosition> waits) {
  if (node.operation.type == cudaGraphNodeTypeEventRecord) {
    return record_now(stream, node.operation.event, std::move(waits));
  }
  if (node.operation.type == cudaGraphNodeTypeWaitEvent) {
    return wait_now(stream, node.operation.event, std::move(waits));
  }
  return submit_now(stream, node.operation.work, std::move(waits));
}

void replay(const std::shared_ptr<Plan>& plan, const StreamPtr& stream) {
  std::lock_guard<std::mutex> lock(plan->mutex);
  while (plan->lane_streams.size() + 1 < plan->lanes) {
    plan->lane_streams.push_back(create_internal_stream(stream->device()));
  }
  const StreamPosition begin = submit_now(stream, {}, {plan->last_replay});
  std::vector<StreamPosition> positions;
  std::vector<StreamPosition> tails(plan->lanes);
  positions.reserve(plan->nodes.size());
  for (const PlannedNode& node : plan->nodes) {
    std::vector<StreamPosition> waits;
    if (node.first_in_lane && node.lane != 0) waits.push_back(begin);
    for (size_t other : node.waits_for) waits.push_back(positions[other]);
    positions.push_back(
        replay_node(node.lane == 0 ? stream : plan->lane_streams[node.lane - 1], node, std::move(waits)));
    tails[node.lane] = positions.back();
  }
  if (!tails.empty()) tails.erase(tails.begin());  // lane 0 is the stream itself
  // The work holds the plan, and with it the user's objects, until the replay is over.
  plan->last_replay = submit_now(
      stream, [plan] {}, std::move(tails));
}

struct NodeList {
  const cudaGraphNode_t* nodes;
  size_t count;

  std::vector<cudaGraphNode_t> copy() const { return {nodes, nodes + count}; }
  bool belong_to(cudaGraph_t graph) const {
    return std::all_of(nodes, nodes + count,
                       [&](cudaGraphNode_t node) { return node != nullptr && node->graph == graph; });
  }
};

cudaError_t add_node(cudaGraphNode_t* node, cudaGraph_t graph, NodeList dependencies, Operation operation) {
  if (node == nullptr || graph == nullptr || !dependencies.belong_to(graph)) return cudaErrorInvalidValue;
  *node = graph->add(std::move(operation), dependencies.copy());
  return cudaSuccess;
}

// Fills a user's array as CUDA does: a null array asks for the count.
void answer_nodes(const std::vector<cudaGraphNode_t>& answer, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count; ++i) nodes[i] = i < answer.size() ? answer[i] : nullptr;
    *count = std::min(*count, answer.size());
  } else {
    *count = answer.size();
  }
}

}  // namespace
}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

// An executable graph's handle.
struct CUgraphExec_st {
  std::shared_ptr<Plan> plan;
};

CUgraph_st::~CUgraph_st() {
  for (cudaUserObject_t object : user_objects) release_user_object(object, 1);
}

cudaGraphNode_t CUgraph_st::add(Operation operation, std::vector<cudaGraphNode_t> dependencies) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->graph = this;
  node->index = nodes.size();
  node->operation = std::move(operation);
  node->dependencies = std::move(dependencies);
  nodes.push_back(std::move(node));
  return nodes.back().get();
}

CCLD_CUDA_API cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  if (graph == nullptr || flags != 0) return remember(cudaErrorInvalidValue);
  *graph = new CUgraph_st;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (graph == nullptr) return remember(cudaErrorInvalidValue);
  delete graph;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies, size_t count) {
  return remember(add_node(node, graph, {dependencies, count}, {}));
}

CCLD_CUDA_API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                               const cudaGraphNode_t* dependencies, size_t count,
                                               const cudaHostNodeParams* parameters) {
  const cudaHostFn_t function = parameters->fn;
  void* const data = parameters->userData;
  if (function == nullptr) return remember(cudaErrorInvalidValue);
  return remember(
      add_node(node, graph, {dependencies, count}, {cudaGraphNodeTypeHost, [=] { function(data); }, nullptr}));
}

CCLD_CUDA_API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                 const cudaGraphNode_t* dependencies, size_t count,
                                                 const cudaKernelNodeParams* parameters) {
  Operation operation;
  const cudaError_t error =
      make_launch(parameters->func, parameters->gridDim, parameters->blockDim, parameters->sharedMemBytes,
                  {parameters->kernelParams, parameters->extra}, &operation);
  if (error != cudaSuccess) return remember(error);
  return remember(add_node(node, graph, {dependencies, count}, std::move(operation)));
}

CCLD_CUDA_API cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* dependencies, size_t count, void* target,
                                                   const void* source, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = check_copy(target, source, bytes, kind);
  if (error != cudaSuccess) return remember(error);
  return remember(add_node(node, graph, {dependencies, count},
                           {cudaGraphNodeTypeMemcpy, [=] { copy_bytes(target, source, bytes); }, nullptr}));
}

CCLD_CUDA_API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                 const cudaGraphNode_t* dependencies, size_t count,
                                                 const cudaMemsetParams* parameters) {
  const cudaMemsetParams p = *parameters;
  if (p.elementSize != 1 && p.elementSize != 2 && p.elementSize != 4) return remember(cudaErrorInvalidValue);
  const size_t pitch = p.height > 1 ? p.pitch : p.width * p.elementSize;
  const size_t bytes = p.height == 0 ? 0 : pitch * (p.height - 1) + p.width * p.elementSize;
  const cudaError_t error = check_device_range(p.dst, bytes);
  if (error != cudaSuccess) return remember(error);
  const auto fill = [=] {
    for (size_t row = 0; row < p.height; ++row) {
      char* begin = static_cast<char*>(p.dst) + row * pitch;
      for (size_t i = 0; i < p.width; ++i) memcpy(begin + i * p.elementSize, &p.value, p.elementSize);
    }
  };
  return remember(add_node(node, graph, {dependencies, count}, {cudaGraphNodeTypeMemset, fill, nullptr}));
}

CCLD_CUDA_API cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                      const cudaGraphNode_t* dependencies, size_t count,
                                                      cudaEvent_t handle) {
  EventPtr event = find_event(handle);
  if (event == nullptr) return remember(cudaErrorInvalidResourceHandle);
  return remember(add_node(node, graph, {dependencies, count}, {cudaGraphNodeTypeEventRecord, {}, std::move(event)}));
}

CCLD_CUDA_API cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    const cudaGraphNode_t* dependencies, size_t count,
                                                    cudaEvent_t handle) {
  EventPtr event = find_event(handle);
  if (event == nullptr) return remember(cudaErrorInvalidResourceHandle);
  return remember(add_node(node, graph, {dependencies, count}, {cudaGraphNodeTypeWaitEvent, {}, std::move(event)}));
}

CCLD_CUDA_API cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                   const cudaGraphNode_t* to, const cudaGraphEdgeData*, size_t count) {
  if (graph == nullptr || !NodeList{from, count}.belong_to(graph) || !NodeList{to, count}.belong_to(graph)) {
    return remember(cudaErrorInvalidValue);
  }
  for (size_t i = 0; i < count; ++i) {
    auto& dependencies = to[i]->dependencies;
    if (std::find(dependencies.begin(), dependencies.end(), from[i]) == dependencies.end()) {
      dependencies.push_back(from[i]);
    }
  }
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (graph == nullptr || count == nullptr) return remember(cudaErrorInvalidValue);
  std::vector<cudaGraphNode_t> all;
  for (const auto& node : graph->nodes) all.push_back(node.get());
  answer_nodes(all, nodes, count);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (graph == nullptr || count == nullptr) return remember(cudaErrorInvalidValue);
  std::vector<cudaGraphNode_t> roots;
  for (const auto& node : graph->nodes) {
    if (node->dependencies.empty()) roots.push_back(node.get());
  }
  answer_nodes(roots, nodes, count);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  if (node == nullptr || type == nullptr) return remember(cudaErrorInvalidValue);
  *type = node->operation.type;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                               unsigned long long flags) {
  constexpr unsigned long long harmless = cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUpload |
                                          cudaGraphInstantiateFlagUseNodePriority;
  if (executable == nullptr || graph == nullptr) return remember(cudaErrorInvalidValue);
  if ((flags & ~harmless) != 0) {
    report("cudaGraphInstantiate: flags 0x%llx are not supported by the CPU device", flags & ~harmless);
    return remember(cudaErrorNotSupported);
  }
  if (const cudaError_t error = check_unsafe_call(); error != cudaSuccess) return remember(error);
  std::shared_ptr<Plan> plan = make_plan(*graph);
  if (plan == nullptr) return remember(cudaErrorInvalidValue);  // a circle
  *executable = new CUgraphExec_st{std::move(plan)};
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                        unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}

CCLD_CUDA_API cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t) {
  return remember(executable != nullptr ? cudaSuccess : cudaErrorInvalidValue);
}

CCLD_CUDA_API cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  const StreamPtr stream = find_stream(handle);
  if (executable == nullptr) return remember(cudaErrorInvalidValue);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  if (stream->capturing) {
    report("cudaGraphLaunch into a stream that is being captured (a child graph) is not supported by the CPU device");
    return remember(cudaErrorNotSupported);
  }
  replay(executable->plan, stream);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  if (executable == nullptr) return remember(cudaErrorInvalidValue);
  delete executable;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* data, cudaHostFn_t destroy,
                                               unsigned references, unsigned flags) {
  if (object == nullptr || destroy == nullptr || references == 0 || flags != cudaUserObjectNoDestructorSync) {
    return remember(cudaErrorInvalidValue);
  }
  *object = new CUuserObject_st{{}, references, destroy, data};
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  if (object == nullptr || count == 0) return remember(cudaErrorInvalidValue);
  retain_user_object(object, count);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  if (object == nullptr || count == 0) return remember(cudaErrorInvalidValue);
  release_user_object(object, count);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                                    unsigned flags) {
  if (graph == nullptr || object == nullptr || count == 0) return remember(cudaErrorInvalidValue);
  if ((flags & cudaGraphUserObjectMove) == 0) retain_user_object(object, count);
  graph->user_objects.insert(graph->user_objects.end(), count, object);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
  if (graph == nullptr || object == nullptr) return remember(cudaErrorInvalidValue);
  for (; count > 0; --count) {
    const auto found = std::find(graph->user_objects.begin(), graph->user_objects.end(), object);
    if (found == graph->user_objects.end()) return remember(cudaErrorInvalidValue);
    graph->user_objects.erase(found);
    release_user_object(object, 1);
  }
  return cudaSuccess;
}
