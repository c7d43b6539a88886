// The part of the probe that runs in the training path. Contract and threads: probe/probe.h, "HOT". How to read what is
// written here: schemas/abi/frame_reader.h.
#include <ctime>

#include "probe/frames/comm.h"
#include "probe/frames/words.h"
#include "probe/probe.h"

namespace ccld::probe {
namespace {

uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

abi::OpRecord& slot_of(const Comm& comm, uint64_t op_seq) { return comm.operations[op_seq % abi::ops_max]; }

bool writable(const Comm* comm) { return comm != nullptr && !comm->detached.load(std::memory_order_relaxed); }

// The whole number of the newest kernel whose low half is `token`.
uint64_t plan_number(const Comm& comm, uint32_t token) {
  return comm.user.plans - static_cast<uint32_t>(static_cast<uint32_t>(comm.user.plans) - token);
}

// Nothing more will happen to the record on the way to its kernel.
bool is_settled(const abi::OpRecord& record) {
  return (record.flags & (abi::op_launched | abi::op_no_kernel)) != 0 &&
         (record.plan == 0 || record.launch_monotonic_ns != 0);
}

void add_flags(abi::OpRecord& record, uint8_t flags) { store_release(record.flags, record.flags | flags); }

}  // namespace

uint64_t operation_entered(Comm* comm, const Operation& operation) {
  if (!writable(comm)) return 0;
  const uint64_t op_seq = ++comm->user.op_seq;
  abi::OpRecord& record = slot_of(*comm, op_seq);
  store_relaxed(record.commit, 0);
  // Keeps the fields below from becoming visible while the commit word still names the operation they replace.
  __atomic_thread_fence(__ATOMIC_RELEASE);
  store_relaxed(record.count, operation.count);
  store_relaxed(record.enter_monotonic_ns, monotonic_ns());
  store_relaxed(record.launch_monotonic_ns, 0);
  store_relaxed(record.channel_mask, 0);
  store_relaxed(record.plan, 0);
  store_relaxed(record.root, operation.root);
  store_relaxed(record.function, static_cast<uint8_t>(operation.function));
  store_relaxed(record.datatype, static_cast<uint8_t>(operation.datatype));
  store_relaxed(record.reduction, static_cast<uint8_t>(operation.reduction));
  store_relaxed(record.algorithm, static_cast<uint8_t>(abi::Algorithm::unknown));
  store_relaxed(record.protocol, static_cast<uint8_t>(abi::Protocol::unknown));
  store_relaxed(record.flags, operation.flags);
  store_relaxed(record.channel_count, 0);
  store_release(record.commit, op_seq);
  store_release(comm->header->api.entered_op_seq, op_seq);
  return op_seq;
}

void p2p_entered(Comm* comm) {
  if (!writable(comm)) return;
  store_relaxed(comm->header->api.entered_p2p, ++comm->user.p2p);
}

uint32_t plan_begins(Comm* comm) {
  if (!writable(comm)) return 0;
  // 0 means "no kernel" everywhere, so the numbers whose low half is 0 are left out.
  if (static_cast<uint32_t>(++comm->user.plans) == 0) ++comm->user.plans;
  return static_cast<uint32_t>(comm->user.plans);
}

void operation_planned(Comm* comm, uint64_t op_seq, uint32_t plan, abi::Algorithm algorithm, abi::Protocol protocol,
                       unsigned channel_count, uint64_t channel_mask) {
  if (!writable(comm) || op_seq == 0 || plan == 0) return;
  abi::OpRecord& record = slot_of(*comm, op_seq);
  if (record.commit != op_seq) return;  // more operations than the ring holds were issued in one group
  store_relaxed(record.algorithm, static_cast<uint8_t>(algorithm));
  store_relaxed(record.protocol, static_cast<uint8_t>(protocol));
  store_relaxed(record.channel_count, static_cast<uint16_t>(channel_count));
  store_relaxed(record.channel_mask, channel_mask);
  // These do not run in the kernels that write rounds: nobody may wait for a row of theirs.
  if (algorithm == abi::Algorithm::symmetric || algorithm == abi::Algorithm::copy_engine)
    add_flags(record, abi::op_no_kernel);
  store_release(record.plan, plan);
}

void plan_launched(Comm* comm, uint32_t plan, bool launched) {
  if (!writable(comm) || plan == 0 || !launched) return;
  Comm::UserSide& user = comm->user;
  abi::ApiLine& api = comm->header->api;
  const uint64_t now_ns = monotonic_ns();

  // The operations of a kernel need not be neighbours (a group sorts them by size), but all lie between the oldest
  // operation without a launch and the newest one.
  const uint64_t oldest_kept = user.op_seq >= abi::ops_max ? user.op_seq - abi::ops_max + 1 : 1;
  uint64_t settled = user.settled_op_seq;
  if (settled + 1 < oldest_kept) settled = oldest_kept - 1;
  bool all_settled_so_far = true;
  for (uint64_t op_seq = settled + 1; op_seq <= user.op_seq; ++op_seq) {
    abi::OpRecord& record = slot_of(*comm, op_seq);
    if (record.plan == plan && (record.flags & abi::op_launched) == 0) {
      store_relaxed(record.launch_monotonic_ns, now_ns);
      add_flags(record, abi::op_launched);
      if (op_seq > user.launched_op_seq) user.launched_op_seq = op_seq;
    }
    all_settled_so_far = all_settled_so_far && is_settled(record);
    if (all_settled_so_far) settled = op_seq;
  }
  user.settled_op_seq = settled;

  const uint64_t number = plan_number(*comm, plan);
  if (number > user.launched_plans) user.launched_plans = number;
  store_relaxed(api.launched_plan, user.launched_plans);
  store_release(api.launched_op_seq, user.launched_op_seq);
}

namespace {

// Spreads addresses, whose low bits are equal, over `bits` bits.
unsigned hash_of(uint64_t connection, unsigned bits) {
  constexpr uint64_t golden_ratio = 0x9e3779b97f4a7c15u;
  return static_cast<unsigned>((connection * golden_ratio) >> (64 - bits));
}

// The record of a connection, or nullptr when all are taken.
abi::ProxyRecord* record_of(Comm& comm, uint64_t connection) {
  Comm::ProxySide& side = comm.proxy_side;
  constexpr unsigned mask = Comm::ProxySide::buckets - 1;
  unsigned bucket = hash_of(connection, Comm::ProxySide::bucket_bits);
  // Terminates: there are twice as many buckets as records.
  for (; side.record_of_bucket[bucket] != 0; bucket = (bucket + 1) & mask) {
    abi::ProxyRecord& record = comm.proxies[side.record_of_bucket[bucket] - 1];
    if (record.connection == connection) return &record;
  }
  if (side.records == abi::proxies_max) return nullptr;
  side.record_of_bucket[bucket] = static_cast<uint16_t>(++side.records);
  return &comm.proxies[side.records - 1];
}

// A connection that finds no record is counted once. It is remembered by one bit, so two of them may count as one.
void count_dropped(Comm& comm, uint64_t connection) {
  const unsigned bit = hash_of(connection, Comm::ProxySide::dropped_bits_log2);
  uint64_t& word = comm.proxy_side.dropped_seen[bit / 64];
  const uint64_t mask = uint64_t{1} << (bit % 64);
  if ((word & mask) != 0) return;
  word |= mask;
  store_relaxed(comm.header->proxy.dropped, ++comm.proxy_side.dropped);
}

}  // namespace

void proxy_visited(Comm* comm, const ProxySteps& steps) {
  if (!writable(comm) || steps.connection == 0) return;
  abi::ProxyLine& line = comm->header->proxy;
  store_relaxed(line.ticks, ++comm->proxy_side.ticks);
  abi::ProxyRecord* record = record_of(*comm, steps.connection);
  if (record == nullptr) {
    count_dropped(*comm, steps.connection);
    return;
  }
  store_relaxed(record->peer, steps.peer);
  store_relaxed(record->channel, steps.channel);
  store_relaxed(record->net_device, steps.net_device);
  store_relaxed(record->direction, static_cast<uint8_t>(steps.direction));
  store_relaxed(record->operation, steps.operation);
  store_relaxed(record->posted, steps.posted);
  store_relaxed(record->received, steps.received);
  store_relaxed(record->transmitted, steps.transmitted);
  store_relaxed(record->done, steps.done);
  store_relaxed(record->base, steps.base);
  store_relaxed(record->step_count, steps.step_count);
  store_relaxed(record->ticks, record->ticks + 1);
  if (record->connection == 0) {
    store_release(record->connection, steps.connection);
    store_release(line.connections, comm->proxy_side.records);
  }
}

}  // namespace ccld::probe
