#include "probe/agent/agent.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "probe/counters/log.h"
#include "probe/frames/comm.h"
#include "probe/frames/frame_file.h"
#include "probe/frames/recording.h"
#include "schemas/wire/control_generated.h"
#include "test/unit/probe/support.h"
#include "test/unit/schemas/synthetic_frame.h"
#include "test/support/packing/unpacked.h"

namespace ccld::probe {
namespace {

namespace fs = std::filesystem;
using abi::Direction;
using test::SyntheticFrame;

using Variables = std::vector<std::pair<std::string, std::string>>;

// An agent whose time, transport and communicators are the test's.
struct Scene {
  explicit Scene(const Variables& more = {}) {
    char name[] = "/tmp/ccld-agent-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    folder = name;
    Variables variables = {{"NCCL_PROBE_ENDPOINT", "test://x"}, {"NCCL_PROBE_FRAMES_DIR", name}};
    variables.insert(variables.end(), more.begin(), more.end());
    settings = test::settings_with(variables);
    agent = std::make_unique<Agent>(settings, Sender{"job-a", "", "boot", 4242, 0, 777, 0}, clock);
    if (!settings.endpoint.empty()) agent->set_transport(std::make_unique<test::RecordingTransport>(&sent));
  }
  ~Scene() {
    agent.reset();
    fs::remove_all(folder);
  }

  // Ticks whenever one is due, for that long.
  void run_ms(uint64_t ms) {
    const uint64_t end = clock.at.monotonic_ns + ms * ns_per_ms;
    while (next_ns <= end || (agent->resting() && agent->anything_new())) {
      if (agent->resting() && agent->anything_new()) {
        next_ns = std::min(next_ns, clock.at.monotonic_ns);  // the doorbell
        agent->count_wakeup();
      }
      if (next_ns > clock.at.monotonic_ns) clock.advance_us((next_ns - clock.at.monotonic_ns) / 1000);
      next_ns = agent->tick();
      ++ticks;
    }
    clock.advance_us((end - clock.at.monotonic_ns) / 1000);
  }

  std::string folder;
  test::FakeClock clock;
  test::Sent sent;
  Settings settings;
  std::unique_ptr<Agent> agent;
  uint64_t next_ns = 0;
  int ticks = 0;
};

// A communicator whose frame is plain memory.
struct Communicator {
  explicit Communicator(uint64_t uid = 0x77) {
    comm.setup = {3, 8, 1, 2, 22907};
    comm.number = 1;
    comm.memory = frame.memory();
    comm.bytes = frame.bytes();
    comm.header = &frame.header();
    comm.path = "/nonexistent/ccld-frame";
    comm.identity.comm_uid = uid;
    comm.identity.host = "node0";
    comm.identity.comm_name = "world";
  }
  // A finished round.
  void round(uint32_t token) {
    frame.launch_operation(token, 1);
    frame.run_kernel(1, token, token * 100, token * 100 + 10);
  }
  SyntheticFrame frame;
  Comm comm;
};

TEST_CASE("a communicator is announced, reports where it stands every second, and says when it ends") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(3500);
  REQUIRE(s.sent.all<wire::CommUp>().size() == 1);
  const auto* up = s.sent.all<wire::CommUp>()[0];
  CHECK(up->comm_uid() == 0x77);
  CHECK(up->name()->str() == "world");
  CHECK(up->rank() == 3);
  CHECK(up->rank_count() == 8);
  CHECK(up->cuda_device() == 1);
  CHECK(s.sent.all<wire::InFlight>().size() == 4);
  CHECK(s.sent.all<wire::AgentHealth>().size() == 4);
  CHECK(s.sent.batch(0)->host()->str() == "node0");
  CHECK(s.sent.batch(0)->nccl_version() == 22907);
  c.round(1);
  s.agent->detach(&c.comm, abi::CommState::destroyed);
  s.run_ms(50);
  // Its last round is not lost.
  REQUIRE(s.sent.all<wire::RoundGroups>().size() == 1);
  REQUIRE(s.sent.all<wire::CommDown>().size() == 1);
  CHECK(s.sent.all<wire::CommDown>()[0]->state() == static_cast<uint32_t>(abi::CommState::destroyed));
  CHECK(s.sent.all<wire::CommDown>()[0]->last_entered_op_seq() == 1);
  const size_t batches = s.sent.all<wire::InFlight>().size();
  s.run_ms(3000);
  CHECK(s.sent.all<wire::InFlight>().size() == batches);
}

TEST_CASE("a communicator that lived between two ticks is announced with its end") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.agent->detach(&c.comm, abi::CommState::aborted);
  s.run_ms(20);
  CHECK(s.sent.all<wire::CommUp>().size() == 1);
  CHECK(s.sent.all<wire::CommDown>().size() == 1);
}

TEST_CASE("the announcement is repeated for a service that was restarted, and renewed with new connections") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(500);
  net_connection(&c.comm, Direction::send, 1, 4, 0, "eth0");
  s.run_ms(1000);
  REQUIRE(s.sent.all<wire::CommUp>().size() == 2);
  REQUIRE(s.sent.all<wire::CommUp>()[1]->connections()->size() == 1);
  CHECK(s.sent.all<wire::CommUp>()[1]->connections()->Get(0)->net_name()->str() == "eth0");
  s.run_ms(59000);
  CHECK(s.sent.all<wire::CommUp>().size() == 5);  // at 9.5, 25.5 and 55.5 s
}

