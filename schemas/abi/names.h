// Names of the enums of frame.h, as people write them. Numbers that are not known are "?" (a newer writer).
#pragma once

#include "schemas/abi/frame.h"

namespace ccld::abi {

constexpr const char* name_of(Function value) {
  switch (value) {
    case Function::unknown: return "unknown";
    case Function::broadcast: return "Broadcast";
    case Function::reduce: return "Reduce";
    case Function::all_gather: return "AllGather";
    case Function::reduce_scatter: return "ReduceScatter";
    case Function::all_reduce: return "AllReduce";
    case Function::send: return "Send";
    case Function::recv: return "Recv";
    case Function::all_to_all: return "AlltoAll";
    case Function::gather: return "Gather";
    case Function::scatter: return "Scatter";
    case Function::all_gather_v: return "AllGatherV";
    case Function::other: return "other";
  }
  return "?";
}

constexpr const char* name_of(Datatype value) {
  switch (value) {
    case Datatype::int8: return "int8";
    case Datatype::uint8: return "uint8";
    case Datatype::int32: return "int32";
    case Datatype::uint32: return "uint32";
    case Datatype::int64: return "int64";
    case Datatype::uint64: return "uint64";
    case Datatype::float16: return "float16";
    case Datatype::float32: return "float32";
    case Datatype::float64: return "float64";
    case Datatype::bfloat16: return "bfloat16";
    case Datatype::float8_e4m3: return "float8e4m3";
    case Datatype::float8_e5m2: return "float8e5m2";
    case Datatype::unknown: return "unknown";
  }
  return "?";
}

constexpr const char* name_of(Reduction value) {
  switch (value) {
    case Reduction::sum: return "sum";
    case Reduction::prod: return "prod";
    case Reduction::max: return "max";
    case Reduction::min: return "min";
    case Reduction::avg: return "avg";
    case Reduction::user: return "user";
    case Reduction::none: return "none";
  }
  return "?";
}

constexpr const char* name_of(Algorithm value) {
  switch (value) {
    case Algorithm::tree: return "Tree";
    case Algorithm::ring: return "Ring";
    case Algorithm::collnet_direct: return "CollNetDirect";
    case Algorithm::collnet_chain: return "CollNetChain";
    case Algorithm::nvls: return "NVLS";
    case Algorithm::nvls_tree: return "NVLSTree";
    case Algorithm::pat: return "PAT";
    case Algorithm::symmetric: return "Symmetric";
    case Algorithm::copy_engine: return "CopyEngine";
    case Algorithm::unknown: return "unknown";
  }
  return "?";
}

constexpr const char* name_of(Protocol value) {
  switch (value) {
    case Protocol::ll: return "LL";
    case Protocol::ll128: return "LL128";
    case Protocol::simple: return "Simple";
    case Protocol::unknown: return "unknown";
  }
  return "?";
}

constexpr const char* name_of(Direction value) { return value == Direction::send ? "send" : "recv"; }

constexpr const char* name_of(WaitKind value) {
  switch (value) {
    case WaitKind::none: return "none";
    case WaitKind::data: return "data";
    case WaitKind::credit: return "credit";
  }
  return "?";
}

constexpr const char* name_of(CommState value) {
  switch (value) {
    case CommState::none: return "none";
    case CommState::initializing: return "initializing";
    case CommState::ready: return "ready";
    case CommState::finalized: return "finalized";
    case CommState::destroyed: return "destroyed";
    case CommState::aborted: return "aborted";
  }
  return "?";
}

}  // namespace ccld::abi
