// API calls, and the kernels ("plans") that carry one or several of them.
#include "comm.h"
#include "cudawrap.h"
#include "group.h"
#include "info.h"
#include "nccl/hooks/ccld_hooks.h"
#include "nccl/hooks/enums.h"
#include "nccl/hooks/hooked_comm.h"
#include "nccl/hooks/signals.h"
#include "probe/probe.h"
#include "probe/settings.h"
#include "strongstream.h"

using namespace ccld;

namespace ccld::hooks {
namespace {

uint8_t grouped_flag() {
  // NCCL opens a group of its own around every call.
  return static_cast<uint8_t>(ncclGroupDepth > 1 ? abi::op_grouped : 0);
}

// Whether the call that begins is the first one on this communicator in NCCL's present group.
bool begins_group(const ncclComm* comm) {
  const ncclComm* const in_no_group = reinterpret_cast<const ncclComm*>(0x1);
  return comm->groupNext[ncclGroupTaskTypeCollective] == in_no_group;
}

// Whether the call whose tasks are being made is recorded into a graph: NCCL has just found out.
bool is_captured(const ncclComm* comm) { return ncclCudaGraphValid(comm->planner.capturingGraph); }

uint64_t channels_in_frame(const ccld_comm& hooked, uint64_t channel_mask) {
  return hooked.channel_count >= 64 ? channel_mask : channel_mask & ((uint64_t{1} << hooked.channel_count) - 1);
}

probe::PlanShape shape_of(const ccld_comm& hooked, abi::Algorithm algorithm, abi::Protocol protocol,
                          uint64_t channel_mask, uint8_t signals) {
  probe::PlanShape shape{};
  shape.algorithm = algorithm;
  shape.protocol = protocol;
  shape.channel_mask = channels_in_frame(hooked, channel_mask);
  shape.channel_count = static_cast<unsigned>(__builtin_popcountll(shape.channel_mask));
  shape.signals = signals;
  return shape;
}

probe::Plan plan_of(const ncclKernelPlan* plan) { return {plan->ccld_token, plan->ccld_replay_slot}; }

void number_plan(ccld_comm& hooked, ncclKernelPlan* plan, bool writes_rounds) {
  if (plan->ccld_token != 0) return;
  const probe::Plan numbered = probe::plan_begins(hooked.probe, plan->persistent, writes_rounds);
  plan->ccld_token = numbered.token;
  plan->ccld_replay_slot = numbered.replay_slot;
}

void plan_operations(ccld_comm& hooked, ncclKernelPlan* plan) {
  const probe::Plan numbered = plan_of(plan);
  const bool proxies = plan->hasProxyOps;
  for (const ncclTaskColl* task = ncclIntruQueueHead(&plan->collTaskQueue); task != nullptr; task = task->next) {
    const abi::Algorithm algorithm = algorithm_of(task->algorithm);
    const bool device_sends_alone = (task->regBufType & NCCL_NET_REG_BUFFER) != 0;
    probe::operation_planned(hooked.probe, task->ccld_op_seq, numbered,
                             shape_of(hooked, algorithm, protocol_of(task->protocol), task->ccld_channels,
                                      signals_of_collective(algorithm, device_sends_alone, proxies)));
  }
  // Several broadcasts of a group run as one ring operation on all channels of the plan; its protocol is not kept by
  // NCCL.
  for (const ncclTaskBcast* task = ncclIntruQueueHead(&plan->bcastTaskQueue); task != nullptr; task = task->next) {
    probe::operation_planned(hooked.probe, task->ccld_op_seq, numbered,
                             shape_of(hooked, abi::Algorithm::ring, abi::Protocol::unknown, plan->channelMask,
                                      signals_of_collective(abi::Algorithm::ring, false, proxies)));
  }
  // Calls of Send and Recv, or what AlltoAll, Gather and Scatter are made of.
  for (const ncclTaskP2p* task = ncclIntruQueueHead(&plan->p2pTaskQueue); task != nullptr; task = task->next) {
    const bool to_itself = task->root == plan->comm->rank;
    if (task->ccld_op_seq != 0) {
      probe::operation_planned(hooked.probe, task->ccld_op_seq, numbered,
                               shape_of(hooked, abi::Algorithm::unknown, abi::Protocol::unknown, plan->channelMask,
                                        signals_of_point_to_point(false, proxies)));
    } else {
      probe::p2p_planned(hooked.probe, task->ccld_call, numbered,
                         shape_of(hooked, abi::Algorithm::unknown, abi::Protocol::unknown, plan->channelMask,
                                  signals_of_point_to_point(to_itself, proxies)));
    }
  }
}

// ---- launches without a kernel that writes rounds -------------------------------------------------------------------

bool is_seen_by_stream(const ncclKernelPlan* plan) { return plan->isSymColl || plan->isCeColl; }

uint8_t signals_of(const ccld_comm& hooked, const ncclKernelPlan* plan) {
  const bool can_write =
      hooked.stream_line != nullptr && pfn_cuStreamWriteValue32 != nullptr && !hooked.stream_writes_fail;
  return signals_of_stream(probe::settings().stream_writes, plan->persistent, can_write);
}

// Lets the stream store `token` when everything before is done.
bool write_by_stream(ccld_comm& hooked, cudaStream_t stream, size_t offset, uint32_t token) {
  const CUdeviceptr address = reinterpret_cast<CUdeviceptr>(hooked.stream_line + offset);
  if (pfn_cuStreamWriteValue32(stream, address, token, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS) return true;
  hooked.stream_writes_fail = true;
  return false;
}

// ---- hardware tests of a running job

// A thread that records a graph may not wait, and CUDA says so of a stream that is not its own, too.
bool may_be_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) == cudaSuccess) return status != cudaStreamCaptureStatusNone;
  (void)cudaGetLastError();
  return true;
}

