// The network as NCCL's own transports drive it: work requests of InfiniBand where they are posted and polled, and
// bytes of sockets.
#include <cstring>

#include "ibvwrap.h"
#include "nccl/hooks/ccld_hooks.h"
#include "probe/net/queue_table.h"
#include "probe/probe.h"
#include "socket.h"
#include "transport/net_ib/common.h"

using namespace ccld;

namespace ccld::hooks {
namespace {

using Queues = probe::QueueTable<probe::NetQueue>;

Queues& infiniband_queues() {
  static Queues* const queues = new Queues;  // never destroyed: progress threads may live until the very end
  return *queues;
}

// Completions name their device and the number of their queue pair (24 bits, unique on the device), nothing more.
uint64_t identity_of(const ibv_context* context, uint32_t number) {
  return reinterpret_cast<uint64_t>(context) ^ uint64_t { number } << 40;
}

probe::NetQueue* queue_of(const ibv_qp* qp) { return infiniband_queues().find(identity_of(qp->context, qp->qp_num)); }

int device_of(const ibv_context* context, uint8_t port) {
  for (int d = 0; d < ncclNIbDevs; ++d) {
    if (ncclIbDevs[d].context == context && ncclIbDevs[d].portNum == port) return d;
  }
  return -1;
}

uint64_t bytes_of(const ibv_send_wr& request) {
  uint64_t bytes = 0;
  for (int i = 0; i < request.num_sge; ++i) bytes += request.sg_list[i].length;
  return bytes;
}

abi::Direction direction_of(int operation) {
  return operation == NCCL_SOCKET_SEND ? abi::Direction::send : abi::Direction::recv;
}

}  // namespace
}  // namespace ccld::hooks

void ccld_ib_queue_created(struct ibv_qp* qp, uint8_t port) {
  const uint64_t identity = hooks::identity_of(qp->context, qp->qp_num);
  probe::NetQueue* queue = probe::net_queue(abi::NetKind::infiniband, identity, qp->qp_num,
                                            hooks::device_of(qp->context, port), qp->context->device->name);
  if (queue != nullptr && !hooks::infiniband_queues().add(identity, queue)) probe::net_queue_closed(queue);
}

void ccld_ib_queue_destroyed(struct ibv_qp* qp) {
  if (qp == nullptr) return;
  probe::net_queue_closed(hooks::infiniband_queues().remove(hooks::identity_of(qp->context, qp->qp_num)));
}

void ccld_ib_send_posted(struct ibv_qp* qp, const struct ibv_send_wr* requests) {
  probe::NetQueue* queue = hooks::queue_of(qp);
  if (queue == nullptr) return;
  uint32_t signalled = 0;
  uint64_t bytes = 0;
  for (const ibv_send_wr* request = requests; request != nullptr; request = request->next) {
    bytes += hooks::bytes_of(*request);
    signalled += (request->send_flags & IBV_SEND_SIGNALED) != 0 ? 1 : 0;
  }
  probe::net_posted(queue, abi::Direction::send, signalled, bytes);
}

void ccld_ib_recv_posted(struct ibv_qp* qp, const struct ibv_recv_wr* requests) {
  probe::NetQueue* queue = hooks::queue_of(qp);
  if (queue == nullptr) return;
  uint32_t count = 0;
  for (const ibv_recv_wr* request = requests; request != nullptr; request = request->next) ++count;
  probe::net_posted(queue, abi::Direction::recv, count, 0);
}

void ccld_ib_polled(struct ibv_cq* cq, const struct ibv_wc* completions, int count) {
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = completions[i];
    probe::NetQueue* queue = hooks::infiniband_queues().find(hooks::identity_of(cq->context, completion.qp_num));
    const bool failed = completion.status != IBV_WC_SUCCESS;
    // Of a failed completion only status, number of the queue pair and id of the request are valid: taken for a send.
    if (!failed && (completion.opcode & IBV_WC_RECV) != 0) {
      probe::net_completed(queue, abi::Direction::recv, 1, completion.byte_len, false);
    } else {
      probe::net_completed(queue, abi::Direction::send, 1, probe::net_bytes_as_posted, failed);
    }
  }
}

void* ccld_socket_opened(void* connection, int device, const char* device_name) {
  return probe::net_queue(abi::NetKind::socket, reinterpret_cast<uint64_t>(connection), 0, device, device_name);
}

void ccld_socket_closed(void* queue) { probe::net_queue_closed(static_cast<probe::NetQueue*>(queue)); }

void ccld_socket_begins(void* queue, int operation, int size, int* counted) {
  *counted = 0;
  probe::net_posted(static_cast<probe::NetQueue*>(queue), hooks::direction_of(operation), 1,
                    static_cast<uint64_t>(size));
}

void ccld_socket_progressed(void* queue, int operation, int done, int size, int* counted) {
  // Asked at every poll: nothing moved, nothing to say.
  if (done == *counted && done != size) return;
  const auto bytes = static_cast<uint64_t>(done - *counted);
  *counted = done;
  probe::net_completed(static_cast<probe::NetQueue*>(queue), hooks::direction_of(operation), done == size ? 1 : 0,
                       bytes, false);
}
