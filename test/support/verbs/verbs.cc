// A software stand-in for libibverbs: one device whose queue pairs all live in this process. Requests are carried out
// by the thread that posts them, in order: a write copies memory, a write with immediate data also consumes a receive
// at the other end. Enough for NCCL's own InfiniBand transport between ranks of one process; nothing more.
//
// The entry points carry the symbol version that NCCL asks for (verbs.map). Structures are those of upstream's header.
#include "test/support/verbs/verbs.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include <ibvcore.h>

namespace {

constexpr uint8_t ports = 1;
constexpr uint32_t first_queue_number = 100;

struct CompletionQueue {
  ibv_cq verbs{};  // first: NCCL has a pointer to it
  std::deque<ibv_wc> completions;
};

struct Send {
  uint64_t id;
  ibv_wr_opcode opcode;
  bool signalled;
  bool fails;
  uint32_t immediate;
  uint64_t remote_address;
  std::vector<ibv_sge> pieces;
  std::vector<char> inline_data;  // copied at the post: the poster may use its buffer again
  bool is_inline;
};

struct QueuePair {
  ibv_qp verbs{};  // first
  uint32_t peer = 0;
  std::deque<uint64_t> receives;  // ids
  std::deque<Send> waiting;       // held, or without a receive at the other end
};

std::mutex mutex;
ibv_device device;
ibv_context context;
std::map<uint32_t, QueuePair*> queue_pairs;   // alive
std::map<uint32_t, StandinQueue> statistics;  // of all there ever were
uint32_t next_queue_number = first_queue_number;
uint32_t next_key = 1;
bool held = false;
unsigned failures_wanted = 0;

CompletionQueue* completion_queue(ibv_cq* cq) { return reinterpret_cast<CompletionQueue*>(cq); }
QueuePair* queue_pair(ibv_qp* qp) { return reinterpret_cast<QueuePair*>(qp); }

uint32_t size_of(const Send& send) {
  uint32_t size = 0;
  for (const ibv_sge& piece : send.pieces) size += piece.length;
  return size;
}

// False: it must wait for a receive at the other end.
bool carry_out(QueuePair* from, const Send& send) {
  const auto to = queue_pairs.find(from->peer);
  if (!send.fails && to == queue_pairs.end()) return true;  // nobody is there any more
  if (!send.fails) {
    if (send.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && to->second->receives.empty()) return false;
    char* remote = reinterpret_cast<char*>(send.remote_address);
    size_t inline_offset = 0;
    for (const ibv_sge& piece : send.pieces) {
      char* local = reinterpret_cast<char*>(piece.addr);
      if (send.opcode == IBV_WR_RDMA_READ) {
        memcpy(local, remote, piece.length);
      } else {
        memcpy(remote, send.is_inline ? send.inline_data.data() + inline_offset : local, piece.length);
      }
      remote += piece.length;
      inline_offset += piece.length;
    }
    if (send.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
      ibv_wc arrived{};
      arrived.wr_id = to->second->receives.front();
      arrived.status = IBV_WC_SUCCESS;
      arrived.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
      arrived.byte_len = size_of(send);
      arrived.imm_data = send.immediate;
      arrived.qp_num = to->first;
      arrived.wc_flags = IBV_WC_WITH_IMM;
      to->second->receives.pop_front();
      completion_queue(to->second->verbs.recv_cq)->completions.push_back(arrived);
    }
  }
  if (send.signalled) {
    ibv_wc done{};
    done.wr_id = send.id;
    done.status = send.fails ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS;
    done.opcode = send.opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
    if (send.fails) done.opcode = static_cast<ibv_wc_opcode>(0x7f);  // as from a device: not to be relied on
    done.qp_num = from->verbs.qp_num;
    completion_queue(from->verbs.send_cq)->completions.push_back(done);
  }
  return true;
}

void go_on(QueuePair* pair) {
  while (!pair->waiting.empty()) {
    const Send& next = pair->waiting.front();
    if ((held && next.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) || !carry_out(pair, next)) return;
    pair->waiting.pop_front();
  }
}

int poll_cq(ibv_cq* cq, int capacity, ibv_wc* out) {
  const std::lock_guard<std::mutex> lock(mutex);
  std::deque<ibv_wc>& completions = completion_queue(cq)->completions;
  int count = 0;
  for (; count < capacity && !completions.empty(); ++count) {
    out[count] = completions.front();
    completions.pop_front();
    StandinQueue& queue = statistics[out[count].qp_num];
    if (out[count].status == IBV_WC_SUCCESS && (out[count].opcode & IBV_WC_RECV) != 0)
      ++queue.polled_receives;
    else
      ++queue.polled_sends;
  }
  return count;
}

int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr**) {
  const std::lock_guard<std::mutex> lock(mutex);
  QueuePair* pair = queue_pair(qp);
  for (const ibv_send_wr* request = requests; request != nullptr; request = request->next) {
    Send send{};
    send.id = request->wr_id;
    send.opcode = request->opcode;
    send.signalled = (request->send_flags & IBV_SEND_SIGNALED) != 0;
    send.is_inline = (request->send_flags & IBV_SEND_INLINE) != 0;
    send.immediate = request->imm_data;
    send.remote_address = request->wr.rdma.remote_addr;
    send.pieces.assign(request->sg_list, request->sg_list + request->num_sge);
    if (send.is_inline) {
      for (const ibv_sge& piece : send.pieces) {
        const char* data = reinterpret_cast<const char*>(piece.addr);
        send.inline_data.insert(send.inline_data.end(), data, data + piece.length);
      }
    }
    if (send.signalled && failures_wanted != 0) {
      --failures_wanted;
      send.fails = true;
    }
    StandinQueue& queue = statistics[qp->qp_num];
    queue.signalled += send.signalled ? 1 : 0;
    queue.send_bytes += size_of(send);
    pair->waiting.push_back(std::move(send));
  }
  go_on(pair);
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr**) {
  const std::lock_guard<std::mutex> lock(mutex);
  QueuePair* pair = queue_pair(qp);
  for (const ibv_recv_wr* request = requests; request != nullptr; request = request->next) {
    pair->receives.push_back(request->wr_id);
    ++statistics[qp->qp_num].receives;
  }
  for (const auto& [number, other] : queue_pairs) {
    if (other->peer == qp->qp_num) go_on(other);
  }
  return 0;
}

}  // namespace

