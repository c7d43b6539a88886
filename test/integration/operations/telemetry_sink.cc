#include "test/integration/operations/telemetry_sink.h"

#include <zmq.h>

#include <cstdlib>

#include "test/support/packing/unpacked.h"

namespace ccld::operations_test {

TelemetrySink::TelemetrySink() {
  context_ = zmq_ctx_new();
  socket_ = zmq_socket(context_, ZMQ_ROUTER);
  const int unlimited = 0, timeout_ms = 200;
  zmq_setsockopt(socket_, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
  zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
  if (zmq_bind(socket_, "tcp://127.0.0.1:*") != 0) abort();
  char endpoint[256];
  size_t length = sizeof endpoint;
  zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, endpoint, &length);
  endpoint_ = endpoint;
  thread_ = std::thread([this] { collect(); });
}

TelemetrySink::~TelemetrySink() {
  stop();
  zmq_close(socket_);
  zmq_ctx_term(context_);
}

void TelemetrySink::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  for (const auto& [process, counters] : health_) {
    lapped_rounds += std::get<0>(counters);
    dropped_batches += std::get<1>(counters);
  }
  health_.clear();
}

void TelemetrySink::collect() {
  for (;;) {
    zmq_msg_t identity, batch;
    zmq_msg_init(&identity);
    if (zmq_msg_recv(&identity, socket_, 0) < 0) {
      zmq_msg_close(&identity);
      if (stopping_) return;  // nothing came for a while, and nobody is left to send
      continue;
    }
    zmq_msg_init(&batch);
    if (zmq_msg_more(&identity) != 0 && zmq_msg_recv(&batch, socket_, 0) >= 0)
      take(zmq_msg_data(&batch), zmq_msg_size(&batch));
    zmq_msg_close(&batch);
    zmq_msg_close(&identity);
  }
}

void TelemetrySink::take(const void* data, size_t bytes) {
  flatbuffers::Verifier verifier(static_cast<const uint8_t*>(data), bytes);
  if (!wire::VerifyBatchBuffer(verifier)) {
    ++malformed;
    return;
  }
  const wire::Batch* batch = wire::GetBatch(data);
  const std::tuple<uint32_t, uint64_t> process{batch->pid(), batch->pid_start_ticks()};
  uint64_t& last = last_batch_[process];
  if (batch->batch_seq() > last + 1) batches_lost[process] += batch->batch_seq() - last - 1;
  last = batch->batch_seq();
  if (batch->messages() == nullptr) return;
  for (const wire::Message* message : *batch->messages()) {
    if (const auto* up = message->payload_as_CommUp()) {
      SeenComm& comm = comms[{up->comm_uid(), up->rank()}];
      comm.up = true;
      comm.comm_hash = up->comm_hash();
      comm.parent_uid = up->parent_uid();
      comm.number = up->comm_number();
      comm.rank_count = up->rank_count();
      comm.hidden |= up->hidden();
      if (up->connections() != nullptr) comm.net_connections = up->connections()->size();
    } else if (const auto* down = message->payload_as_CommDown()) {
      SeenComm& comm = comms[{down->comm_uid(), down->rank()}];
      comm.down = true;
      comm.end_state = down->state();
    } else if (const auto* rounds = message->payload_as_RoundGroups()) {
      take(*rounds);
    } else if (const auto* p2p = message->payload_as_P2pGroups()) {
      take(*p2p);
    } else if (const auto* in_flight = message->payload_as_InFlight()) {
      comms[{in_flight->comm_uid(), in_flight->rank()}].completed_op_seq = in_flight->completed_op_seq();
    } else if (const auto* init = message->payload_as_CommInit()) {
      inits[{init->comm_hash(), init->rank()}] = {init->stage(), init->rank_count(), init->result()};
    } else if (const auto* queues = message->payload_as_NetQueues()) {
      net_queues += queues->rows();
    } else if (const auto* health = message->payload_as_AgentHealth()) {
      health_[process] = {health->lapped_rounds(), health->dropped_batches()};
    }
  }
}

void TelemetrySink::take(const wire::RoundGroups& rounds) {
  for (const auto& calls : test::calls_of(rounds)) {
    SeenComm& comm = comms[{calls.of.comm_uid, calls.of.rank}];
    for (const wire::CallRow& r : calls.rows) {
      SeenRound round;
      round.op_seq = r.number;
      round.replay = r.replay;
      round.signature = calls.kinds[r.kind];
      round.begin_device_ns = r.begin_device_ns;
      round.end_device_ns = r.end_device_ns;
      round.send_steps = r.send_steps;
      round.recv_steps = r.recv_steps;
      round.flags = r.flags;
      round.signals = r.signals;
      comm.rounds.push_back(round);
    }
  }
}

void TelemetrySink::take(const wire::P2pGroups& rounds) {
  for (const auto& calls : test::calls_of(rounds)) {
    SeenComm& comm = comms[{calls.of.comm_uid, calls.of.rank}];
    for (const wire::CallRow& r : calls.rows) {
      const wire::P2pKind& kind = calls.kinds[r.kind];
      SeenP2p call;
      call.peer = kind.peer();
      call.is_send = kind.direction() == 1;
      call.pair_seq = r.number;
      call.bytes = kind.bytes();
      call.begin_device_ns = r.begin_device_ns;
      call.end_device_ns = r.end_device_ns;
      call.replay = r.replay;
      call.plan = r.plan;
      call.send_steps = r.send_steps;
      call.recv_steps = r.recv_steps;
      call.flags = r.flags;
      comm.p2ps.push_back(call);
    }
  }
}

}  // namespace ccld::operations_test