TEST_CASE("a service that was restarted is told of every communicator, and what is in it, as soon as it answers") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(1000);
  REQUIRE(s.sent.all<wire::CommUp>().size() == 1);
  s.sent.connect(false);
  s.run_ms(500);
  s.sent.session = 2;
  s.sent.batches_in_session = 0;
  s.sent.connect(true);
  const size_t snapshots = s.sent.all<wire::InFlight>().size();
  c.frame.launch_operation(1, 1);
  s.run_ms(2500);  // at rest batches are two seconds apart
  CHECK(s.sent.all<wire::CommUp>().size() == 2);
  CHECK(s.sent.all<wire::InFlight>().size() > snapshots);
}

TEST_CASE("what is not measured is told with the next heartbeat, or with the end") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(500);
  CHECK(s.sent.all<wire::CommUp>()[0]->hidden() == 0);
  comm_hides(&c.comm, abi::hidden_pxn);
  s.run_ms(1000);
  REQUIRE(s.sent.all<wire::CommUp>().size() == 2);
  CHECK(s.sent.all<wire::CommUp>()[1]->hidden() == abi::hidden_pxn);
  comm_hides(&c.comm, abi::hidden_pxn);  // known
  comm_hides(&c.comm, abi::hidden_device_api);
  s.agent->detach(&c.comm, abi::CommState::destroyed);
  s.run_ms(20);
  REQUIRE(s.sent.all<wire::CommUp>().size() == 3);
  CHECK(s.sent.all<wire::CommUp>()[2]->hidden() == (abi::hidden_pxn | abi::hidden_device_api));
}

TEST_CASE("the first announcement may be lost: it is soon repeated") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(5000);
  CHECK(s.sent.all<wire::CommUp>().size() == 2);
}

TEST_CASE("batches are numbered from 1 without gaps, and a refused one leaves a gap and is counted") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(2500);
  for (size_t i = 0; i < s.sent.batches.size(); ++i) CHECK(s.sent.batch(i)->batch_seq() == i + 1);
  s.sent.answer = SendResult::full;
  s.run_ms(2000);
  REQUIRE(s.sent.refused == 2);
  s.sent.answer = SendResult::sent;
  const size_t before = s.sent.batches.size();
  s.run_ms(2000);  // at rest
  REQUIRE(s.sent.batches.size() == before + 1);
  CHECK(s.sent.batch(before)->batch_seq() == before + 3);
  CHECK(s.sent.all<wire::AgentHealth>().back()->dropped_batches() == 2);
  s.sent.answer = SendResult::error;
  s.run_ms(2000);
  CHECK(s.agent->health().send_errors == 1);
}

TEST_CASE(
    "while the thread is stuck, communicators that end leave a bounded number of messages, and a gap for the rest") {
  Scene s;
  constexpr size_t communicators = 5000;
  Communicator c;
  for (size_t i = 0; i < communicators; ++i) {
    c.comm.identity.comm_uid = i + 1;
    s.agent->attach(&c.comm);
    s.agent->detach(&c.comm, abi::CommState::destroyed);
  }
  s.run_ms(1);
  const size_t told = s.sent.all<wire::CommDown>().size();
  CHECK(told >= outbox_messages_max / 4);
  CHECK(s.sent.all<wire::CommUp>().size() == told);
  CHECK(told <= outbox_messages_max);
  CHECK(s.agent->health().dropped_batches == communicators - told);
  CHECK(s.sent.batch(0)->batch_seq() == 1 + communicators - told);
}

std::vector<std::string> warnings_said, infos_said;
struct Listening {
  Listening() {
    warnings_said.clear();
    infos_said.clear();
    log_set([](LogLevel level, const char* line) {
      (level == LogLevel::warning ? warnings_said : infos_said).emplace_back(line);
    });
  }
  ~Listening() { log_set(nullptr); }
};

TEST_CASE("a service that is not there is one warning; what waits is not sent, and what is given up is dropped") {
  const Listening listening;
  Scene s;
  Communicator c;
  s.sent.connect(false);
  s.agent->attach(&c.comm);
  s.run_ms(4000);
  CHECK(warnings_said.empty());
  s.run_ms(36000);
  REQUIRE(warnings_said.size() == 1);
  CHECK(warnings_said[0].find("the service at test://x (NCCL_PROBE_ENDPOINT) cannot be reached") == 0);
  const Health& health = s.agent->health();
  CHECK(health.sent_batches == 0);
  CHECK(health.sent_bytes == 0);
  CHECK(health.waiting_batches == s.sent.batches.size());
  CHECK(health.waiting_batches >= 20);
  s.sent.answer = SendResult::full;
  s.run_ms(4000);
  const uint64_t dropped = health.dropped_batches;
  CHECK(dropped == static_cast<uint64_t>(s.sent.refused));
  CHECK(dropped != 0);
  CHECK(warnings_said.size() == 1);

  s.sent.answer = SendResult::sent;
  s.sent.connect(true);
  s.run_ms(4000);
  REQUIRE(warnings_said.size() == 2);
  CHECK(warnings_said[1] ==
        "the service at test://x is there; meanwhile " + std::to_string(dropped) + " batches were not delivered");
  CHECK(infos_said.empty());
  CHECK(health.waiting_batches == 0);
  CHECK(health.sent_batches == s.sent.batches.size());
  uint64_t bytes = 0;
  for (const auto& batch : s.sent.batches) bytes += batch.size();
  CHECK(health.sent_bytes == bytes);
  s.run_ms(10000);
  CHECK(warnings_said.size() == 2);

  s.sent.connect(false);
  s.run_ms(2000);
  const uint64_t waiting = health.waiting_batches, dropped_before = health.dropped_batches;
  CHECK(waiting != 0);
  s.agent->set_transport(nullptr);
  CHECK(health.waiting_batches == 0);
  CHECK(health.dropped_batches == dropped_before + waiting);
}

