#include "nccl/hooks/enums.h"

#include <catch2/catch.hpp>
#include <set>

#include "nccl_tuner.h"

namespace ccld::hooks {
namespace {

TEST_CASE("Every collective of NCCL has an id of its own, and only collectives have an operation number") {
  const ncclFunc_t collectives[] = {ncclFuncBroadcast,     ncclFuncReduce,    ncclFuncAllGather,
                                    ncclFuncReduceScatter, ncclFuncAllReduce, ncclFuncAlltoAll,
                                    ncclFuncScatter,       ncclFuncGather,    ncclFuncAllGatherV};
  std::set<abi::Function> ids;
  for (ncclFunc_t function : collectives) {
    CHECK(is_collective(function));
    CHECK_FALSE(is_point_to_point(function));
    ids.insert(function_of(function));
  }
  CHECK(ids.size() == sizeof(collectives) / sizeof(*collectives));
  CHECK(ids.count(abi::Function::other) == 0);
  for (ncclFunc_t function : {ncclFuncSend, ncclFuncRecv, ncclFuncPutSignal, ncclFuncSignal, ncclFuncWaitSignal})
    CHECK_FALSE(is_collective(function));
  CHECK(is_point_to_point(ncclFuncSend));
  CHECK(is_point_to_point(ncclFuncRecv));
}

TEST_CASE("A function that NCCL adds later is 'other', not one of ours") {
  CHECK(function_of(static_cast<ncclFunc_t>(ncclNumFuncs)) == abi::Function::other);
  CHECK_FALSE(is_collective(static_cast<ncclFunc_t>(ncclNumFuncs)));
}

TEST_CASE("Data types, algorithms and protocols keep their meaning, and unknown numbers stay unknown") {
  CHECK(datatype_of(ncclFloat32) == abi::Datatype::float32);
  CHECK(datatype_of(ncclFloat8e5m2) == abi::Datatype::float8_e5m2);
  CHECK(datatype_of(ncclNumTypes) == abi::Datatype::unknown);
  CHECK(algorithm_of(NCCL_ALGO_RING) == abi::Algorithm::ring);
  CHECK(algorithm_of(NCCL_ALGO_PAT) == abi::Algorithm::pat);
  CHECK(algorithm_of(NCCL_ALGO_UNDEF) == abi::Algorithm::unknown);
  CHECK(algorithm_of(NCCL_NUM_ALGORITHMS) == abi::Algorithm::unknown);
  CHECK(protocol_of(NCCL_PROTO_LL128) == abi::Protocol::ll128);
  CHECK(protocol_of(NCCL_PROTO_UNDEF) == abi::Protocol::unknown);
}

TEST_CASE("Only functions that reduce have a reduction, and the user's own are 'user'") {
  CHECK(reduction_of(ncclFuncAllReduce, ncclAvg) == abi::Reduction::avg);
  CHECK(reduction_of(ncclFuncReduceScatter, ncclMax) == abi::Reduction::max);
  CHECK(reduction_of(ncclFuncReduce, static_cast<ncclRedOp_t>(ncclNumOps + 3)) == abi::Reduction::user);
  CHECK(reduction_of(ncclFuncAllGather, ncclSum) == abi::Reduction::none);
  CHECK(reduction_of(ncclFuncBroadcast, ncclSum) == abi::Reduction::none);
}

TEST_CASE("Rooted functions have a root") {
  for (ncclFunc_t function : {ncclFuncBroadcast, ncclFuncReduce, ncclFuncGather, ncclFuncScatter})
    CHECK(has_root(function));
  for (ncclFunc_t function : {ncclFuncAllReduce, ncclFuncAllGather, ncclFuncReduceScatter, ncclFuncAlltoAll})
    CHECK_FALSE(has_root(function));
}

}  // namespace
}  // namespace ccld::hooks
