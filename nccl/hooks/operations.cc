// Collective API calls, and the kernels ("plans") that carry one or several of them.
#include "comm.h"
#include "group.h"
#include "info.h"
#include "nccl/hooks/ccld_hooks.h"
#include "nccl/hooks/enums.h"
#include "nccl/hooks/hooked_comm.h"
#include "probe/probe.h"
#include "strongstream.h"

using namespace ccld;

namespace ccld::hooks {
namespace {

bool is_captured(const ncclInfo* info) {
  // The same question, with the same answer, that NCCL asks right after this hook.
  ncclCudaGraph graph = ncclCudaGraphNone(info->comm->config.graphUsageMode);
  if (ncclCudaGetCapturingGraph(&graph, info->stream, info->comm->config.graphUsageMode) != ncclSuccess) return false;
  return ncclCudaGraphValid(graph);
}

uint8_t flags_of(const ncclInfo* info) {
  uint8_t flags = 0;
  if (info->count == 0 || info->comm->nRanks == 1) flags |= abi::op_no_kernel;
  if (is_captured(info)) flags |= abi::op_captured;
  // NCCL opens a group of its own around every call.
  if (ncclGroupDepth > 1) flags |= abi::op_grouped;
  return flags;
}

uint64_t channels_in_frame(const ccld_comm& hooked, uint64_t channel_mask) {
  return hooked.channel_count >= 64 ? channel_mask : channel_mask & ((uint64_t{1} << hooked.channel_count) - 1);
}

void planned(ccld_comm& hooked, uint32_t token, uint64_t op_seq, abi::Algorithm algorithm, abi::Protocol protocol,
             uint64_t channel_mask) {
  if (op_seq == 0) return;
  // AlltoAll, Gather and Scatter are many tasks in a row.
  if (op_seq == hooked.last_planned_op_seq && token == hooked.last_planned_token) return;
  hooked.last_planned_op_seq = op_seq;
  hooked.last_planned_token = token;
  const uint64_t channels = channels_in_frame(hooked, channel_mask);
  probe::operation_planned(hooked.probe, op_seq, token, algorithm, protocol,
                           static_cast<unsigned>(__builtin_popcountll(channels)), channels);
}

void plan_operations(ccld_comm& hooked, ncclKernelPlan* plan) {
  const uint32_t token = plan->ccld_token;
  for (const ncclTaskColl* task = ncclIntruQueueHead(&plan->collTaskQueue); task != nullptr; task = task->next) {
    planned(hooked, token, task->ccld_op_seq, algorithm_of(task->algorithm), protocol_of(task->protocol),
            task->ccld_channels);
  }
  // Several broadcasts of a group run as one ring operation on all channels of the plan; its protocol is not kept by
  // NCCL.
  for (const ncclTaskBcast* task = ncclIntruQueueHead(&plan->bcastTaskQueue); task != nullptr; task = task->next) {
    planned(hooked, token, task->ccld_op_seq, abi::Algorithm::ring, abi::Protocol::unknown, plan->channelMask);
  }
  for (const ncclTaskP2p* task = ncclIntruQueueHead(&plan->p2pTaskQueue); task != nullptr; task = task->next) {
    planned(hooked, token, task->ccld_op_seq, abi::Algorithm::unknown, abi::Protocol::unknown, plan->channelMask);
  }
}

}  // namespace
}  // namespace ccld::hooks

void ccld_operation_entered(struct ncclInfo* info) {
  ccld_comm* hooked = info->comm->ccld;
  if (hooked == nullptr) return;
  hooked->current_op_seq = 0;
  if (hooks::is_point_to_point(info->coll)) {
    probe::p2p_entered(hooked->probe);
    return;
  }
  if (!hooks::is_collective(info->coll)) return;
  probe::Operation operation{};
  operation.function = hooks::function_of(info->coll);
  operation.datatype = hooks::datatype_of(info->datatype);
  operation.reduction = hooks::reduction_of(info->coll, info->op);
  operation.flags = hooks::flags_of(info);
  operation.root = hooks::has_root(info->coll) ? info->root : -1;
  operation.count = info->count;
  hooked->current_op_seq = probe::operation_entered(hooked->probe, operation);
}

uint64_t ccld_current_operation(struct ncclComm* comm) {
  return comm->ccld != nullptr ? comm->ccld->current_op_seq : 0;
}

void ccld_task_placed(struct ncclTaskColl* task, int channel_low, int channel_high) {
  const uint64_t up_to_high = channel_high >= 63 ? ~uint64_t{0} : (uint64_t{1} << (channel_high + 1)) - 1;
  task->ccld_channels = up_to_high & ~((uint64_t{1} << channel_low) - 1);
}

void ccld_task_planned(struct ncclKernelPlan* plan, struct ncclTaskColl* task) {
  ccld_comm* hooked = plan->comm->ccld;
  if (hooked == nullptr) return;
  if (plan->ccld_token == 0) plan->ccld_token = probe::plan_begins(hooked->probe);
  const abi::Algorithm algorithm = plan->isCeColl ? abi::Algorithm::copy_engine : abi::Algorithm::symmetric;
  hooks::planned(*hooked, plan->ccld_token, task->ccld_op_seq, algorithm, abi::Protocol::unknown, 0);
}

void ccld_plan_begins(struct ncclComm* comm, struct ncclKernelPlan* plan) {
  ccld_comm* hooked = comm->ccld;
  if (hooked == nullptr || plan->isRma) return;
  if (plan->ccld_token == 0) plan->ccld_token = probe::plan_begins(hooked->probe);
  if (plan->isCeColl) {
    // No kernel, so no launch follows that could be seen.
    probe::plan_launched(hooked->probe, plan->ccld_token, true);
    return;
  }
  // The arguments of the other kinds of plan are other structs.
  if (!plan->isSymColl) plan->kernelArgs->ccld_token = plan->ccld_token;
  hooks::plan_operations(*hooked, plan);
}

void ccld_plan_launched(struct ncclComm* comm, struct ncclKernelPlan* plan, ncclResult_t result) {
  if (comm->ccld != nullptr) probe::plan_launched(comm->ccld->probe, plan->ccld_token, result == ncclSuccess);
}
