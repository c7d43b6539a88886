#include "benchmarks/gpu/call.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ccld::gpu {
namespace {

constexpr Collective collectives[] = {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                      Collective::broadcast,  Collective::reduce,     Collective::ring_exchange,
                                      Collective::all_to_all};

struct TypeName {
  const char* name;
  ncclDataType_t type;
  size_t bytes;
};
constexpr TypeName types[] = {
    {"i8", ncclInt8, 1},       {"u8", ncclUint8, 1},    {"i32", ncclInt32, 4},
    {"u32", ncclUint32, 4},    {"i64", ncclInt64, 8},   {"f16", ncclFloat16, 2},
    {"bf16", ncclBfloat16, 2}, {"f32", ncclFloat32, 4}, {"f64", ncclFloat64, 8},
};

constexpr std::pair<const char*, ncclRedOp_t> reductions[] = {
    {"sum", ncclSum}, {"prod", ncclProd}, {"max", ncclMax}, {"min", ncclMin}, {"avg", ncclAvg}};

bool is_wide_source(Collective c) { return c == Collective::reduce_scatter || c == Collective::all_to_all; }
bool is_wide_target(Collective c) { return c == Collective::all_gather || c == Collective::all_to_all; }

}  // namespace

Collective parse_collective(const std::string& word) {
  for (const Collective c : collectives) {
    if (word == cpu_device_matrix::name_of(c)) return c;
  }
  throw std::runtime_error("there is no collective '" + word + "'");
}

ncclDataType_t parse_type(const std::string& word) {
  for (const TypeName& t : types) {
    if (word == t.name) return t.type;
  }
  throw std::runtime_error("there is no type '" + word + "'");
}

ncclRedOp_t parse_reduction(const std::string& word) {
  for (const auto& [name, reduction] : reductions) {
    if (word == name) return reduction;
  }
  throw std::runtime_error("there is no reduction '" + word + "'");
}

size_t bytes_of(ncclDataType_t type) {
  for (const TypeName& t : types) {
    if (type == t.type) return t.bytes;
  }
  throw std::runtime_error("there is no type " + std::to_string(type));
}

size_t send_count(const Call& call, int ranks) {
  return is_wide_source(call.collective) ? call.count * static_cast<size_t>(ranks) : call.count;
}

size_t recv_count(const Call& call, int ranks) {
  return is_wide_target(call.collective) ? call.count * static_cast<size_t>(ranks) : call.count;
}

Call call_of_bytes(Collective collective, size_t bytes, int ranks) {
  Call call;
  call.collective = collective;
  const bool is_shared = is_wide_source(collective) || is_wide_target(collective);
  call.count = std::max<size_t>(1, bytes / bytes_of(call.type) / (is_shared ? static_cast<size_t>(ranks) : 1));
  return call;
}

ncclResult_t issue(const Call& call, const void* send, void* recv, int rank, int ranks, ncclComm_t comm,
                   cudaStream_t stream) {
  switch (call.collective) {
    case Collective::all_reduce: return ncclAllReduce(send, recv, call.count, call.type, call.reduction, comm, stream);
    case Collective::all_gather: return ncclAllGather(send, recv, call.count, call.type, comm, stream);
    case Collective::reduce_scatter:
      return ncclReduceScatter(send, recv, call.count, call.type, call.reduction, comm, stream);
    case Collective::broadcast: return ncclBroadcast(send, recv, call.count, call.type, call.root, comm, stream);
    case Collective::reduce:
      return ncclReduce(send, recv, call.count, call.type, call.reduction, call.root, comm, stream);
    case Collective::ring_exchange: {
      const ncclResult_t sent = ncclSend(send, call.count, call.type, (rank + 1) % ranks, comm, stream);
      if (sent != ncclSuccess) return sent;
      return ncclRecv(recv, call.count, call.type, (rank + ranks - 1) % ranks, comm, stream);
    }
    case Collective::all_to_all: {
      const size_t part_bytes = call.count * bytes_of(call.type);
      for (int peer = 0; peer < ranks; ++peer) {
        const size_t part = static_cast<size_t>(peer) * part_bytes;
        const ncclResult_t sent =
            ncclSend(static_cast<const char*>(send) + part, call.count, call.type, peer, comm, stream);
        if (sent != ncclSuccess) return sent;
        const ncclResult_t received =
            ncclRecv(static_cast<char*>(recv) + part, call.count, call.type, peer, comm, stream);
        if (received != ncclSuccess) return received;
      }
      return ncclSuccess;
    }
  }
  return ncclInvalidArgument;
}

}  // namespace ccld::gpu
