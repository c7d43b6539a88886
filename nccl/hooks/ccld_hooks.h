// What the lines inserted into NCCL's host code call. Included by upstream's comm.h, so it names NCCL's types only by
// declaration and includes nothing of the probe.
//
// Contract
//   No hook fails, blocks on a peer or changes what NCCL does. All accept a communicator that has no frame. Hooks are
//   named after what happened, in the order of a communicator's life.
//
// Threads: those of NCCL at that place. Init and end: the job thread, device set. Operations and plans: the thread in
// the NCCL call, which is not allowed to call CUDA between plan_begins and plan_launched. Proxies: progress threads.
#ifndef CCLD_HOOKS_H_
#define CCLD_HOOKS_H_

#include <cstdint>

#include "nccl.h"

struct ncclComm;
struct ncclInfo;
struct ncclKernelCommAndChannels;
struct ncclKernelPlan;
struct ncclProxyArgs;
struct ncclProxyState;
struct ncclTaskColl;

// ---- a communicator's life (lifecycle.cc) -------------------------------------------------------------------------

// Its device side is being written to `device_side`, which is copied to the GPU afterwards: makes the frame.
void ccld_comm_created(struct ncclComm* comm, struct ncclKernelCommAndChannels* device_side);
// Everything about it is known.
void ccld_comm_ready(struct ncclComm* comm);
// It is about to be freed and no kernel of it runs any more.
void ccld_comm_ends(struct ncclComm* comm);

// ---- operations and the kernels that carry them (operations.cc) ---------------------------------------------------

// An API call passed the argument check.
void ccld_operation_entered(struct ncclInfo* info);
// The op_seq for tasks made by the present API call; 0: the call is no collective.
uint64_t ccld_current_operation(struct ncclComm* comm);
// A collective task got its channels.
void ccld_task_placed(struct ncclTaskColl* task, int channel_low, int channel_high);
// A task whose queue is gone before the launch (symmetric kernels, copy engine) became part of `plan`.
void ccld_task_planned(struct ncclKernelPlan* plan, struct ncclTaskColl* task);
// `plan` is about to be launched; its arguments may still be written.
void ccld_plan_begins(struct ncclComm* comm, struct ncclKernelPlan* plan);
// CUDA took the kernel, or refused it.
void ccld_plan_launched(struct ncclComm* comm, struct ncclKernelPlan* plan, ncclResult_t result);

// ---- proxies and the network (proxies.cc) -------------------------------------------------------------------------

// What a proxy operation has to carry so that the progress thread knows whose it is. Proxy operations of several
// processes may be served by one of them, so this is no pointer. 0: nobody watches.
uint64_t ccld_proxy_owner(struct ncclComm* comm);
// The progress thread did what it could for `args`.
void ccld_proxy_visited(struct ncclProxyState* proxy_state, struct ncclProxyArgs* args);
// A connection of `comm` goes through a network device.
void ccld_net_connected(struct ncclComm* comm, int sends, int channel, int peer, int net_device, int connection_index);

#endif