TEST_CASE("a service that is there, or is soon, is no warning") {
  const Listening listening;
  Scene s;
  Communicator c;
  s.sent.connect(false);
  s.agent->attach(&c.comm);
  s.run_ms(3000);
  s.sent.connect(true);
  s.run_ms(5000);  // at rest a heartbeat asks within 2 s
  REQUIRE(infos_said.size() == 1);
  CHECK(infos_said[0] == "the service at test://x is there");
  for (int restart = 0; restart < 3; ++restart) {
    s.sent.connect(false);
    s.run_ms(4000);
    s.sent.connect(true);
    s.run_ms(1000);
  }
  CHECK(warnings_said.empty());
  CHECK(infos_said.size() == 1);
}

TEST_CASE("every batch is acknowledged, undelivered, waiting or unconfirmed") {
  Scene s;
  Communicator c;
  const Health& health = s.agent->health();
  // Every heartbeat tells of all batches before its own.
  const auto all_add_up = [&s] {
    const abi::MetricId parts[] = {abi::MetricId::agent_acknowledged_batches, abi::MetricId::agent_undelivered_batches,
                                   abi::MetricId::agent_waiting_batches, abi::MetricId::agent_unconfirmed_batches};
    bool told = false;
    for (size_t i = 0; i < s.sent.batches.size(); ++i) {
      for (const wire::Message* m : *s.sent.batch(i)->messages()) {
        if (m->payload_as_Metrics() == nullptr) continue;
        told = true;
        uint64_t sum = 0;
        for (const wire::MetricRow& metric : test::metrics_of(*m->payload_as_Metrics()))
          if (std::count(std::begin(parts), std::end(parts), static_cast<abi::MetricId>(metric.id)) != 0)
            sum += static_cast<uint64_t>(metric.value);
        if (sum != s.sent.batch(i)->batch_seq() - 1) return false;
      }
    }
    return told;
  };
  s.agent->attach(&c.comm);
  s.run_ms(30000);
  CHECK(health.acknowledged_batches >= s.sent.batches.size() - 5);
  CHECK(health.undelivered_batches == 0);
  uint64_t asked = 0;
  for (size_t i = 0; i < s.sent.batches.size(); ++i) asked += s.sent.batch(i)->acknowledge();
  CHECK(asked >= 4);
  CHECK(asked <= 7);  // every 5 s

  s.sent.answer = SendResult::full;
  s.run_ms(10000);
  const uint64_t refused = static_cast<uint64_t>(s.sent.refused);
  s.sent.answer = SendResult::sent;
  s.run_ms(10000);
  CHECK(health.undelivered_batches == refused);
  CHECK(all_add_up());
}

TEST_CASE("a service that takes what is sent and answers nothing is one warning, and one when it answers again") {
  const Listening listening;
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  SECTION("from the start") {
    s.sent.answers = false;
    s.run_ms(8000);
    CHECK(warnings_said.empty());
    s.run_ms(60000);
    REQUIRE(warnings_said.size() == 1);
    CHECK(warnings_said[0].find("the service at test://x (NCCL_PROBE_ENDPOINT) is connected and has acknowledged no "
                                "batch for 10 s: it is stopped, older") == 0);
    CHECK(infos_said.empty());
    CHECK(s.agent->health().acknowledged_batches == 0);
    CHECK(s.agent->health().unconfirmed_batches >= s.sent.batches.size() - 1);
  }
  SECTION("after it did") {
    s.run_ms(20000);
    REQUIRE(infos_said.size() == 1);
    s.sent.answers = false;
    s.run_ms(20000);
    REQUIRE(warnings_said.size() == 1);
    CHECK(warnings_said[0].find("is connected and has acknowledged no batch for 10 s: it is stopped or overloaded") !=
          std::string::npos);
  }
  s.sent.answers = true;
  s.run_ms(40000);
  REQUIRE(warnings_said.size() == 2);
  CHECK(warnings_said[1] == "the service at test://x is there; meanwhile 0 batches were not delivered");
}

TEST_CASE("batches that a service took and did not acknowledge before it ended are unconfirmed") {
  const Listening listening;
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(20000);
  s.sent.answers = false;  // it goes on taking some
  s.run_ms(4000);
  s.sent.connect(false);
  s.run_ms(10000);
  REQUIRE(warnings_said.size() == 1);
  const uint64_t waited = s.agent->health().waiting_batches;
  CHECK(waited >= 4);
  s.sent.answers = true;
  s.sent.session = 2;
  s.sent.batches_in_session = waited;  // those arrive
  s.sent.connect(true);
  s.run_ms(10000);
  REQUIRE(warnings_said.size() == 2);
  CHECK(warnings_said[1].find("is there; meanwhile 0 batches were not delivered, and of ") != std::string::npos);
  CHECK(s.agent->health().undelivered_batches == 0);
}

