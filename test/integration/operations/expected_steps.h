// What the algorithms must send, from their definition: an oracle that shares no code with NCCL.
//
// A step is one slot of a connection's buffer. A chunk takes `chunk_steps` of them. Data that does not fit into one pass
// over the chunks takes another; a partly filled pass costs as many steps as a full one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ccld::operations_test {

enum class RingOperation { all_reduce, all_gather, reduce_scatter, broadcast, reduce };

struct Steps {
  uint64_t send = 0, recv = 0;
  friend bool operator==(const Steps& a, const Steps& b) { return a.send == b.send && a.recv == b.recv; }
};

// The job's one channel, as its environment sets it.
struct Channel {
  std::string protocol;  // "Simple", "LL", "LL128"
  size_t buffer_bytes = 0;
};

// `count` elements of `element_bytes` as the API counts them: of the whole vector for AllReduce, Broadcast and Reduce, per
// rank for AllGather and ReduceScatter. Ranks follow one another around the ring.
Steps ring_steps(const Channel&, RingOperation, int rank, int ranks, size_t count, size_t element_bytes, int root);

// All ranks together: every edge of the tree carries each chunk once up and once down.
uint64_t tree_all_reduce_steps(const Channel&, int ranks, size_t count, size_t element_bytes);

// NVLS on one node, where every rank is a head: it reduces, or hands out, its part of the data. In a pass each head's
// part is a chunk, and a chunk is a step. `count` as for ring_steps().
Steps nvls_steps(RingOperation, int ranks, size_t count, size_t element_bytes, size_t chunk_bytes);

// NVLSTree with so many heads on each node, all ranks together. Of the part of each head every rank gives its own to the
// switch and takes the sum, the heads take their nodes' sums and give them back, and each edge of the tree carries them up and
// down.
uint64_t nvls_tree_all_reduce_steps(int ranks, int nodes, int heads, size_t count, size_t element_bytes, size_t chunk_bytes);

// CollNet on nodes with one head each (`heads`: 1), all ranks together: the ranks of a node join in a star or chain that carries each chunk
// up and down, and heads give it to the network and take it.
uint64_t collnet_all_reduce_steps(int ranks, int nodes, int heads, size_t count, size_t element_bytes, size_t chunk_bytes);

}  // namespace ccld::operations_test
