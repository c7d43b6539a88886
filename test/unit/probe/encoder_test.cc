#include "probe/transport/encoder.h"

#include <catch2/catch.hpp>
#include <ctime>

#include "probe/transport/call_bundle.h"
#include "schemas/wire/uuid_text.h"
#include "test/support/packing/unpacked.h"

namespace ccld::probe {
namespace {

Sender sender() { return {"job-a", "node0", "boot", 4242, 4026532345, 777, 22907}; }

wire::OpSignature signature(uint64_t count) { return wire::OpSignature(count, -1, 5, 7, 0, 1, 2, 8, 4); }

// Processor time to add calls of Send with so many peers, in turn.
double seconds_to_add(int peers) {
  P2pRoundsMessage m;
  for (int i = 0; i < 30000; ++i) {
    FinishedP2p call;
    call.peer = i % peers;
    call.bytes = 4096;
    call.pair_seq = static_cast<uint64_t>(i / peers);
    m.rounds.push_back(call);
  }
  CallBundle calls(wire::words_of<wire::P2pKind>, wire::Numbering::of_kind);
  const std::clock_t begin = std::clock();
  calls.add(m);
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

TEST_CASE("calls with many peers cost about as much as those with one") {
  CHECK(seconds_to_add(30000) < 50 * (seconds_to_add(1) + 0.001));
}

std::vector<Message> one_of_each() {
  CommUpMessage up;
  up.identity.comm_uid = 11;
  up.identity.comm_hash = 12;
  up.identity.node = 1;
  up.identity.node_count = 2;
  up.identity.local_rank = 3;
  up.identity.gpu_bus_id = "0000:10:00.0";
  up.identity.host = "node1";
  up.identity.comm_name = "world";
  up.identity.channels = {{0, 6, 0, 5, {1, -1, 2}, 3}, {1, 2, 3, -1, {-1, -1, -1}, -1}};
  up.comm_number = 2;
  up.rank = 7;
  up.rank_count = 8;
  up.cuda_device = 1;
  up.mode = 7;
  up.identity.parent_uid = 10;
  up.hidden = 12;
  up.connections = {{abi::Direction::send, 1, 0, 2, "mlx5_2"}};

  RoundsMessage rounds;
  rounds.comm_uid = 11;
  rounds.rank = 7;
  for (uint64_t i = 0; i < 5; ++i) {
    FinishedRound r;
    r.op_seq = 100 + i;
    r.signature = signature(i % 2 == 0 ? 1000 : 2000);
    r.enter_monotonic_ns = 1 + i;
    r.launch_monotonic_ns = 2 + i;
    r.begin_device_ns = 3 + i;
    r.end_device_ns = 4 + i;
    r.send_steps = static_cast<uint32_t>(5 + i);
    r.recv_steps = static_cast<uint32_t>(6 + i);
    r.send_changes = static_cast<uint32_t>(7 + i);
    r.recv_changes = static_cast<uint32_t>(8 + i);
    r.samples = static_cast<uint32_t>(9 + i);
    r.flags = static_cast<uint8_t>(i);
    r.replay = static_cast<uint32_t>(10 + i);
    r.signals = 3;
    rounds.rounds.push_back(r);
  }
  rounds.links.emplace_back(100, 1, 2, 3, 4, 6, 0, 128, uint16_t{1}, uint8_t{1}, uint8_t{0});
  rounds.link_proxy_away_us = {700};
  rounds.link_first_step = {64};

  InFlightMessage in_flight;
  in_flight.comm_uid = 11;
  in_flight.rank = 7;
  in_flight.sample_monotonic_ns = 5;
  in_flight.entered_op_seq = 105;
  in_flight.launched_op_seq = 104;
  in_flight.completed_op_seq = 103;
  in_flight.moved_age_ms = 60;
  in_flight.movement = 70;
  in_flight.operations_total = 2;
  in_flight.proxy_tick_age_ms = 80;
  in_flight.late = true;
  in_flight.state = 2;
  OperationInFlight operation;
  operation.op_seq = 104;
  operation.signature = signature(3000);
  operation.plan = 9;
  operation.enter_age_ms = 10;
  operation.launch_age_ms = 9;
  operation.launched = operation.begun = true;
  operation.channels.emplace_back(9, uint16_t{1}, uint8_t{1}, uint8_t{0}, 8, 7, 6, 5);
  operation.replay = 3;
  operation.signals = 7;
  in_flight.operations.push_back(operation);
  in_flight.p2p.emplace_back(61, 62, 63, 64, 65, 66, 67, 68, uint8_t{1}, uint8_t{1}, uint8_t{0}, uint8_t{4}, uint8_t{7}, uint8_t{0}, uint16_t{0});
  in_flight.p2p_total = 2;
  in_flight.entered_p2p = 71;
  in_flight.launched_p2p = 72;
  in_flight.kernel_plan = 9;
  in_flight.kernel_replay = 3;
  in_flight.stopped = true;
  in_flight.lanes.emplace_back(9, 108, 100, 109, 108, 4, 50, 1, 50, uint16_t{1}, uint8_t{0}, uint8_t{2}, uint8_t{3},
                               uint8_t{1}, uint8_t{1}, uint8_t{0});
  in_flight.proxies.emplace_back(100, 108, 0, 108, 107, 16, 55, 4, 0, 3, 4, uint16_t{1}, uint8_t{1}, uint8_t{0});

  HealthMessage health;
  health.health.samples = 1;
  health.health.dropped_batches = 2;
  health.health.cpu_ns = 3;
  health.siblings = {{99, 98, 'T', 1234, {{11, 7, 106, 105, 104}}}, {100, 98, 'S', 1, {}}};

  CommDownMessage down;
  down.comm_uid = 11;
  down.rank = 7;
  down.state = 4;
  down.last_entered_op_seq = 105;

  P2pRoundsMessage p2p;
  p2p.comm_uid = 11;
  p2p.rank = 7;
  for (uint64_t i = 0; i < 3; ++i)
    p2p.rounds.push_back({static_cast<int32_t>(20 + i), 1, 8, 21, 22, 23 + i, 24 + i, 25 + i, 26 + i, 27 + i, 28 + i});
  p2p.links.emplace_back(23, 31, 32, 33, 34, 20, 2, 40, uint16_t{1}, uint8_t{1}, uint8_t{3});
  p2p.link_proxy_away_us = {35};
  p2p.link_first_step = {36};
  const CommInitMessage init{5, 12, 7, 8, abi::InitStage::failed, 30, 31, 6, 1};
  MetricsMessage metrics;
  metrics.metrics = {{abi::MetricId::agent_samples, "", 5}, {abi::MetricId::port_state, "mlx5_0:1", -4}};
  NetQueuesMessage net;
  net.queues.emplace_back(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0);
  net.device_names = {"mlx5_0", "mlx5_1"};
  ControlStateMessage control;
  control.state = {6, abi::control_log, false, 2000, 2, 4000, 2500, "tcp://a:1"};
  return {up, rounds, in_flight, health, down, p2p, init, metrics, net, control};
}

std::vector<uint8_t> encoded() {
  BatchEncoder encoder;
  for (const Message& m : one_of_each()) encoder.add(m);
  const BatchEncoder::Bytes bytes = encoder.finish(sender(), 42, -5, 6);
  return {bytes.data, bytes.data + bytes.size};
}

bool verifies(const std::vector<uint8_t>& bytes) {
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  return wire::VerifyBatchBuffer(verifier);
}

// One of each, encoded and verified.
class Encoded {
 public:
  Encoded() { REQUIRE(verifies(bytes_)); }
  const wire::Batch* batch() const { return wire::GetBatch(bytes_.data()); }

 private:
  const std::vector<uint8_t> bytes_ = encoded();
};

TEST_CASE("the sender of a batch comes out again") {
  const Encoded bytes;
  const wire::Batch* batch = bytes.batch();
  CHECK(batch->schema_version() == wire_schema_version);
  CHECK(batch->job()->str() == "job-a");
  CHECK(batch->host()->str() == "node0");
  CHECK(batch->boot_id()->str() == "boot");
  CHECK(batch->pid() == 4242);
  CHECK(batch->pid_start_ticks() == 777);
  CHECK(batch->pid_namespace() == 4026532345);
  CHECK(batch->batch_seq() == 42);
  CHECK(batch->sent_realtime_ns() == -5);
  CHECK(batch->sent_monotonic_ns() == 6);
  CHECK(batch->nccl_version() == 22907);
  REQUIRE(batch->messages()->size() == one_of_each().size());
}

TEST_CASE("a communicator's announcement comes out again") {
  const Encoded bytes;
  const wire::Batch* batch = bytes.batch();
  const auto* up = batch->messages()->Get(0)->payload_as_CommUp();
  REQUIRE(up != nullptr);
  CHECK(up->comm_uid() == 11);
  CHECK(up->name()->str() == "world");
  CHECK(up->rank() == 7);
  CHECK(up->rank_count() == 8);
  CHECK(up->gpu_bus_id()->str() == "0000:10:00.0");
  CHECK(up->host()->str() == "node1");
  CHECK(up->mode() == 7);
  CHECK(up->parent_uid() == 10);
  CHECK(up->hidden() == 12);
  REQUIRE(up->channels()->size() == 2);
  const auto* channel = up->channels()->Get(0);
  CHECK(channel->ring_prev() == 6);
  CHECK(channel->ring_next() == 0);
  CHECK(channel->tree_up() == 5);
  REQUIRE(channel->tree_down()->size() == 2);
  CHECK(channel->tree_down()->Get(1) == 2);
  CHECK(up->channels()->Get(1)->tree_down()->size() == 0);
  REQUIRE(up->connections()->size() == 1);
  CHECK(up->connections()->Get(0)->net_name()->str() == "mlx5_2");
  CHECK(up->connections()->Get(0)->direction() == 1);
}

TEST_CASE("rounds come out again, with each signature once") {
  const Encoded bytes;
  const wire::Batch* batch = bytes.batch();
  const auto* groups = batch->messages()->Get(1)->payload_as_RoundGroups();
  REQUIRE(groups != nullptr);
  const auto all = test::calls_of(*groups);
  REQUIRE(all.size() == 1);
  const auto& [of, signatures, rows, links] = all[0];
  CHECK(of.comm_uid == 11);
  CHECK(of.rank == 7);
  CHECK(signatures.size() == 2);  // distinct ones
  REQUIRE(rows.size() == 5);
  for (uint64_t i = 0; i < 5; ++i) {
    const wire::CallRow& r = rows[i];
    CHECK(r.number == 100 + i);
    CHECK(signatures[r.kind].count() == (i % 2 == 0 ? 1000 : 2000));
    CHECK(r.enter_monotonic_ns == 1 + i);
    CHECK(r.launch_monotonic_ns == 2 + i);
    CHECK(r.begin_device_ns == 3 + i);
    CHECK(r.end_device_ns == 4 + i);
    CHECK(r.send_steps == 5 + i);
    CHECK(r.recv_steps == 6 + i);
    CHECK(r.send_changes == 7 + i);
    CHECK(r.recv_changes == 8 + i);
    CHECK(r.samples == 9 + i);
    CHECK(r.flags == i);
    CHECK(r.replay == 10 + i);
    CHECK(r.signals == 3);
  }
  REQUIRE(links.size() == 1);
  CHECK(links[0].done_mean_realtime_ns == 4);
  CHECK(links[0].steps == 128);
  CHECK(links[0].proxy_away_us == 700);
  CHECK(links[0].first_step == 64);
}

TEST_CASE("what is in flight comes out again") {
  const Encoded bytes;
  const wire::Batch* batch = bytes.batch();
  const auto* in_flight = batch->messages()->Get(2)->payload_as_InFlight();
  REQUIRE(in_flight != nullptr);
  CHECK(in_flight->movement() == 70);
  CHECK(in_flight->late());
  REQUIRE(in_flight->operations()->size() == 1);
  CHECK(in_flight->operations()->Get(0)->signature()->count() == 3000);
  CHECK(in_flight->operations()->Get(0)->begun());
  const auto* operation = in_flight->operations()->Get(0);
  const auto channels = test::unpacked<wire::ChannelState>(operation->packed_channels(), operation->channel_rows());
  REQUIRE(channels.size() == 1);
  CHECK(channels[0].polling_age_ms() == 7);
  const auto lanes = test::unpacked<wire::LaneState>(in_flight->packed_lanes(), in_flight->lane_rows());
  REQUIRE(lanes.size() == 1);
  CHECK(lanes[0].peer() == 4);
  CHECK(lanes[0].peer_index() == 3);
  CHECK(lanes[0].wait_certain() == 1);
  const auto proxies = test::unpacked<wire::ProxyState>(in_flight->packed_proxies(), in_flight->proxy_rows());
  REQUIRE(proxies.size() == 1);
  CHECK(proxies[0].done() == 107);
  CHECK(in_flight->operations()->Get(0)->replay() == 3);
  CHECK(in_flight->operations()->Get(0)->signals() == 7);
  const auto p2p = test::unpacked<wire::P2pInFlight>(in_flight->packed_p2p(), in_flight->p2p_rows());
  REQUIRE(p2p.size() == 1);
  CHECK(p2p[0].pair_seq() == 62);
  CHECK(p2p[0].flags() == 4);
  CHECK(in_flight->p2p_total() == 2);
  CHECK(in_flight->entered_p2p() == 71);
  CHECK(in_flight->launched_p2p() == 72);
  CHECK(in_flight->kernel_plan() == 9);
  CHECK(in_flight->kernel_replay() == 3);
  CHECK(in_flight->stopped());
}

TEST_CASE("point-to-point rounds come out again") {
  const Encoded bytes;
  const auto* groups = bytes.batch()->messages()->Get(5)->payload_as_P2pGroups();
  REQUIRE(groups != nullptr);
  const auto all = test::calls_of(*groups);
  REQUIRE(all.size() == 1);
  const auto& [of, kinds, rows, links] = all[0];
  REQUIRE(rows.size() == 3);
  CHECK(kinds[rows[2].kind].peer() == 22);
  CHECK(kinds[rows[0].kind].direction() == 1);
  CHECK(kinds[rows[1].kind].bytes() == 25);
  CHECK(rows[0].flags == 8);
  CHECK(rows[0].replay == 21);
  CHECK(rows[0].plan == 22);
  CHECK(rows[1].number == 24);
  CHECK(rows[1].enter_monotonic_ns == 26);
  CHECK(rows[1].launch_monotonic_ns == 27);
  CHECK(rows[1].begin_device_ns == 28);
  CHECK(rows[1].end_device_ns == 29);
  REQUIRE(links.size() == 1);
  CHECK(links[0].op_seq == 23);
  CHECK(links[0].wire_mean_realtime_ns == 33);
  CHECK(links[0].proxy_away_us == 35);
  CHECK(links[0].first_step == 36);
}

TEST_CASE("a training loop's rounds take a few bytes each") {
  BatchEncoder encoder;
  RoundsMessage message;
  for (uint64_t i = 0; i < 56; ++i) {
    FinishedRound r;
    r.op_seq = 1000 + i;
    r.signature = signature(i % 4);
    r.enter_monotonic_ns = 8'000'000'000'000 + i * 1'800'000 + i * i * 7919 % 30'000;
    r.launch_monotonic_ns = r.enter_monotonic_ns + 9000 + i * 104'729 % 3000;
    r.begin_device_ns = 1'700'000'000'000'000'000 + i * 1'800'000 + i * i * 6151 % 30'000;
    r.end_device_ns = r.begin_device_ns + 700'000 + i * 3571 % 20'000;
    r.send_steps = r.recv_steps = 112;
    r.flags = 1, r.signals = 7;
    message.rounds.push_back(r);
  }
  encoder.add(message);
  // Nine of its own, the rest are the batch and the four signatures.
  CHECK(static_cast<double>(encoder.finish(sender(), 1, 0, 0).size) / 56 < 15);
}

TEST_CASE("what is not about communicators comes out again") {
  const Encoded bytes;
  const auto* messages = bytes.batch()->messages();
  const auto* init = messages->Get(6)->payload_as_CommInit();
  REQUIRE(init != nullptr);
  CHECK((init->number() == 5 && init->comm_hash() == 12 && init->rank() == 7 && init->rank_count() == 8));
  CHECK((init->stage() == 5 && init->stage_age_ms() == 30 && init->enter_age_ms() == 31));
  CHECK((init->result() == 6 && init->cuda_device() == 1));
  const auto* metrics = messages->Get(7)->payload_as_Metrics();
  REQUIRE(metrics != nullptr);
  const auto values = test::metrics_of(*metrics);
  REQUIRE(values.size() == 2);
  const auto instance = [&](size_t i) { return test::texts_of(metrics->names())[values[i].instance]; };
  CHECK((instance(0).empty() && values[0].id == static_cast<uint16_t>(abi::MetricId::agent_samples) && values[0].value == 5));
  CHECK((instance(1) == "mlx5_0:1" && values[1].id == static_cast<uint16_t>(abi::MetricId::port_state) && values[1].value == -4));
  const auto* net = messages->Get(8)->payload_as_NetQueues();
  REQUIRE(net != nullptr);
  CHECK(test::unpacked<wire::NetProgress>(net->packed(), net->rows())[0].queue() == 1);
  CHECK(test::texts_of(net->names()) == std::vector<std::string>{"mlx5_0", "mlx5_1"});
  const auto* control = messages->Get(9)->payload_as_ControlState();
  REQUIRE(control != nullptr);
  CHECK((control->sequence() == 6 && control->refused_fields() == abi::control_log && !control->running()));
  CHECK((control->sample_us() == 2000 && control->log() == 2 && control->budget_ppm() == 4000));
  CHECK((control->period_us() == 2500 && control->endpoint()->str() == "tcp://a:1"));
}

TEST_CASE("the agent's health comes out again") {
  const Encoded bytes;
  const wire::Batch* batch = bytes.batch();
  const auto* health = batch->messages()->Get(3)->payload_as_AgentHealth();
  REQUIRE(health != nullptr);
  CHECK(health->dropped_batches() == 2);
  CHECK(health->siblings()->Get(0)->state() == 'T');
  CHECK(health->siblings()->Get(0)->state_age_ms() == 1234);
  const auto* last = health->siblings()->Get(0)->last_operations();
  REQUIRE(last != nullptr);
  REQUIRE(last->size() == 1);
  CHECK(last->Get(0)->comm_uid() == 11);
  CHECK(last->Get(0)->rank() == 7);
  CHECK(last->Get(0)->entered_op_seq() == 106);
  CHECK(last->Get(0)->launched_op_seq() == 105);
  CHECK(last->Get(0)->begun_op_seq() == 104);
  CHECK(health->siblings()->size() == 1);
  const auto others = test::unpacked<wire::SiblingState>(health->packed_siblings(), health->sibling_rows());
  REQUIRE(others.size() == 1);
  CHECK((others[0].pid() == 100 && others[0].pid_start_ticks() == 98 && others[0].state() == 'S' &&
         others[0].state_age_ms() == 1));
}

TEST_CASE("a communicator's end comes out again") {
  const Encoded bytes;
  const wire::Batch* batch = bytes.batch();
  const auto* down = batch->messages()->Get(4)->payload_as_CommDown();
  REQUIRE(down != nullptr);
  CHECK(down->state() == 4);
  CHECK(down->last_entered_op_seq() == 105);
}

TEST_CASE("calls of all communicators are one message, in front of what was in flight after them") {
  const auto rounds_of = [](uint64_t comm_uid, uint64_t op_seq) {
    RoundsMessage m;
    m.comm_uid = comm_uid;
    m.rounds.emplace_back();
    m.rounds[0].op_seq = op_seq;
    return m;
  };
  const auto in_flight_of = [](uint64_t comm_uid) {
    InFlightMessage m;
    m.comm_uid = comm_uid;
    return m;
  };
  CommUpMessage up;
  up.identity.comm_uid = 2;
  P2pRoundsMessage p2p;
  p2p.comm_uid = 1;
  BatchEncoder encoder;
  encoder.add(rounds_of(1, 10));
  CHECK(encoder.bytes() > 0);
  encoder.add(p2p);
  encoder.add(in_flight_of(1));
  encoder.add(up);
  encoder.add(rounds_of(2, 20));
  encoder.add(in_flight_of(2));
  encoder.add(CommDownMessage{1, 0, 0, 0});
  encoder.add(rounds_of(2, 21));
  const auto bytes = encoder.finish(sender(), 1, 0, 0);
  const wire::Batch* batch = wire::GetBatch(bytes.data);
  std::vector<wire::Payload> types;
  for (const wire::Message* m : *batch->messages()) types.push_back(m->payload_type());
  using wire::Payload;
  CHECK(types == std::vector<Payload>{Payload::CommUp, Payload::RoundGroups, Payload::P2pGroups, Payload::InFlight,
                                      Payload::InFlight, Payload::CommDown, Payload::RoundGroups});
  const auto first = test::calls_of(*batch->messages()->Get(1)->payload_as_RoundGroups());
  REQUIRE(first.size() == 2);
  CHECK((first[0].of.comm_uid == 1 && first[0].rows[0].number == 10));
  CHECK((first[1].of.comm_uid == 2 && first[1].rows[0].number == 20));
}

TEST_CASE("the boot id is sent in few bytes if it is an UUID in lower case, and as it is otherwise") {
  const auto boot_of = [](const std::string& boot_id) {
    BatchEncoder encoder;
    encoder.add(CommDownMessage{1, 0, 0, 0});
    Sender from = sender();
    from.boot_id = boot_id;
    const auto bytes = encoder.finish(from, 1, 0, 0);
    const wire::Batch* batch = wire::GetBatch(bytes.data);
    const wire::Uuid* uuid = batch->boot_uuid();
    CHECK((uuid == nullptr) == (batch->boot_id() != nullptr));
    return uuid != nullptr ? "uuid " + wire::uuid_text({uuid->high(), uuid->low()}) : batch->boot_id()->str();
  };
  CHECK(boot_of("6ba7b810-9dad-11d1-80b4-00c04fd430c8") == "uuid 6ba7b810-9dad-11d1-80b4-00c04fd430c8");
  for (const char* other : {"", "boot", "6BA7B810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c80",
                            "6ba7b8109dad--11d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430cg"})
    CHECK(boot_of(other) == other);
}

TEST_CASE("an encoder is used again and again") {
  BatchEncoder encoder;
  CHECK(encoder.empty());
  for (uint64_t i = 1; i <= 3; ++i) {
    encoder.add(CommDownMessage{i, 0, 0, 0});
    CHECK_FALSE(encoder.empty());
    const auto bytes = encoder.finish(sender(), i, 0, 0);
    CHECK(encoder.empty());
    const wire::Batch* batch = wire::GetBatch(bytes.data);
    CHECK(batch->messages()->size() == 1);
    CHECK(batch->messages()->Get(0)->payload_as_CommDown()->comm_uid() == i);
  }
}

TEST_CASE("empty messages are valid") {
  BatchEncoder encoder;
  for (const Message& m :
       {Message(CommUpMessage{}), Message(RoundsMessage{}), Message(InFlightMessage{}), Message(HealthMessage{}),
        Message(CommInitMessage{}), Message(P2pRoundsMessage{}), Message(MetricsMessage{}), Message(NetQueuesMessage{}),
        Message(ControlStateMessage{})})
    encoder.add(m);
  const auto bytes = encoder.finish(Sender{}, 1, 0, 0);
  CHECK(verifies({bytes.data, bytes.data + bytes.size}));
}

// What a reader does with a verified batch: it must be able to look at everything.
uint64_t read_everything(const wire::Batch* batch) {
  uint64_t sum = batch->batch_seq();
  const auto text = [&sum](const flatbuffers::String* s) {
    sum += s != nullptr ? s->size() + (s->size() != 0 ? (*s)[0] : 0) : 0;
  };
  const auto numbers = [&sum](const auto* v) {
    if (v == nullptr) return;
    for (const auto value : *v) sum += static_cast<uint64_t>(value);
  };
  text(batch->job());
  text(batch->host());
  if (batch->messages() == nullptr) return sum;
  for (const wire::Message* m : *batch->messages()) {
    if (const auto* up = m->payload_as_CommUp()) {
      text(up->name());
      if (up->channels() != nullptr)
        for (const auto* c : *up->channels()) numbers(c->tree_down());
      if (up->connections() != nullptr)
        for (const auto* c : *up->connections()) text(c->net_name());
    } else if (const auto* rounds = m->payload_as_RoundGroups()) {
      numbers(rounds->calls());
      numbers(rounds->links());
    } else if (const auto* in_flight = m->payload_as_InFlight()) {
      numbers(in_flight->packed_lanes());
      numbers(in_flight->packed_proxies());
      numbers(in_flight->packed_p2p());
      if (in_flight->operations() != nullptr)
        for (const auto* o : *in_flight->operations()) numbers(o->packed_channels());
    } else if (const auto* health = m->payload_as_AgentHealth()) {
      if (health->siblings() != nullptr)
        for (const auto* s : *health->siblings()) sum += s->pid();
      numbers(health->packed_siblings());
    } else if (const auto* p2p = m->payload_as_P2pGroups()) {
      numbers(p2p->calls());
      numbers(p2p->links());
    } else if (const auto* metrics = m->payload_as_Metrics()) {
      numbers(metrics->packed());
      text(metrics->names());
    } else if (const auto* net = m->payload_as_NetQueues()) {
      numbers(net->packed());
      text(net->names());
    } else if (const auto* control = m->payload_as_ControlState()) {
      text(control->endpoint());
    }
  }
  return sum;
}

TEST_CASE("a corrupted batch is refused or readable, never a crash") {
  const std::vector<uint8_t> good = encoded();
  uint64_t state = 12345, sum = 0;
  const auto random = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33);
  };
  int refused = 0, readable = 0;
  const auto look_at = [&](const std::vector<uint8_t>& bytes) {
    if (!verifies(bytes)) {
      ++refused;
      return;
    }
    ++readable;
    sum += read_everything(wire::GetBatch(bytes.data()));
  };
  for (size_t i = 0; i < good.size(); ++i) {  // every byte
    for (const uint8_t mask : {0x01, 0x80, 0xff}) {
      std::vector<uint8_t> bad = good;
      bad[i] = static_cast<uint8_t>(bad[i] ^ mask);
      look_at(bad);
    }
  }
  for (int i = 0; i < 5000; ++i) {  // many at once
    std::vector<uint8_t> bad = good;
    for (uint32_t n = 1 + random() % 8; n > 0; --n) bad[random() % bad.size()] = static_cast<uint8_t>(random());
    look_at(bad);
  }
  for (size_t size = 0; size < good.size(); ++size) look_at({good.begin(), good.begin() + static_cast<long>(size)});
  CHECK(refused > 1000);
  CHECK(readable > 100);
  CHECK(sum != 0);
}

}  // namespace
}  // namespace ccld::probe