TEST_CASE("an acknowledgement that nobody asked for changes nothing") {
  Scene s;
  Communicator c;
  s.sent.answers = false;
  s.agent->attach(&c.comm);
  s.run_ms(3000);
  for (const uint64_t batch_seq : {uint64_t{0}, uint64_t{77}, UINT64_MAX}) {
    flatbuffers::FlatBufferBuilder builder;
    const auto what = wire::CreateAcknowledgement(builder, 1, batch_seq, 1);
    wire::ControlRequestBuilder message(builder);
    message.add_acknowledgement(what);
    wire::FinishControlRequestBuffer(builder, message.Finish());
    s.sent.say(builder);
  }
  s.run_ms(3000);
  CHECK(s.agent->health().acknowledged_batches == 0);
  CHECK(s.agent->health().control_applied == 0);
}

flatbuffers::FlatBufferBuilder validation(uint64_t comm_uid, const char* meet, uint32_t hold_ms) {
  flatbuffers::FlatBufferBuilder builder;
  const auto what = wire::CreateValidationDirect(builder, comm_uid, meet, hold_ms);
  wire::ControlRequestBuilder message(builder);
  message.add_validation(what);
  wire::FinishControlRequestBuffer(builder, message.Finish());
  return builder;
}

TEST_CASE("a hardware test is begun if the user allowed it and it is acceptable, and refused otherwise") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.sent.say(validation(0x77, "node0:29611", 5000));
  s.run_ms(1000);
  CHECK(s.agent->health().control_refused == 1);

  std::vector<ValidationWish> wishes;
  s.agent->set_validate([&](const ValidationWish& w) { wishes.push_back(w); });
  s.sent.say(validation(0x77, "node0:29611", 5000));
  s.sent.say(validation(0, "node0:29611", 5000));
  s.sent.say(validation(0x77, "", 5000));
  s.sent.say(validation(0x77, std::string(400, 'x').c_str(), 5000));
  s.sent.say(validation(0x77, "node0:29611", 0));
  s.sent.say(validation(0x77, "node0:29611", 3'600'000));
  s.run_ms(3000);
  REQUIRE(wishes.size() == 1);
  CHECK((wishes[0].comm_uid == 0x77 && wishes[0].meet == "node0:29611" && wishes[0].hold_ms == 5000));
  CHECK(s.agent->health().control_refused == 6);
}

TEST_CASE("whoever asks hears when NCCL had nothing to do last") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(100);
  CHECK(s.agent->idle_at_ns() > s.clock.at.monotonic_ns - 50 * ns_per_ms);
  c.frame.launch_operation(1, 1);
  s.run_ms(100);
  CHECK(s.agent->idle_at_ns() == 0);
  c.frame.run_kernel(1, 1, 100, 110);
  s.run_ms(200);
  CHECK(s.agent->idle_at_ns() > s.clock.at.monotonic_ns - 50 * ns_per_ms);
  // And the service hears that the process holds.
  CHECK(!s.sent.all<wire::InFlight>().back()->held());
  s.agent->set_holds([] { return true; });
  s.run_ms(3000);
  CHECK(s.sent.all<wire::InFlight>().back()->held());
}

TEST_CASE("a process that ends early says it too") {
  const Listening listening;
  Scene s;
  Communicator c;
  s.sent.connect(false);
  s.agent->attach(&c.comm);
  s.run_ms(2000);
  CHECK(warnings_said.empty());
  s.agent->close();
  CHECK(warnings_said.size() == 1);
}

TEST_CASE("the connection is looked at with times that do not go back") {
  Scene s;
  Communicator c;
  s.clock.step_ns = ns_per_us;
  s.agent->attach(&c.comm);
  s.run_ms(1000);
  flatbuffers::FlatBufferBuilder builder;
  wire::FinishControlRequestBuffer(
      builder, wire::CreateControlRequestDirect(builder, 9, abi::control_budget_ppm, true, 0, 0, 7000, ""));
  s.sent.say(builder);
  s.run_ms(1000);
  REQUIRE(s.sent.all<wire::ControlState>().size() == 1);  // which was sent between two looks
  CHECK(s.sent.looks_back == 0);
  s.agent->close();
  CHECK(s.sent.all<wire::CommDown>().size() == 1);
  CHECK(s.sent.looks_back == 0);
}

TEST_CASE("a connection on which nothing was to be said yet is no warning") {
  const Listening listening;
  Scene s(Variables{{"NCCL_PROBE_HEARTBEAT_MS", "60000"}});
  s.sent.connect(false);
  s.run_ms(1000);
  s.sent.connect(true);
  s.run_ms(58000);
  CHECK(s.sent.batches.size() == 1);
  CHECK(warnings_said.empty());
  s.run_ms(5000);
  CHECK(warnings_said.empty());
  CHECK(infos_said.size() == 1);
}

