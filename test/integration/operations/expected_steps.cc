#include "test/integration/operations/expected_steps.h"

namespace ccld::operations_test {
namespace {

constexpr size_t steps_per_buffer = 8;

size_t slot_data_bytes(const Channel& channel) {
  const size_t slot = channel.buffer_bytes / steps_per_buffer;
  if (channel.protocol == "LL") return slot / 2;           // every other word is a flag
  if (channel.protocol == "LL128") return slot / 16 * 15;  // one word in sixteen
  return slot;
}

// Slots of a chunk in a ring; other algorithms use one.
size_t ring_chunk_steps(const Channel& channel, RingOperation operation) {
  const bool pipelined = operation == RingOperation::broadcast || operation == RingOperation::reduce;
  return channel.protocol == "Simple" && !pipelined ? 4 : 1;
}

size_t passes(size_t bytes, size_t bytes_per_pass) { return (bytes + bytes_per_pass - 1) / bytes_per_pass; }

}  // namespace

Steps ring_steps(const Channel& channel, RingOperation operation, int rank, int ranks, size_t count,
                 size_t element_bytes, int root) {
  if (count == 0 || ranks == 1) return {};
  const size_t chunk_steps = ring_chunk_steps(channel, operation);
  const size_t chunk_bytes = slot_data_bytes(channel) * chunk_steps;
  const size_t bytes = count * element_bytes;
  const auto others = static_cast<uint64_t>(ranks - 1);
  const int from_root = (rank - root + ranks) % ranks;
  switch (operation) {
    case RingOperation::all_reduce: {
      const uint64_t steps = passes(bytes, chunk_bytes * static_cast<size_t>(ranks)) * chunk_steps * 2 * others;
      return {steps, steps};
    }
    case RingOperation::all_gather:
    case RingOperation::reduce_scatter: {
      const uint64_t steps = passes(bytes, chunk_bytes) * chunk_steps * others;
      return {steps, steps};
    }
    case RingOperation::broadcast: {
      const uint64_t steps = passes(bytes, chunk_bytes) * chunk_steps;
      return {from_root == ranks - 1 ? 0 : steps, from_root == 0 ? 0 : steps};
    }
    case RingOperation::reduce: {
      const uint64_t steps = passes(bytes, chunk_bytes) * chunk_steps;
      return {from_root == 0 ? 0 : steps, from_root == 1 ? 0 : steps};
    }
  }
  return {};
}

uint64_t tree_all_reduce_steps(const Channel& channel, int ranks, size_t count, size_t element_bytes) {
  return passes(count * element_bytes, slot_data_bytes(channel)) * 2 * static_cast<uint64_t>(ranks - 1);
}

Steps nvls_steps(RingOperation operation, int ranks, size_t count, size_t element_bytes, size_t chunk_bytes) {
  const auto heads = static_cast<uint64_t>(ranks);
  // What a head has of an AllReduce is its share, of the others what the API calls the count.
  const bool shared = operation == RingOperation::all_reduce;
  const uint64_t chunks = passes(count * element_bytes, shared ? heads * chunk_bytes : chunk_bytes);
  switch (operation) {
    case RingOperation::all_gather: return {chunks, chunks * heads};      // one for all, one from each
    case RingOperation::reduce_scatter: return {chunks * heads, chunks};  // one to each, one sum
    case RingOperation::all_reduce: return {chunks * (heads + 1), chunks * (heads + 1)};
    default: return {};
  }
}

uint64_t nvls_tree_all_reduce_steps(int ranks, int nodes, int heads, size_t count, size_t element_bytes,
                                    size_t chunk_bytes) {
  const auto parts = static_cast<size_t>(heads);
  return passes(count * element_bytes, parts * chunk_bytes) * parts *
         static_cast<uint64_t>(ranks + nodes + 2 * (nodes - 1));
}

uint64_t collnet_all_reduce_steps(int ranks, int nodes, int, size_t count, size_t element_bytes, size_t chunk_bytes) {
  return passes(count * element_bytes, chunk_bytes) * static_cast<uint64_t>(2 * (ranks - nodes) + nodes);
}

}  // namespace ccld::operations_test
