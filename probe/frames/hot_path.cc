// The part of the probe that runs in the training path. Contract and threads: probe/probe.h, "HOT". How to read what is
// written here: schemas/abi/frame_reader.h.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "probe/frames/comm.h"
#include "probe/frames/doorbell.h"
#include "probe/frames/recording.h"
#include "probe/frames/words.h"
#include "probe/monotonic.h"
#include "probe/probe.h"
#include "probe/process/process_file.h"
#include "probe/process/proxy_threads.h"
#include "schemas/wire/link_steps.h"

namespace ccld::probe {
namespace {

bool writable(const Comm* comm) { return comm != nullptr && !comm->detached.load(std::memory_order_relaxed); }

abi::OpRecord& slot_of(const Comm& comm, uint64_t op_seq) { return comm.operations[op_seq % abi::ops_max]; }
abi::P2pRecord& p2p_slot_of(const Comm& comm, uint64_t call) { return comm.p2ps[call % abi::p2ps_max]; }

template <class Record>
void add_flags(Record& record, uint8_t flags) {
  store_release(record.flags, record.flags | flags);
}

// Several small fields that lie beside each other, in one store. Little-endian, as the frame.
typedef uint64_t __attribute__((may_alias)) EightBytes;
template <class First>
void store_eight_bytes(First& first, uint64_t value) {
  __atomic_store_n(reinterpret_cast<EightBytes*>(&first), value, __ATOMIC_RELAXED);
}

constexpr uint64_t unknown_algorithm_and_protocol =
    uint64_t{static_cast<uint8_t>(abi::Algorithm::unknown)} << 24 | uint64_t{static_cast<uint8_t>(abi::Protocol::unknown)} << 32;

// Takes the record out of circulation while its fields change.
template <class Record>
void uncommit(Record& record) {
  store_relaxed(record.commit, 0);
  // Keeps the fields below from becoming visible while the commit word still names the call they replace.
  __atomic_thread_fence(__ATOMIC_RELEASE);
}

void count_unseen(Comm& comm) { store_relaxed(comm.header->api.unseen_while_stopped, ++comm.user.unseen); }

// The whole number of the newest kernel whose low half is `token`.
uint64_t plan_number(const Comm& comm, uint32_t token) {
  return comm.user.plans - static_cast<uint32_t>(static_cast<uint32_t>(comm.user.plans) - token);
}

template <unsigned capacity>
void remember_planned(Comm::Planned<capacity>& planned, uint64_t number, uint32_t token) {
  // Full only of calls whose kernels were never launched because a group failed: the oldest is such a one.
  if (planned.count == capacity) {
    for (unsigned i = 1; i < capacity; ++i) planned.calls[i - 1] = planned.calls[i];
    --planned.count;
  }
  planned.calls[planned.count++] = {number, token};
}

// What a record says of its kernel. False: the record is gone, or says it already.
template <class Record>
bool plan_call(Record& record, uint64_t number, const Plan& plan, const PlanShape& shape) {
  if (record.commit != number) return false;  // more calls than the ring holds were made in one group
  if (plan.token == 0) {
    // The probe was stopped after the call: nothing of it can be seen, so nobody may wait for it.
    add_flags(record, abi::op_no_kernel);
    return false;
  }
  if (record.plan == plan.token) return false;  // AlltoAll, Gather and Scatter are many tasks
  const bool writes_rounds = (shape.signals & abi::signal_times) != 0;
  store_relaxed(record.channel_mask, shape.channel_mask);
  store_relaxed(record.replay_slot, writes_rounds ? plan.replay_slot : 0);
  store_relaxed(record.signals, shape.signals);
  if ((shape.signals & (abi::signal_times | abi::signal_stream)) == 0) add_flags(record, abi::op_no_kernel);
  return true;
}

// Gives every call of kernel `token` to `visit` and forgets it. Returns their number.
template <unsigned capacity, class Visit>
unsigned take_planned(Comm::Planned<capacity>& planned, uint32_t token, Visit&& visit) {
  unsigned kept = 0;
  const unsigned count = planned.count;
  for (unsigned i = 0; i < count; ++i) {
    if (planned.calls[i].token == token) {
      visit(planned.calls[i].number);
    } else {
      planned.calls[kept++] = planned.calls[i];
    }
  }
  planned.count = kept;
  return count - kept;
}

template <unsigned capacity>
unsigned count_planned(const Comm::Planned<capacity>& planned, uint32_t token) {
  unsigned found = 0;
  for (unsigned i = 0; i < planned.count; ++i) found += planned.calls[i].token == token;
  return found;
}

template <class Record>
void lose_signals(Record& record, const Plan& plan, uint8_t lost) {
  if (record.plan != plan.token) return;
  const uint8_t left = static_cast<uint8_t>(record.signals & ~lost);
  store_relaxed(record.signals, left);
  if ((left & (abi::signal_times | abi::signal_stream)) == 0) add_flags(record, abi::op_no_kernel);
}

}  // namespace

bool hold_is_due(const Comm* comm, bool collective) { return writable(comm) && has_to_hold(*comm, collective); }

uint64_t operation_entered(Comm* comm, const Operation& operation) {
  if (!writable(comm)) return 0;
  const uint64_t op_seq = ++comm->user.op_seq;
  if (__builtin_expect(!recording(), 0)) {
    count_unseen(*comm);
    store_release(comm->header->api.entered_op_seq, op_seq);
    return op_seq;
  }
  abi::OpRecord& record = slot_of(*comm, op_seq);
  uncommit(record);
  store_relaxed(record.count, operation.count);
  store_relaxed(record.enter_monotonic_ns, monotonic_ns());
  store_relaxed(record.launch_monotonic_ns, 0);
  store_relaxed(record.channel_mask, 0);
  static_assert(offsetof(abi::OpRecord, root) == offsetof(abi::OpRecord, plan) + 4);
  store_eight_bytes(record.plan, uint64_t{static_cast<uint32_t>(operation.root)} << 32);
  static_assert(offsetof(abi::OpRecord, flags) == offsetof(abi::OpRecord, function) + 5);
  store_eight_bytes(record.function, uint64_t{static_cast<uint8_t>(operation.function)} |
                                         uint64_t{static_cast<uint8_t>(operation.datatype)} << 8 |
                                         uint64_t{static_cast<uint8_t>(operation.reduction)} << 16 |
                                         unknown_algorithm_and_protocol | uint64_t{operation.flags} << 40);
  static_assert(offsetof(abi::OpRecord, plan_operations) == offsetof(abi::OpRecord, replay_slot) + 4);
  store_eight_bytes(record.replay_slot, 0);
  store_relaxed(record.signals, 0);
  store_release(record.commit, op_seq);
  store_release(comm->header->api.entered_op_seq, op_seq);
  ring_if_resting();
  return op_seq;
}

uint64_t p2p_entered(Comm* comm, const PointToPoint& call) {
  if (!writable(comm)) return 0;
  Comm::UserSide& user = comm->user;
  std::vector<uint64_t>& pair_seqs = user.pair_seqs[static_cast<unsigned>(call.direction)];
  const auto peer = static_cast<size_t>(call.peer);
  if (peer >= pair_seqs.size()) return 0;
  const uint64_t number = ++user.p2p;
  const uint64_t pair_seq = ++pair_seqs[peer];
  if (__builtin_expect(!recording(), 0)) {
    count_unseen(*comm);
    store_release(comm->header->api.entered_p2p, number);
    return 0;
  }
  abi::P2pRecord& record = p2p_slot_of(*comm, number);
  uncommit(record);
  store_relaxed(record.pair_seq, pair_seq);
  store_relaxed(record.bytes, call.bytes);
  store_relaxed(record.enter_monotonic_ns, monotonic_ns());
  store_relaxed(record.launch_monotonic_ns, 0);
  store_relaxed(record.channel_mask, 0);
  static_assert(offsetof(abi::P2pRecord, peer) == offsetof(abi::P2pRecord, plan) + 4);
  store_eight_bytes(record.plan, uint64_t{static_cast<uint32_t>(call.peer)} << 32);
  static_assert(offsetof(abi::P2pRecord, signals) == offsetof(abi::P2pRecord, replay_slot) + 7);
  store_eight_bytes(record.replay_slot, uint64_t{static_cast<uint8_t>(call.direction)} << 32 |
                                            uint64_t{call.flags} << 40 |
                                            uint64_t{static_cast<uint8_t>(call.datatype)} << 48);
  store_release(record.commit, number);
  store_release(comm->header->api.entered_p2p, number);
  ring_if_resting();
  return number;
}

void group_begins(Comm* comm) {
  if (!writable(comm)) return;
  comm->user.op_seq_before_group = comm->user.op_seq;
  comm->user.p2p_before_group = comm->user.p2p;
}

void group_simulated(Comm* comm) {
  if (!writable(comm)) return;
  Comm::UserSide& user = comm->user;
  for (; user.p2p > user.p2p_before_group; --user.p2p) {
    const abi::P2pRecord& record = p2p_slot_of(*comm, user.p2p);
    if (record.commit != user.p2p) break;  // not recorded, so it is not known whose number it took
    --user.pair_seqs[record.direction][static_cast<size_t>(record.peer)];
  }
  user.op_seq = std::min(user.op_seq, user.op_seq_before_group);
  store_release(comm->header->api.entered_p2p, user.p2p);
  store_release(comm->header->api.entered_op_seq, user.op_seq);
}

void operation_captured(Comm* comm, uint64_t op_seq) {
  if (!writable(comm) || op_seq == 0) return;
  abi::OpRecord& record = slot_of(*comm, op_seq);
  if (record.commit == op_seq && (record.flags & abi::op_captured) == 0) add_flags(record, abi::op_captured);
}

void p2p_captured(Comm* comm, uint64_t call) {
  if (!writable(comm) || call == 0) return;
  abi::P2pRecord& record = p2p_slot_of(*comm, call);
  if (record.commit == call) add_flags(record, abi::op_captured);
}

Plan plan_begins(Comm* comm, bool captured, bool writes_rounds) {
  if (!writable(comm) || !recording()) return {};
  Comm::UserSide& user = comm->user;
  // 0 means "no kernel" everywhere, so the numbers whose low half is 0 are left out.
  if (static_cast<uint32_t>(++user.plans) == 0) ++user.plans;
  Plan plan;
  plan.token = static_cast<uint32_t>(user.plans);
  if (captured) {
    store_release(comm->header->api.captured_plans, ++user.captured_plans);
    if (writes_rounds && user.replay_slots < abi::replay_slots_max) plan.replay_slot = ++user.replay_slots;
  }
  return plan;
}

void operation_planned(Comm* comm, uint64_t op_seq, const Plan& plan, const PlanShape& shape) {
  if (!writable(comm) || op_seq == 0) return;
  abi::OpRecord& record = slot_of(*comm, op_seq);
  if (!plan_call(record, op_seq, plan, shape)) return;
  store_relaxed(record.algorithm, static_cast<uint8_t>(shape.algorithm));
  store_relaxed(record.protocol, static_cast<uint8_t>(shape.protocol));
  store_relaxed(record.channel_count, static_cast<uint16_t>(shape.channel_count));
  store_release(record.plan, plan.token);
  remember_planned(comm->user.planned_operations, op_seq, plan.token);
}

void p2p_planned(Comm* comm, uint64_t call, const Plan& plan, const PlanShape& shape) {
  if (!writable(comm) || call == 0) return;
  abi::P2pRecord& record = p2p_slot_of(*comm, call);
  if (!plan_call(record, call, plan, shape)) return;
  store_release(record.plan, plan.token);
  remember_planned(comm->user.planned_p2ps, call, plan.token);
}

void p2p_dropped(Comm* comm, uint64_t call) {
  if (!writable(comm) || call == 0) return;
  abi::P2pRecord& record = p2p_slot_of(*comm, call);
  if (record.commit == call) add_flags(record, abi::op_no_kernel);
}

void plan_loses_signals(Comm* comm, const Plan& plan, uint8_t signals) {
  if (!writable(comm) || plan.token == 0) return;
  const auto& operations = comm->user.planned_operations;
  for (unsigned i = 0; i < operations.count; ++i) lose_signals(slot_of(*comm, operations.calls[i].number), plan, signals);
  const auto& p2ps = comm->user.planned_p2ps;
  for (unsigned i = 0; i < p2ps.count; ++i) lose_signals(p2p_slot_of(*comm, p2ps.calls[i].number), plan, signals);
}

void plan_launched(Comm* comm, const Plan& plan, bool launched) {
  if (!writable(comm) || plan.token == 0) return;
  Comm::UserSide& user = comm->user;
  if (!launched) {
    take_planned(user.planned_operations, plan.token, [](uint64_t) {});
    take_planned(user.planned_p2ps, plan.token, [](uint64_t) {});
    return;
  }
  abi::ApiLine& api = comm->header->api;
  const uint64_t now_ns = monotonic_ns();
  if (user.planned_operations.count != 0) {
    const unsigned together = count_planned(user.planned_operations, plan.token);
    take_planned(user.planned_operations, plan.token, [&](uint64_t op_seq) {
      abi::OpRecord& record = slot_of(*comm, op_seq);
      if (record.commit != op_seq || record.plan != plan.token) return;
      store_relaxed(record.plan_operations, together);
      store_relaxed(record.launch_monotonic_ns, now_ns);
      add_flags(record, abi::op_launched);
      if (op_seq > user.launched_op_seq) user.launched_op_seq = op_seq;
    });
  }
  if (user.planned_p2ps.count != 0) {
    take_planned(user.planned_p2ps, plan.token, [&](uint64_t call) {
      abi::P2pRecord& record = p2p_slot_of(*comm, call);
      if (record.commit != call || record.plan != plan.token) return;
      store_relaxed(record.launch_monotonic_ns, now_ns);
      add_flags(record, abi::op_launched);
      if (call > user.launched_p2p) user.launched_p2p = call;
    });
    store_release(api.launched_p2p, user.launched_p2p);
  }
  const uint64_t number = plan_number(*comm, plan.token);
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

// Whether the visit found anything to do.
bool moved(const abi::ProxyRecord& record, const ProxySteps& steps) {
  return record.posted != steps.posted || record.received != steps.received ||
         record.transmitted != steps.transmitted || record.done != steps.done;
}

bool same_operation(const abi::ProxyRecord& record, const ProxySteps& steps) {
  return record.connection != 0 && record.base == steps.base && record.operation == steps.operation;
}

// Before the steps of this visit are written: the record still shows the operation of the visit before. A gap in which
// nothing came to do keeps nobody waiting: on a busy machine a progress thread that finds nothing again and again gets
// a processor seldom.
void note_away(Comm& comm, abi::ProxyRecord& record, const ProxySteps& steps) {
  if (!same_operation(record, steps)) {
    store_relaxed(record.away_before_ns, record.away_ns);
    store_relaxed(record.began_ns, steps.now_ns);
  } else if (const uint64_t gap_ns = steps.now_ns - record.visited_ns;
             gap_ns >= abi::proxy_away_min_ns && moved(record, steps)) {
    store_relaxed(record.away_ns, record.away_ns + gap_ns);
    const uint64_t from_ns = std::max(record.visited_ns, std::exchange(comm.proxy_side.away_to_ns, steps.now_ns));
    metric_add(process_file(), abi::MetricId::proxy_away_ns, steps.now_ns - std::min(from_ns, steps.now_ns));
  }
  store_relaxed(record.visited_ns, steps.now_ns);
}

// When steps reached the stages that the proxy sees (ProxyTimes). As note_away, before those of this visit are written.
// Readers look at the version, so nobody waits.
void note_times(const abi::ProxyRecord& record, const ProxySteps& steps, abi::ProxyTimes& times) {
  const bool begins = !same_operation(record, steps);
  if (steps.exact_ns == nullptr || (!begins && !moved(record, steps))) return;
  const uint64_t now_ns = steps.exact_ns();
  const uint32_t begun = times.operations_begun + begins, version = times.version;
  abi::ProxyOperationTimes& of = times.operations[(begun - 1) % abi::times_operations];
  store_relaxed(times.version, version + 1);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  if (begins) {
    store_relaxed(times.operations_begun, begun);
    store_relaxed(of.base, steps.base);
    store_relaxed(of.began_ns, now_ns);
  }
  const uint64_t first = steps.base + wire::first_counted_step(static_cast<uint32_t>(steps.step_count));
  const uint64_t reached[abi::proxy_stages] = {steps.posted, steps.received, steps.transmitted, steps.done};
  for (unsigned stage = 0; stage < abi::proxy_stages; ++stage) {
    const uint32_t before = begins ? 0 : of.steps[stage];
    const uint64_t sum_ns = begins ? 0 : of.sum_ns[stage];
    const auto now = static_cast<uint32_t>(reached[stage] > first ? reached[stage] - first : 0);
    store_relaxed(of.steps[stage], now);
    store_relaxed(of.sum_ns[stage], sum_ns + (now - before) * (now_ns - of.began_ns));
  }
  store_release(times.version, version + 2);
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
  note_times(*record, steps, comm->proxy_times[record - comm->proxies]);
  note_away(*comm, *record, steps);
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
    note_proxy_thread();
    store_release(record->connection, steps.connection);
    store_release(line.connections, comm->proxy_side.records);
  }
}

}  // namespace ccld::probe
