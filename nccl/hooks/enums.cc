#include "nccl/hooks/enums.h"

#include "nccl_tuner.h"

namespace ccld::hooks {
namespace {

template <class Id, class Theirs>
constexpr bool same(Id id, Theirs theirs) {
  return static_cast<int>(id) == static_cast<int>(theirs);
}

// Where the numbers agree, translating is a cast. An upstream release that renumbers stops the build here.
static_assert(same(abi::Datatype::int8, ncclInt8) && same(abi::Datatype::uint8, ncclUint8));
static_assert(same(abi::Datatype::int32, ncclInt32) && same(abi::Datatype::uint32, ncclUint32));
static_assert(same(abi::Datatype::int64, ncclInt64) && same(abi::Datatype::uint64, ncclUint64));
static_assert(same(abi::Datatype::float16, ncclFloat16) && same(abi::Datatype::float32, ncclFloat32));
static_assert(same(abi::Datatype::float64, ncclFloat64) && same(abi::Datatype::bfloat16, ncclBfloat16));
static_assert(same(abi::Datatype::float8_e4m3, ncclFloat8e4m3) && same(abi::Datatype::float8_e5m2, ncclFloat8e5m2));
static_assert(static_cast<int>(ncclNumTypes) == 12);

static_assert(same(abi::Reduction::sum, ncclSum) && same(abi::Reduction::prod, ncclProd));
static_assert(same(abi::Reduction::max, ncclMax) && same(abi::Reduction::min, ncclMin));
static_assert(same(abi::Reduction::avg, ncclAvg) && static_cast<int>(ncclNumOps) == 5);

static_assert(same(abi::Algorithm::tree, NCCL_ALGO_TREE) && same(abi::Algorithm::ring, NCCL_ALGO_RING));
static_assert(same(abi::Algorithm::collnet_direct, NCCL_ALGO_COLLNET_DIRECT));
static_assert(same(abi::Algorithm::collnet_chain, NCCL_ALGO_COLLNET_CHAIN));
static_assert(same(abi::Algorithm::nvls, NCCL_ALGO_NVLS) && same(abi::Algorithm::nvls_tree, NCCL_ALGO_NVLS_TREE));
static_assert(same(abi::Algorithm::pat, NCCL_ALGO_PAT) && NCCL_NUM_ALGORITHMS == 7);

static_assert(same(abi::Protocol::ll, NCCL_PROTO_LL) && same(abi::Protocol::ll128, NCCL_PROTO_LL128));
static_assert(same(abi::Protocol::simple, NCCL_PROTO_SIMPLE) && NCCL_NUM_PROTOCOLS == 3);

}  // namespace

abi::Function function_of(ncclFunc_t function) {
  switch (function) {
    case ncclFuncBroadcast: return abi::Function::broadcast;
    case ncclFuncReduce: return abi::Function::reduce;
    case ncclFuncAllGather: return abi::Function::all_gather;
    case ncclFuncReduceScatter: return abi::Function::reduce_scatter;
    case ncclFuncAllReduce: return abi::Function::all_reduce;
    case ncclFuncSend: return abi::Function::send;
    case ncclFuncRecv: return abi::Function::recv;
    case ncclFuncAlltoAll: return abi::Function::all_to_all;
    case ncclFuncScatter: return abi::Function::scatter;
    case ncclFuncGather: return abi::Function::gather;
    case ncclFuncAllGatherV: return abi::Function::all_gather_v;
    default: return abi::Function::other;
  }
}

abi::Datatype datatype_of(ncclDataType_t datatype) {
  const int number = static_cast<int>(datatype);
  return number >= 0 && number < static_cast<int>(ncclNumTypes) ? static_cast<abi::Datatype>(number)
                                                                : abi::Datatype::unknown;
}

abi::Reduction reduction_of(ncclFunc_t function, ncclRedOp_t reduction) {
  if (function != ncclFuncReduce && function != ncclFuncReduceScatter && function != ncclFuncAllReduce)
    return abi::Reduction::none;
  const int number = static_cast<int>(reduction);
  if (number < 0) return abi::Reduction::none;
  return number < static_cast<int>(ncclNumOps) ? static_cast<abi::Reduction>(number) : abi::Reduction::user;
}

abi::Algorithm algorithm_of(int algorithm) {
  return algorithm >= 0 && algorithm < NCCL_NUM_ALGORITHMS ? static_cast<abi::Algorithm>(algorithm)
                                                           : abi::Algorithm::unknown;
}

abi::Protocol protocol_of(int protocol) {
  return protocol >= 0 && protocol < NCCL_NUM_PROTOCOLS ? static_cast<abi::Protocol>(protocol) : abi::Protocol::unknown;
}

bool is_point_to_point(ncclFunc_t function) { return function == ncclFuncSend || function == ncclFuncRecv; }

bool is_collective(ncclFunc_t function) {
  return !is_point_to_point(function) && function_of(function) != abi::Function::other;
}

bool has_root(ncclFunc_t function) {
  return function == ncclFuncBroadcast || function == ncclFuncReduce || function == ncclFuncGather ||
         function == ncclFuncScatter;
}

}  // namespace ccld::hooks