TEST_CASE("a connection that takes no batches is a warning that says so") {
  const Listening listening;
  Scene s;
  s.sent.answer = SendResult::full;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(19000);
  CHECK(warnings_said.empty());
  s.run_ms(6000);
  REQUIRE(warnings_said.size() == 1);
  CHECK(warnings_said[0].find("the service at test://x (NCCL_PROBE_ENDPOINT) is connected and takes no batches; ") == 0);
}

TEST_CASE("rounds are batched") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(100);
  for (uint32_t i = 1; i <= 200; ++i) {
    c.round(i);
    s.run_ms(2);
  }
  s.run_ms(200);
  uint64_t expected = 1;
  for (const auto* rounds : s.sent.all<wire::RoundGroups>())
    for (const auto& calls : test::calls_of(*rounds))
      for (const wire::CallRow& r : calls.rows) CHECK(r.number == expected++);
  CHECK(expected == 201);
  CHECK(s.sent.all<wire::RoundGroups>().size() <= 6);
  CHECK(s.sent.all<wire::RoundGroups>().size() >= 4);
}

TEST_CASE("the thread samples every millisecond while something is in flight and backs off when not") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(1000);
  s.ticks = 0;
  s.run_ms(1000);
  CHECK(s.ticks == 50);  // every 20 ms
  c.frame.launch_operation(1, 1);
  c.frame.begin(0, 1, 1, 100);
  s.run_ms(20);  // noticed by now
  s.ticks = 0;
  s.run_ms(500);
  CHECK(s.ticks == 500);
  c.frame.end(0, 1, 200);
  s.run_ms(1);
  s.ticks = 0;
  s.run_ms(1000);
  CHECK(s.ticks < 60);
}

TEST_CASE("the thread rests when nothing has been in flight for long, and is woken by the next operation") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(5000);
  CHECK(s.agent->resting());
  s.ticks = 0;
  s.run_ms(10000);
  CHECK(s.ticks == 10);  // whoever looks at the frame sees that it lives
  c.frame.launch_operation(1, 1);
  CHECK(s.agent->anything_new());
  c.frame.begin_kernel(1, 1, 100);
  s.run_ms(1);
  CHECK_FALSE(s.agent->resting());
  CHECK_FALSE(s.agent->anything_new());
  CHECK(s.agent->health().wakeups == 1);
  s.ticks = 0;
  s.run_ms(100);
  CHECK(s.ticks == 100);
}

// How many snapshots were sent within `ms`.
size_t snapshots(Scene& s, uint64_t ms) {
  const size_t before = s.sent.all<wire::InFlight>().size();
  s.run_ms(ms);
  return s.sent.all<wire::InFlight>().size() - before;
}

TEST_CASE("at rest every second heartbeat is left out") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(5000);
  REQUIRE(s.agent->resting());
  CHECK(snapshots(s, 20000) == 10);
}

TEST_CASE("at rest heartbeats that were asked to be rare stay as they are") {
  Scene s(Variables{{"NCCL_PROBE_HEARTBEAT_MS", "4000"}});
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(8000);
  REQUIRE(s.agent->resting());
  CHECK(snapshots(s, 20000) == 5);
}

TEST_CASE("whatever ends the rest brings the heartbeat back") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(5000);
  REQUIRE(s.agent->resting());
  const size_t before = s.sent.all<wire::InFlight>().size();
  while (s.sent.all<wire::InFlight>().size() == before) s.run_ms(100);  // just after one
  c.frame.launch_operation(1, 1);
  c.frame.begin_kernel(1, 1, 100);
  CHECK(snapshots(s, 1010) >= 1);
}

TEST_CASE("with graphs the thread looks again soon, since nobody may wake it") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  c.frame.capture_operation(1, 1);
  s.run_ms(5000);
  s.ticks = 0;
  s.run_ms(10000);
  CHECK(s.ticks >= 200);
  CHECK(s.ticks <= 212);
}

TEST_CASE("point-to-point calls are sent, also those of a communicator that ends") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(100);
  c.frame.launch_p2p(c.frame.enter_p2p(Direction::send, 4), 1);
  c.frame.run_kernel(1, 1, 10, 20);
  s.run_ms(200);
  REQUIRE(s.sent.all<wire::P2pGroups>().size() == 1);
  CHECK(test::calls_of(*s.sent.all<wire::P2pGroups>()[0])[0].kinds[0].peer() == 4);
  c.frame.launch_p2p(c.frame.enter_p2p(Direction::recv, 5), 2);
  c.frame.run_kernel(1, 2, 30, 40);
  s.agent->detach(&c.comm, abi::CommState::destroyed);
  s.run_ms(50);
  REQUIRE(s.sent.all<wire::P2pGroups>().size() == 2);
  CHECK(test::calls_of(*s.sent.all<wire::P2pGroups>()[1])[0].rows[0].end_device_ns == 40);
}

TEST_CASE("an abort that only NCCL knows of is seen with the next heartbeat") {
  Scene s;
  Communicator c;
  static abi::CommState state;
  state = abi::CommState::ready;
  c.comm.identity.current_state = [](const void*) { return state; };
  s.agent->attach(&c.comm);
  s.run_ms(1500);
  CHECK(s.sent.all<wire::InFlight>().back()->state() == static_cast<uint32_t>(abi::CommState::ready));
  state = abi::CommState::aborted;
  s.run_ms(2000);
  CHECK(s.sent.all<wire::InFlight>().back()->state() == static_cast<uint32_t>(abi::CommState::aborted));
}

