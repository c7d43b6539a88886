#include "decision/model/names.h"

namespace ccld::decision {

const char* name(FaultClass f) {
  switch (f) {
    case FaultClass::h1_not_entered: return "H1";
    case FaultClass::h2_inconsistent: return "H2";
    case FaultClass::h3_hardware: return "H3";
    case FaultClass::s1_computation_slow: return "S1";
    case FaultClass::s2_communication_slow: return "S2";
    case FaultClass::s3_mixed_slow: return "S3";
  }
  return "?";
}

const char* title(FaultClass f) {
  switch (f) {
    case FaultClass::h1_not_entered: return "Not-Entered-Hang";
    case FaultClass::h2_inconsistent: return "Inconsistent-Hang";
    case FaultClass::h3_hardware: return "Hardware-Fault";
    case FaultClass::s1_computation_slow: return "Computation-Slow";
    case FaultClass::s2_communication_slow: return "Communication-Slow";
    case FaultClass::s3_mixed_slow: return "Mixed-Slow";
  }
  return "?";
}

const char* name(VerdictState s) {
  switch (s) {
    case VerdictState::suspected: return "suspected";
    case VerdictState::confirmed: return "confirmed";
    case VerdictState::resolved: return "resolved";
    case VerdictState::ended: return "ended";
  }
  return "?";
}

const char* name(Component c) {
  switch (c) {
    case Component::unknown: return "unknown";
    case Component::process: return "process";
    case Component::host: return "host";
    case Component::gpu: return "gpu";
    case Component::proxy: return "proxy";
    case Component::nic: return "nic";
    case Component::link: return "link";
    case Component::application: return "application";
  }
  return "?";
}

const char* name(CommRole r) {
  switch (r) {
    case CommRole::unknown: return "unknown";
    case CommRole::tensor: return "tensor";
    case CommRole::pipeline: return "pipeline";
    case CommRole::data: return "data";
    case CommRole::expert: return "expert";
    case CommRole::world: return "world";
  }
  return "?";
}

const char* name(IterationPhase p) {
  switch (p) {
    case IterationPhase::unknown: return "unknown";
    case IterationPhase::forward: return "forward";
    case IterationPhase::backward: return "backward";
    case IterationPhase::gradient_reduction: return "gradient reduction";
    case IterationPhase::pipeline_transfer: return "pipeline transfer";
    case IterationPhase::evaluation_checkpoint: return "evaluation or checkpoint";
  }
  return "?";
}

const char* name(StageEffect e) {
  switch (e) {
    case StageEffect::unknown: return "unknown";
    case StageEffect::critical: return "critical";
    case StageEffect::absorbed: return "absorbed";
  }
  return "?";
}

const char* name(Basis b) {
  switch (b) {
    case Basis::unknown: return "unknown";
    case Basis::peers: return "its peers";
    case Basis::past: return "its past";
    case Basis::connections: return "other connections";
    case Basis::past_connections: return "the past of connections";
    case Basis::transfers: return "other transfers";
    case Basis::past_transfers: return "the past of transfers";
    case Basis::expectation: return "the expected network";
    case Basis::processors: return "waits for processors";
    case Basis::gaps: return "gaps in iterations";
  }
  return "?";
}

const char* name(RuleSet r) {
  return r == RuleSet::paper ? "paper" : "default";
}

const char* name(abi::Function f) {
  switch (f) {
    case abi::Function::unknown: return "unknown";
    case abi::Function::broadcast: return "Broadcast";
    case abi::Function::reduce: return "Reduce";
    case abi::Function::all_gather: return "AllGather";
    case abi::Function::reduce_scatter: return "ReduceScatter";
    case abi::Function::all_reduce: return "AllReduce";
    case abi::Function::send: return "Send";
    case abi::Function::recv: return "Recv";
    case abi::Function::all_to_all: return "AllToAll";
    case abi::Function::gather: return "Gather";
    case abi::Function::scatter: return "Scatter";
    case abi::Function::all_gather_v: return "AllGatherV";
    case abi::Function::other: return "other";
  }
  return "?";
}

const char* name(abi::Datatype d) {
  switch (d) {
    case abi::Datatype::int8: return "int8";
    case abi::Datatype::uint8: return "uint8";
    case abi::Datatype::int32: return "int32";
    case abi::Datatype::uint32: return "uint32";
    case abi::Datatype::int64: return "int64";
    case abi::Datatype::uint64: return "uint64";
    case abi::Datatype::float16: return "float16";
    case abi::Datatype::float32: return "float32";
    case abi::Datatype::float64: return "float64";
    case abi::Datatype::bfloat16: return "bfloat16";
    case abi::Datatype::float8_e4m3: return "float8_e4m3";
    case abi::Datatype::float8_e5m2: return "float8_e5m2";
    case abi::Datatype::unknown: return "unknown";
  }
  return "?";
}

const char* name(abi::Reduction r) {
  switch (r) {
    case abi::Reduction::sum: return "sum";
    case abi::Reduction::prod: return "prod";
    case abi::Reduction::max: return "max";
    case abi::Reduction::min: return "min";
    case abi::Reduction::avg: return "avg";
    case abi::Reduction::user: return "user";
    case abi::Reduction::none: return "none";
  }
  return "?";
}

const char* name(abi::Algorithm a) {
  switch (a) {
    case abi::Algorithm::tree: return "Tree";
    case abi::Algorithm::ring: return "Ring";
    case abi::Algorithm::collnet_direct: return "CollNetDirect";
    case abi::Algorithm::collnet_chain: return "CollNetChain";
    case abi::Algorithm::nvls: return "NVLS";
    case abi::Algorithm::nvls_tree: return "NVLSTree";
    case abi::Algorithm::pat: return "PAT";
    case abi::Algorithm::symmetric: return "Symmetric";
    case abi::Algorithm::copy_engine: return "CopyEngine";
    case abi::Algorithm::unknown: return "unknown";
  }
  return "?";
}

const char* name(abi::Protocol p) {
  switch (p) {
    case abi::Protocol::ll: return "LL";
    case abi::Protocol::ll128: return "LL128";
    case abi::Protocol::simple: return "Simple";
    case abi::Protocol::unknown: return "unknown";
  }
  return "?";
}

unsigned datatype_bytes(abi::Datatype d) {
  switch (d) {
    case abi::Datatype::int8:
    case abi::Datatype::uint8:
    case abi::Datatype::float8_e4m3:
    case abi::Datatype::float8_e5m2: return 1;
    case abi::Datatype::float16:
    case abi::Datatype::bfloat16: return 2;
    case abi::Datatype::int32:
    case abi::Datatype::uint32:
    case abi::Datatype::float32: return 4;
    case abi::Datatype::int64:
    case abi::Datatype::uint64:
    case abi::Datatype::float64: return 8;
    case abi::Datatype::unknown: return 0;
  }
  return 0;
}

const char* name(Condition c) {
  switch (c) {
    case Condition::unknown: return "unknown";
    case Condition::not_called: return "not_called";
    case Condition::not_launched: return "not_launched";
    case Condition::kernel_not_started: return "kernel_not_started";
    case Condition::left: return "left";
    case Condition::replay_not_begun: return "replay_not_begun";
    case Condition::never_heard: return "never_heard";
    case Condition::initialization_behind: return "initialization_behind";
    case Condition::initialization_failed: return "initialization_failed";
    case Condition::stopped: return "stopped";
    case Condition::gone: return "gone";
    case Condition::silent: return "silent";
    case Condition::host_silent: return "host_silent";
    case Condition::aborted: return "aborted";
    case Condition::kernel_stuck: return "kernel_stuck";
    case Condition::kernel_not_begun: return "kernel_not_begun";
    case Condition::data_not_seen: return "data_not_seen";
    case Condition::proxy_stuck: return "proxy_stuck";
    case Condition::proxy_not_begun: return "proxy_not_begun";
    case Condition::nic_stuck: return "nic_stuck";
    case Condition::nothing_arrives: return "nothing_arrives";
    case Condition::call_differs: return "call_differs";
    case Condition::call_skipped: return "call_skipped";
    case Condition::call_added: return "call_added";
    case Condition::bytes_differ: return "bytes_differ";
    case Condition::ended_early: return "ended_early";
    case Condition::ended_late: return "ended_late";
    case Condition::gpu_late: return "gpu_late";
    case Condition::host_late: return "host_late";
    case Condition::link_slow: return "link_slow";
    case Condition::nic_slow: return "nic_slow";
    case Condition::proxy_slow: return "proxy_slow";
    case Condition::proxy_polls_seldom: return "proxy_polls_seldom";
    case Condition::gpu_takes_slowly: return "gpu_takes_slowly";
    case Condition::processors_short: return "processors_short";
    case Condition::gaps_longer: return "gaps_longer";
    case Condition::gpu_slow: return "gpu_slow";
  }
  return "?";
}

const char* name(WaitFor w) {
  switch (w) {
    case WaitFor::entry: return "entry";
    case WaitFor::step: return "step";
    case WaitFor::slot: return "slot";
    case WaitFor::call: return "call";
    case WaitFor::all_of_node: return "all_of_node";
    case WaitFor::all_nodes: return "all_nodes";
  }
  return "?";
}

}  // namespace ccld::decision