void hold_if_asked(const ccld_comm& hooked, const ncclInfo* info) {
  const bool collective = is_collective(info->coll);
  if (probe::hold_is_due(hooked.probe, collective))
    probe::hold_here(hooked.probe, collective, may_be_captured(info->stream));
}

}  // namespace
}  // namespace ccld::hooks

void ccld_operation_entered(struct ncclInfo* info) {
  ccld_comm* hooked = info->comm->ccld;
  if (hooked == nullptr) return;
  if (hooked->may_hold) hooks::hold_if_asked(*hooked, info);
  if (hooks::begins_group(info->comm)) probe::group_begins(hooked->probe);
  hooked->current_op_seq = 0;
  hooked->current_call = 0;
  if (hooks::is_point_to_point(info->coll)) {
    probe::PointToPoint call{};
    call.direction = info->coll == ncclFuncSend ? abi::Direction::send : abi::Direction::recv;
    call.datatype = hooks::datatype_of(info->datatype);
    call.flags = hooks::grouped_flag();
    call.peer = info->root;
    call.bytes = info->count * static_cast<uint64_t>(ncclTypeSize(info->datatype));
    hooked->current_call = probe::p2p_entered(hooked->probe, call);
    return;
  }
  if (!hooks::is_collective(info->coll)) return;
  probe::Operation operation{};
  operation.function = hooks::function_of(info->coll);
  operation.datatype = hooks::datatype_of(info->datatype);
  operation.reduction = hooks::reduction_of(info->coll, info->op);
  operation.flags = hooks::grouped_flag();
  if (info->count == 0 || info->comm->nRanks == 1) operation.flags |= abi::op_no_kernel;
  operation.root = hooks::has_root(info->coll) ? info->root : -1;
  operation.count = info->count;
  hooked->current_op_seq = probe::operation_entered(hooked->probe, operation);
}

void ccld_group_simulated(struct ncclComm* first) {
  for (ncclComm* comm = first; comm != nullptr; comm = comm->groupNext[ncclGroupTaskTypeCollective])
    if (comm->ccld != nullptr) probe::group_simulated(comm->ccld->probe);
}

