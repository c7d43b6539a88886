// NCCL's enumerations as the stable ids of the frame and the wire.
#pragma once

#include "nccl.h"
#include "nccl_common.h"
#include "schemas/abi/frame.h"

namespace ccld::hooks {

abi::Function function_of(ncclFunc_t function);
abi::Datatype datatype_of(ncclDataType_t datatype);
// none for functions that do not reduce.
abi::Reduction reduction_of(ncclFunc_t function, ncclRedOp_t reduction);
abi::Algorithm algorithm_of(int algorithm);
abi::Protocol protocol_of(int protocol);

// Collectives have an op_seq; Send, Recv and one-sided operations do not.
bool is_collective(ncclFunc_t function);
bool is_point_to_point(ncclFunc_t function);
bool has_root(ncclFunc_t function);

}  // namespace ccld::hooks