extern "C" {

void standin_verbs_hold(int hold) {
  const std::lock_guard<std::mutex> lock(mutex);
  held = hold != 0;
  for (const auto& [number, pair] : queue_pairs) go_on(pair);
}

void standin_verbs_fail_next() {
  const std::lock_guard<std::mutex> lock(mutex);
  failures_wanted = 1;
}

uint32_t standin_verbs_queues(StandinQueue* out, uint32_t capacity) {
  const std::lock_guard<std::mutex> lock(mutex);
  uint32_t i = 0;
  for (const auto& [number, queue] : statistics) {
    if (i < capacity) {
      out[i] = queue;
      out[i].number = number;
    }
    ++i;
  }
  return i;
}

ibv_device** ibv_get_device_list(int* count) {
  strcpy(device.name, "standin0");
  strcpy(device.dev_name, "uverbs0");
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  auto** list = static_cast<ibv_device**>(calloc(2, sizeof(ibv_device*)));
  list[0] = &device;
  *count = 1;
  return list;
}

void ibv_free_device_list(ibv_device** list) { free(list); }
const char* ibv_get_device_name(ibv_device* of) { return of->name; }

ibv_context* ibv_open_device(ibv_device* of) {
  context.device = of;
  context.ops.poll_cq = poll_cq;
  context.ops.post_send = post_send;
  context.ops.post_recv = post_recv;
  context.async_fd = -1;
  return &context;
}

int ibv_close_device(ibv_context*) { return 0; }

int ibv_get_async_event(ibv_context*, ibv_async_event*) {
  for (;;) pause();  // there are none
}
void ibv_ack_async_event(ibv_async_event*) {}
const char* ibv_event_type_str(ibv_event_type) { return "an event"; }

int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  memset(attributes, 0, sizeof(*attributes));
  attributes->phys_port_cnt = ports;
  attributes->max_qp = 1024;
  attributes->max_qp_wr = 16384;
  attributes->max_sge = 8;
  attributes->sys_image_guid = 0x5a5a;
  return 0;
}

int ibv_query_port(ibv_context*, uint8_t, ibv_port_attr* attributes) {
  memset(attributes, 0, sizeof(*attributes));
  attributes->state = IBV_PORT_ACTIVE;
  attributes->max_mtu = attributes->active_mtu = IBV_MTU_4096;
  attributes->gid_tbl_len = 1;
  attributes->lid = 1;
  attributes->active_width = 2;  // four lanes
  attributes->active_speed = 32;
  attributes->link_layer = IBV_LINK_LAYER_INFINIBAND;
  return 0;
}

int ibv_query_gid(ibv_context*, uint8_t, int, ibv_gid* gid) {
  memset(gid, 0, sizeof(*gid));
  gid->raw[0] = 0xfe;
  gid->raw[1] = 0x80;
  gid->raw[15] = 1;
  return 0;
}

int ibv_query_qp(ibv_qp*, ibv_qp_attr* attributes, int, ibv_qp_init_attr*) {
  memset(attributes, 0, sizeof(*attributes));
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* of) {
  auto* domain = new ibv_pd{};
  domain->context = of;
  return domain;
}
int ibv_dealloc_pd(ibv_pd* domain) {
  delete domain;
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, size_t length, int) {
  auto* region = new ibv_mr{};
  region->context = domain->context;
  region->pd = domain;
  region->addr = address;
  region->length = length;
  const std::lock_guard<std::mutex> lock(mutex);
  region->lkey = region->rkey = next_key++;
  return region;
}
int ibv_dereg_mr(ibv_mr* region) {
  delete region;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* of, int, void* user, ibv_comp_channel*, int) {
  auto* queue = new CompletionQueue;
  queue->verbs.context = of;
  queue->verbs.cq_context = user;
  return &queue->verbs;
}
int ibv_destroy_cq(ibv_cq* cq) {
  delete completion_queue(cq);
  return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  auto* pair = new QueuePair;
  pair->verbs.context = domain->context;
  pair->verbs.pd = domain;
  pair->verbs.qp_context = attributes->qp_context;
  pair->verbs.send_cq = attributes->send_cq;
  pair->verbs.recv_cq = attributes->recv_cq;
  pair->verbs.qp_type = attributes->qp_type;
  const std::lock_guard<std::mutex> lock(mutex);
  pair->verbs.qp_num = next_queue_number++;
  queue_pairs[pair->verbs.qp_num] = pair;
  statistics[pair->verbs.qp_num] = StandinQueue{};
  return &pair->verbs;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  const std::lock_guard<std::mutex> lock(mutex);
  if ((mask & IBV_QP_DEST_QPN) != 0) queue_pair(qp)->peer = attributes->dest_qp_num;
  if ((mask & IBV_QP_STATE) != 0) qp->state = attributes->qp_state;
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  const std::lock_guard<std::mutex> lock(mutex);
  queue_pairs.erase(qp->qp_num);
  delete queue_pair(qp);
  return 0;
}

int ibv_fork_init() { return 0; }

}  // extern "C"