// The process file and the other sources, in the hands of the test.
struct Board final : ProcessBoard, ProcessSource {
  void set_metric(abi::MetricId id, uint64_t value) override { words[id] = value; }
  uint64_t metric(abi::MetricId id) const override { return words.count(id) != 0 ? words.at(id) : 0; }
  bool read_control(uint64_t seen_sequence, ControlWish* out) const override {
    if (wish.sequence == seen_sequence) return false;
    *out = wish;
    return true;
  }
  void show_control(const ControlInForce& state) override { shown = state; }
  void collect(Instant, std::vector<Message>* out) override { out->emplace_back(CommInitMessage{++collected}); }

  std::map<abi::MetricId, uint64_t> words;
  ControlWish wish;
  ControlInForce shown;
  uint64_t collected = 0;
};

TEST_CASE("own counters are shown in the process file and sent, with those that others count there") {
  Scene s;
  Communicator c;
  Board board;
  board.words[abi::MetricId::net_records_dropped] = 3;
  s.agent->set_board(&board);
  s.agent->add_source(&board);
  s.agent->attach(&c.comm);
  c.round(1);
  s.run_ms(2500);
  CHECK(board.words[abi::MetricId::agent_samples] > 10);
  CHECK(board.words[abi::MetricId::agent_reported_rounds] == 1);
  CHECK(board.words[abi::MetricId::agent_period_us] == 1000);
  CHECK(board.shown.running);
  std::map<uint16_t, int64_t> sent;
  for (const wire::MetricRow& m : test::metrics_of(*s.sent.all<wire::Metrics>().back())) sent[m.id] = m.value;
  CHECK(sent[static_cast<uint16_t>(abi::MetricId::net_records_dropped)] == 3);
  CHECK(sent[static_cast<uint16_t>(abi::MetricId::agent_reported_rounds)] == 1);
  CHECK(s.sent.all<wire::CommInit>().size() == 3);
}

TEST_CASE("an operator stops the probe and lets it go on: nothing is in flight that was not seen") {
  Scene s;
  Communicator c;
  Board board;
  s.agent->set_board(&board);
  s.agent->attach(&c.comm);
  c.round(1);
  s.run_ms(1000);
  board.wish.sequence = 2;
  board.wish.fields = abi::control_running;
  board.wish.running = false;
  s.run_ms(1500);
  CHECK_FALSE(recording());
  CHECK_FALSE(board.shown.running);
  CHECK(board.shown.applied_sequence == 2);
  c.frame.header().api.entered_op_seq += 50;
  c.frame.header().api.unseen_while_stopped += 50;
  s.run_ms(3000);
  const auto stopped = s.sent.all<wire::InFlight>();
  CHECK(stopped.back()->stopped());
  CHECK(stopped.back()->entered_op_seq() == 51);
  CHECK(stopped.back()->operations_total() == 0);
  board.wish.sequence = 4;
  board.wish.running = true;
  s.run_ms(2500);
  CHECK(recording());
  const auto reports = s.sent.all<wire::InFlight>();
  CHECK_FALSE(reports.back()->stopped());
  CHECK(reports.back()->operations_total() == 0);
  CHECK(reports.back()->completed_op_seq() == 51);
  CHECK(s.sent.all<wire::ControlState>().size() == 2);
  CHECK(s.agent->health().unseen_operations == 50);
  CHECK(s.agent->health().lapped_rounds == 0);
}

TEST_CASE("the service asks over the connection, and is told what was refused") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(1000);
  flatbuffers::FlatBufferBuilder builder;
  wire::FinishControlRequestBuffer(
      builder, wire::CreateControlRequestDirect(builder, 9, abi::control_sample_us | abi::control_budget_ppm, true, 5, 0,
                                                7000, ""));
  s.sent.say(builder);
  s.sent.requests.push_back({1, 2, 3});
  s.run_ms(500);
  REQUIRE(s.sent.all<wire::ControlState>().size() == 1);
  const auto* state = s.sent.all<wire::ControlState>()[0];
  CHECK(state->sequence() == 9);
  CHECK(state->refused_fields() == abi::control_sample_us);
  CHECK(state->sample_us() == 1000);
  CHECK(state->budget_ppm() == 7000);
  CHECK(s.agent->health().control_refused == 2);
}

TEST_CASE("another endpoint is opened, or refused, and told of every communicator") {
  Scene s;
  Communicator c;
  Board board;
  test::Sent elsewhere;
  elsewhere.session = 2;
  s.agent->set_board(&board);
  s.agent->set_open_transport([&](const std::string& endpoint) -> std::unique_ptr<Transport> {
    if (endpoint != "test://y") return nullptr;
    return std::make_unique<test::RecordingTransport>(&elsewhere);
  });
  s.agent->attach(&c.comm);
  s.run_ms(1000);
  board.wish.sequence = 2;
  board.wish.fields = abi::control_endpoint;
  board.wish.endpoint = "test://unusable";
  s.run_ms(500);
  CHECK(board.shown.refused_fields == abi::control_endpoint);
  CHECK(board.shown.endpoint == "test://x");
  board.wish.sequence = 4;
  board.wish.endpoint = "test://y";
  s.run_ms(1500);
  CHECK(board.shown.endpoint == "test://y");
  CHECK(elsewhere.all<wire::CommUp>().size() == 1);
  const size_t before = s.sent.batches.size();
  board.wish.sequence = 6;
  board.wish.endpoint = "";  // send nothing
  s.run_ms(1500);
  const size_t there = elsewhere.batches.size();
  s.run_ms(3000);
  CHECK(s.sent.batches.size() == before);
  CHECK(elsewhere.batches.size() == there);
}

