// What the lines inserted into NCCL's host code call. Included by upstream's comm.h, so it names NCCL's types only by
// declaration and includes nothing of the probe.
//
// Contract
//   No hook fails, blocks on a peer or changes what NCCL does, but for those of functions that the build leaves out, and
//   for ccld_operation_entered where the user allowed hardware tests (probe/hold/): it may wait then. All accept a communicator that has no frame. Hooks are
//   named after what happened, in the order of a communicator's life.
//
// Threads: those of NCCL at that place. Init and end: the job thread, device set. Operations and plans: the thread in
// the NCCL call, which is not allowed to call CUDA between plan_begins and launch_begins. Proxies: progress threads.
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
struct ncclTaskP2p;

// ---- a communicator's life (lifecycle.cc) -------------------------------------------------------------------------

// The members of `parent` begin to exchange what a split needs. Returns a number for the next hook.
uint64_t ccld_split_entered(struct ncclComm* parent, int child_count);
void ccld_split_exchanged(uint64_t split);
// `comm` has its configuration. Its name is the caller's memory, which may be gone when this call returns: while the
// rest of the making waits for the group's end or goes on in a thread, and in children that inherit it.
void ccld_config_named(struct ncclComm* comm);
// The making begins: nothing is known but its hash, and no other rank was talked to.
void ccld_init_entered(struct ncclComm* comm, int rank, int rank_count, int cuda_device);
// All ranks have found each other.
void ccld_init_bootstrapped(struct ncclComm* comm);
// The making ends without a communicator; its frame goes. `comm` may be null (a rank without a colour in a split).
void ccld_init_failed(struct ncclComm* comm, uint64_t split, ncclResult_t result);
// Its device side is being written to `device_side`, which is copied to the GPU afterwards: makes the frame.
void ccld_comm_created(struct ncclComm* comm, struct ncclKernelCommAndChannels* device_side);
// Everything about it is known. `parent`: that it was split, shrunk or grown from, or null.
void ccld_comm_ready(struct ncclComm* comm, struct ncclComm* parent);
// It is about to be freed and no kernel of it runs any more.
void ccld_comm_ends(struct ncclComm* comm);

// Kernels are about to get a communicator of their own, by which they talk to other GPUs and, with `gin`, to the
// network. `internal`: kernels of NCCL, not of the program.
void ccld_device_comm_created(struct ncclComm* comm, bool internal, bool gin);

// ---- NCCL's log (own_log.cc) ---------------------------------------------------------------------------------------

// The warning that this thread is about to log is the probe's: no call of the user has failed of it.
bool ccld_warns();

// ---- several ranks on one GPU (shared_gpus.cc) ---------------------------------------------------------------------

// The user asked for it (CCLD_SHARE_GPUS).
bool ccld_ranks_may_share_gpus();
// This process knows which machine it runs on; returns the hash that it goes by from now on.
uint64_t ccld_host_identified(uint64_t host_hash);
// NCCL is about to refuse `comm` because of its rank and another one.
void ccld_duplicate_gpu_found(struct ncclComm* comm, int other_rank);

// ---- operations and the kernels that carry them (operations.cc) ---------------------------------------------------

// An API call passed the argument check.
void ccld_operation_entered(struct ncclInfo* info);
// A group ends that was only simulated, on `first` and the communicators that are linked behind it: its calls are none.
void ccld_group_simulated(struct ncclComm* first);
// The op_seq for tasks made by the present API call; 0: the call is no collective. NCCL knows whether the call is captured.
uint64_t ccld_current_operation(struct ncclComm* comm);
// Likewise the number of a Send or Recv; 0: the call is neither.
uint64_t ccld_current_call(struct ncclComm* comm);
// A collective task got its channels.
void ccld_task_placed(struct ncclTaskColl* task, int channel_low, int channel_high);
// A send and a receive of a rank to itself, in place: nothing runs for them.
void ccld_self_copy_dropped(struct ncclComm* comm, struct ncclTaskP2p* send, struct ncclTaskP2p* recv);
// A task whose queue is gone before the launch (symmetric kernels, copy engine) became part of `plan`.
void ccld_task_planned(struct ncclKernelPlan* plan, struct ncclTaskColl* task);
// `plan` is about to be launched; its arguments may still be written.
void ccld_plan_begins(struct ncclComm* comm, struct ncclKernelPlan* plan);
// CUDA may be called again, and is about to be given the work of `plan`.
void ccld_launch_begins(struct ncclComm* comm, struct ncclKernelPlan* plan);
// CUDA took the kernel or the copies, or refused them.
void ccld_plan_launched(struct ncclComm* comm, struct ncclKernelPlan* plan, ncclResult_t result);

// ---- what this build leaves out (missing_functions.cc) -------------------------------------------------------------

// NCCL chose a device function. ncclInvalidUsage, and a warning that names it, if the build has none of that kind.
ncclResult_t ccld_function_chosen(int function_id);
bool ccld_function_is_built(const struct ncclTaskColl* task, int algorithm, int protocol);
// NCCL, or a tuner plugin, has given each algorithm and protocol a cost for `task` (a row of protocols for each
// algorithm, negative: impossible) and is about to take the cheapest. Those that are not built become impossible, unless
// that leaves nothing: then ccld_function_chosen says what is missing.
void ccld_costs_known(const struct ncclTaskColl* task, float* costs);
// Without them NCCL takes its ordinary kernels.
bool ccld_symmetric_kernels_are_built();

// ---- proxies and the network (proxies.cc) -------------------------------------------------------------------------

// What a proxy operation has to carry so that the progress thread knows whose it is. Proxy operations of several
// processes may be served by one of them, so this is no pointer. 0: nobody watches.
uint64_t ccld_proxy_owner(struct ncclComm* comm);
// The progress thread did what it could for `args`.
void ccld_proxy_visited(struct ncclProxyState* proxy_state, struct ncclProxyArgs* args);
// A connection of `comm` goes through a network device, which the proxy of `proxy_rank` drives.
void ccld_net_connected(struct ncclComm* comm, int sends, int channel, int peer, int net_device, int connection_index,
                        int proxy_rank);

// ---- the network's queues (network.cc): the thread that posts and polls -------------------------------------------

void ccld_ib_queue_created(struct ibv_qp* qp, uint8_t port);
void ccld_ib_queue_destroyed(struct ibv_qp* qp);
// The device took the requests.
void ccld_ib_send_posted(struct ibv_qp* qp, const struct ibv_send_wr* requests);
void ccld_ib_recv_posted(struct ibv_qp* qp, const struct ibv_recv_wr* requests);
void ccld_ib_polled(struct ibv_cq* cq, const struct ibv_wc* completions, int count);

// A connection of sockets stands; returns what the other hooks are given.
void* ccld_socket_opened(void* connection, int device, const char* device_name);
void ccld_socket_closed(void* queue);
// A transfer of `size` bytes begins (`operation`: NCCL's); then `done` of them are through. `counted` belongs to the hooks.
void ccld_socket_begins(void* queue, int operation, int size, int* counted);
void ccld_socket_progressed(void* queue, int operation, int done, int size, int* counted);

#endif