uint64_t ccld_current_operation(struct ncclComm* comm) {
  const ccld_comm* hooked = comm->ccld;
  if (hooked == nullptr) return 0;
  if (hooks::is_captured(comm)) probe::operation_captured(hooked->probe, hooked->current_op_seq);
  return hooked->current_op_seq;
}

uint64_t ccld_current_call(struct ncclComm* comm) {
  const ccld_comm* hooked = comm->ccld;
  if (hooked == nullptr) return 0;
  if (hooks::is_captured(comm)) probe::p2p_captured(hooked->probe, hooked->current_call);
  return hooked->current_call;
}

void ccld_task_placed(struct ncclTaskColl* task, int channel_low, int channel_high) {
  const uint64_t up_to_high = channel_high >= 63 ? ~uint64_t{0} : (uint64_t{1} << (channel_high + 1)) - 1;
  task->ccld_channels = up_to_high & ~((uint64_t{1} << channel_low) - 1);
}

void ccld_task_planned(struct ncclKernelPlan* plan, struct ncclTaskColl* task) {
  ccld_comm* hooked = plan->comm->ccld;
  if (hooked == nullptr) return;
  hooks::number_plan(*hooked, plan, false);
  const abi::Algorithm algorithm = plan->isCeColl ? abi::Algorithm::copy_engine : abi::Algorithm::symmetric;
  const uint8_t signals = hooks::signals_of(*hooked, plan);
  probe::operation_planned(hooked->probe, task->ccld_op_seq, hooks::plan_of(plan),
                           hooks::shape_of(*hooked, algorithm, abi::Protocol::unknown, 0, signals));
}

void ccld_self_copy_dropped(struct ncclComm* comm, struct ncclTaskP2p* send, struct ncclTaskP2p* recv) {
  const ccld_comm* hooked = comm->ccld;
  if (hooked == nullptr) return;
  probe::p2p_dropped(hooked->probe, send->ccld_call);
  probe::p2p_dropped(hooked->probe, recv->ccld_call);
}

void ccld_plan_begins(struct ncclComm* comm, struct ncclKernelPlan* plan) {
  ccld_comm* hooked = comm->ccld;
  if (hooked == nullptr || plan->isRma) return;
  hooks::number_plan(*hooked, plan, !hooks::is_seen_by_stream(plan));
  // The arguments of the other kinds of plan are other structs, and their tasks are gone.
  if (hooks::is_seen_by_stream(plan)) return;
  plan->kernelArgs->ccld_token = plan->ccld_token;
  plan->kernelArgs->ccld_replay_slot = plan->ccld_replay_slot;
  hooks::plan_operations(*hooked, plan);
}

void ccld_launch_begins(struct ncclComm* comm, struct ncclKernelPlan* plan) {
  ccld_comm* hooked = comm->ccld;
  if (hooked == nullptr || !hooks::is_seen_by_stream(plan) || plan->ccld_token == 0) return;
  const bool begun = hooks::signals_of(*hooked, plan) != 0 &&
                     hooks::write_by_stream(*hooked, comm->planner.streams->stream,
                                            offsetof(abi::StreamLine, begun_token), plan->ccld_token);
  hooked->stream_token = begun ? plan->ccld_token : 0;
  if (!begun) probe::plan_loses_signals(hooked->probe, hooks::plan_of(plan), abi::signal_stream);
}

void ccld_plan_launched(struct ncclComm* comm, struct ncclKernelPlan* plan, ncclResult_t result) {
  ccld_comm* hooked = comm->ccld;
  if (hooked == nullptr || plan->ccld_token == 0) return;
  if (hooks::is_seen_by_stream(plan) && hooked->stream_token == plan->ccld_token && result == ncclSuccess &&
      !hooks::write_by_stream(*hooked, comm->planner.streams->stream, offsetof(abi::StreamLine, ended_token),
                              plan->ccld_token)) {
    probe::plan_loses_signals(hooked->probe, hooks::plan_of(plan), abi::signal_stream);
  }
  probe::plan_launched(hooked->probe, hooks::plan_of(plan), result == ncclSuccess);
}