TEST_CASE("a service that does not answer is left for the next endpoint, which is told of everything") {
  const Listening listening;
  Scene s(Variables{{"NCCL_PROBE_ENDPOINT", "tcp://a:1,tcp://b:1"}});
  Communicator c;
  Board board;
  s.sent.endpoints = 2;
  s.agent->set_board(&board);
  s.agent->attach(&c.comm);
  SECTION("at rest") { s.run_ms(20000); }
  SECTION("while something is in flight") {
    s.run_ms(2000);
    c.frame.launch_operation(1, 1);
    c.frame.begin_kernel(1, 1, 100);
    s.run_ms(20000);
  }
  CHECK(board.shown.endpoint == "tcp://a:1");
  CHECK(s.agent->health().unconfirmed_batches <= 40);
  s.sent.answers = false;  // it is stopped
  const uint64_t stopped_ns = s.clock.at.monotonic_ns;
  while (s.sent.unanswered == 0 && s.clock.at.monotonic_ns < stopped_ns + 60 * ns_per_s) s.run_ms(100);
  CHECK(s.clock.at.monotonic_ns - stopped_ns <= 10 * ns_per_s);
  const size_t before = s.sent.all<wire::CommUp>().size();
  const size_t reports = s.sent.all<wire::InFlight>().size();
  s.sent.move(true);
  s.sent.answers = true;
  s.run_ms(2000);
  CHECK(s.sent.all<wire::CommUp>().size() == before + 1);
  CHECK(s.sent.all<wire::InFlight>().size() > reports);
  s.run_ms(4000);
  CHECK(board.shown.endpoint == "tcp://b:1");
  CHECK(warnings_said.empty());
  REQUIRE(infos_said.size() == 2);
  CHECK(infos_said[0] == "the service at tcp://a:1 is there");
  CHECK(infos_said[1].find(
            "the service at tcp://b:1 is used instead of the one at tcp://a:1; meanwhile 0 batches were not "
            "delivered, and of ") == 0);
}

TEST_CASE("what waits for an endpoint is given up when it is left, and counted") {
  const Listening listening;
  Scene s(Variables{{"NCCL_PROBE_ENDPOINT", "tcp://a:1,tcp://b:1,tcp://c:1"}});
  Communicator c;
  s.sent.endpoints = 3;
  s.agent->attach(&c.comm);
  s.run_ms(10000);
  infos_said.clear();
  s.sent.connect(false);
  s.run_ms(2000);
  const uint64_t waiting = s.agent->health().waiting_batches;
  CHECK(waiting >= 1);
  s.sent.move(false);
  s.run_ms(1);
  s.run_ms(1000);
  CHECK(s.agent->health().dropped_batches == waiting);
  // None of them is there: one warning, after 5 s and 2 s for each.
  for (int i = 0; i < 3; ++i) {
    CHECK(warnings_said.empty());
    s.run_ms(2000);
    s.sent.move(false);
  }
  s.run_ms(30000);
  REQUIRE(warnings_said.size() == 1);
  CHECK(warnings_said[0] ==
        "the service at tcp://b:1 (one of 3 of NCCL_PROBE_ENDPOINT) cannot be reached: nothing listens there, or there "
        "is no "
        "route; the others are tried in turn, and what waits is dropped and counted each time");
  s.sent.move(true);
  s.run_ms(5000);
  REQUIRE(warnings_said.size() == 2);
  CHECK(warnings_said[1].find("the service at tcp://c:1 is there; meanwhile ") == 0);
  CHECK(infos_said.empty());
}

TEST_CASE("an operator may name several endpoints, and one in place of several") {
  Scene s;
  Communicator c;
  Board board;
  test::Sent elsewhere;
  elsewhere.session = 2;
  elsewhere.endpoints = 2;
  elsewhere.endpoint = 1;
  std::vector<std::string> opened;
  s.agent->set_board(&board);
  s.agent->set_open_transport([&](const std::string& endpoint) {
    opened.push_back(endpoint);
    return std::make_unique<test::RecordingTransport>(&elsewhere);
  });
  s.agent->attach(&c.comm);
  s.run_ms(1000);
  board.wish.sequence = 2;
  board.wish.fields = abi::control_endpoint;
  board.wish.endpoint = "tcp://y:1,tcp://z:1";
  s.run_ms(300);
  CHECK(board.shown.endpoint == "tcp://z:1");
  CHECK(board.shown.applied_sequence == 2);
  CHECK(elsewhere.all<wire::CommUp>().size() == 1);
  elsewhere.endpoints = 1;
  elsewhere.endpoint = 0;
  board.wish.sequence = 4;
  board.wish.endpoint = "tcp://x:1";
  s.run_ms(300);
  CHECK(board.shown.endpoint == "tcp://x:1");
  CHECK(opened == std::vector<std::string>{"tcp://y:1,tcp://z:1", "tcp://x:1"});
}

