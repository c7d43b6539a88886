// Graphs: operations with dependencies, recorded once and replayed.
//
// Contract
//   A Graph is edited by one thread at a time. Instantiating copies it, so that the original may change or go away.
//   A replay runs independent branches side by side, each on a stream of its own, and two replays of one executable
//   graph one after the other.
//
// Left out (each answers with an error): child graphs, memory nodes, conditional nodes, updates of executable graphs.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "nccl/cpu_device/cuda/streams.h"

// CUDA's handle types are pointers to these.
struct CUgraphNode_st {
  CUgraph_st* graph;
  size_t index;  // in the graph, in order of creation
  ccld::cpu_device::Operation operation;
  std::vector<cudaGraphNode_t> dependencies;
};

// Something of the user's that lives as long as any graph that retains it.
struct CUuserObject_st {
  std::mutex mutex;
  unsigned references;
  cudaHostFn_t destroy;
  void* data;
};

namespace ccld::cpu_device {

void retain_user_object(cudaUserObject_t, unsigned count);
// Destroys the object with its last reference.
void release_user_object(cudaUserObject_t, unsigned count);

}  // namespace ccld::cpu_device

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  std::vector<cudaUserObject_t> user_objects;  // one entry per reference

  CUgraph_st() = default;
  CUgraph_st(const CUgraph_st&) = delete;
  ~CUgraph_st();

  cudaGraphNode_t add(ccld::cpu_device::Operation operation, std::vector<cudaGraphNode_t> dependencies);
};