TEST_CASE("a stuck communicator is late: it reports ten times a second, and is sampled less often") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(100);
  c.frame.launch_operation(1, 1);
  c.frame.begin(0, 1, 1, 100);
  s.run_ms(800);
  const size_t before = s.sent.all<wire::InFlight>().size();
  CHECK(before == 1);
  s.run_ms(2200);
  const auto reports = s.sent.all<wire::InFlight>();
  CHECK(reports.size() - before >= 18);
  CHECK(reports.size() - before <= 22);
  CHECK(reports.back()->late());
  CHECK(reports.back()->moved_age_ms() > 1900);
  REQUIRE(reports.back()->operations()->size() == 1);
  CHECK(reports.back()->operations()->Get(0)->begun());
  s.ticks = 0;
  s.run_ms(1000);
  CHECK(s.ticks == 100);
}

TEST_CASE("readers of the frame see that the agent lives and how far it is") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  c.round(1);
  s.run_ms(100);
  const abi::AgentLine& line = c.frame.header().agent;
  CHECK(line.completed_op_seq == 1);
  CHECK(line.samples > 3);
  CHECK(s.clock.at.monotonic_ns - line.heartbeat_monotonic_ns <= 20 * ns_per_ms);
}

TEST_CASE("without an endpoint the frames are served and nothing else") {
  Scene s(Variables{{"NCCL_PROBE_ENDPOINT", ""}});
  Communicator c;
  s.agent->attach(&c.comm);
  c.round(1);
  s.run_ms(5000);
  CHECK(c.frame.header().agent.completed_op_seq == 1);
  CHECK(s.ticks > 150);  // every 20 ms, until it rests
  CHECK(s.ticks < 160);
  CHECK(s.agent->health().dropped_batches == 0);
  CHECK(s.agent->health().dropped_rounds == 0);
}

TEST_CASE("late wake-ups are counted") {
  Scene s;
  Communicator c;
  s.agent->attach(&c.comm);
  s.run_ms(500);
  CHECK(s.agent->health().late_samples == 0);
  s.clock.advance_ms(500);  // the machine did not let it run
  s.agent->tick();
  CHECK(s.agent->health().late_samples == 1);
}

TEST_CASE("a large amount of news is split into several batches") {
  Scene s;
  Communicator c;
  std::vector<std::unique_ptr<Communicator>> many;
  for (uint64_t i = 0; i < 300; ++i) {
    many.push_back(std::make_unique<Communicator>(i + 1));
    for (int n = 0; n < 64; ++n) many.back()->comm.identity.channels.push_back({n, 1, 2, 3, {4, 5, 6}, 7});
    s.agent->attach(&many.back()->comm);
  }
  s.run_ms(10);
  CHECK(s.sent.batches.size() > 3);
  for (const auto& batch : s.sent.batches) CHECK(batch.size() < batch_bytes_max + 65536);
  CHECK(s.sent.all<wire::CommUp>().size() == 300);
}

TEST_CASE("the end of the process says what is left, and leaves no frame behind") {
  Scene s;
  CommSetup setup{0, 2, 0, 2, 22907};
  std::string error;
  Comm* comm = frame_create({s.folder, "job-a"}, setup, &error);
  REQUIRE(comm != nullptr);
  CommIdentity identity{};
  identity.comm_uid = 5;
  identity.host = "node0";
  comm->identity = identity;
  frame_publish_identity(*comm, identity);
  s.agent->attach(comm);
  s.run_ms(100);
  CHECK(fs::exists(comm->path));
  s.agent->close();
  CHECK_FALSE(fs::exists(comm->path));
  REQUIRE(s.sent.all<wire::CommDown>().size() == 1);
  CHECK(s.sent.all<wire::CommDown>()[0]->state() ==
        static_cast<uint32_t>(abi::CommState::ready));  // it was never ended
  comm_release(comm);
}

TEST_CASE("a communicator whose file is truncated goes on counting, and says no more than that it is there") {
  Scene s;
  std::string error;
  CommSetup setup{};
  setup.rank = 3, setup.rank_count = 8, setup.channel_count = 2;
  Comm* comm = frame_create({s.folder, "job-a"}, setup, &error);
  REQUIRE(comm != nullptr);
  comm->identity.comm_uid = 0x77;
  frame_set_state(*comm, abi::CommState::ready);
  s.agent->attach(comm);
  comm->header->api.entered_op_seq = 9;
  s.run_ms(1500);
  CHECK_FALSE(s.sent.all<wire::InFlight>().back()->stopped());
  REQUIRE(chmod(comm->path.c_str(), 0600) == 0);
  REQUIRE(truncate(comm->path.c_str(), 0) == 0);
  comm->header->api.entered_op_seq = 10;  // as the training path does with its next call
  s.run_ms(2500);
  const auto* last = s.sent.all<wire::InFlight>().back();
  CHECK(last->stopped());
  CHECK(last->entered_op_seq() == 10);
  CHECK(last->operations_total() == 0);
  s.agent->detach(comm, abi::CommState::destroyed);
  frame_unlink(*comm);
  comm_release(comm);
}

}  // namespace
}  // namespace ccld::probe
