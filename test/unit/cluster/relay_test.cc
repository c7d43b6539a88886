// Telemetry and answers between nodes.
#include "decision/cluster/relay.h"

#include <catch2/catch.hpp>

#include "test/unit/cluster/shared_bus.h"

namespace ccld::decision::cluster {
namespace {

void flush(Relay& relay) { REQUIRE(relay.flush(absl::Seconds(10))); }

// A server that takes nothing until it is let go.
class HeldBus final : public Bus {
 public:
  explicit HeldBus(Shared& shared) : bus_(shared) { gate_.lock(); }
  void let_go() { gate_.unlock(); }
  bool connected() const override { return true; }
  void mend() override {}
  absl::Status send(const std::string& subject, absl::Span<const uint8_t> bytes) override {
    const std::lock_guard held(gate_);
    return bus_.send(subject, bytes);
  }
  absl::Status listen(const std::string& subject, Handler handler) override {
    return bus_.listen(subject, std::move(handler));
  }
  void close() override { bus_.close(); }
  absl::StatusOr<std::optional<Lease>> lease() override { return bus_.lease(); }
  absl::StatusOr<uint64_t> take_lease(const std::string& holder) override { return bus_.take_lease(holder); }
  absl::StatusOr<uint64_t> renew_lease(const std::string& holder, uint64_t of) override {
    return bus_.renew_lease(holder, of);
  }
  absl::Status give_lease_back(uint64_t of) override { return bus_.give_lease_back(of); }
  absl::StatusOr<Range> log() override { return bus_.log(); }
  absl::StatusOr<std::string> read(uint64_t number) override { return bus_.read(number); }
  absl::StatusOr<uint64_t> append(const std::string& entry, uint64_t after) override {
    return bus_.append(entry, after);
  }

 private:
  SharedBus bus_;
  std::mutex gate_;
};

}  // namespace

TEST_CASE("What a probe sends to one node all have; an answer to it goes over that node") {
  Shared shared;
  SharedBus bus_a(shared), bus_b(shared), bus_c(shared);
  Relay a(bus_a, "a"), b(bus_b, "b"), c(bus_c, "c");
  for (Relay* r : {&a, &b, &c}) REQUIRE(r->start().ok());
  const std::string connection("\0\1/2\xff", 5);
  a.send(connection, std::vector<uint8_t>{7, 8, 9}, Priority::detail);
  flush(a);
  CHECK(a.take_all().telemetry.empty());
  const auto at_b = b.take_all().telemetry;
  REQUIRE(at_b.size() == 1);
  CHECK(at_b[0].bytes == std::vector<uint8_t>{7, 8, 9});
  CHECK(Relay::is_relayed(at_b[0].connection));
  CHECK_FALSE(Relay::is_relayed(connection));

  CHECK(b.answer(at_b[0].connection, std::vector<uint8_t>{1}));
  flush(b);
  CHECK(c.take_all().answers.empty());
  const auto at_a = a.take_all().answers;
  REQUIRE(at_a.size() == 1);
  CHECK(at_a[0].connection == connection);
  CHECK(at_a[0].bytes == std::vector<uint8_t>{1});
  CHECK_FALSE(b.answer("@nobody", {}));

  bus_a.cut = true;
  a.send(connection, std::vector<uint8_t>{1}, Priority::evidence);
  CHECK(a.sent() == 1);
  CHECK(a.not_sent() == 1);
  CHECK_FALSE(a.answer("@b/x", {}));
  a.send(std::string(200, 'x'), {}, Priority::evidence);  // no connection of a probe is called so
  CHECK(a.not_sent() == 3);
}

TEST_CASE("What nobody takes is bounded and counted, and what is no message of a node is left out") {
  Shared shared;
  SharedBus bus_a(shared), bus_b(shared);
  Relay a(bus_a, "a"), b(bus_b, "b");
  for (Relay* r : {&a, &b}) REQUIRE(r->start().ok());
  const std::vector<uint8_t> large(Relay::waiting_bytes_max / 8 - 16);  // what is sent has some bytes more
  const auto send = [&](Priority priority) {
    a.send("x", large, priority);
    flush(a);
  };
  for (int i = 0; i < 5; ++i) send(Priority::detail);
  CHECK(b.received() == 4);
  CHECK(b.dropped() == 1);
  // Where operations stand has the other half of the room.
  for (int i = 0; i < 5; ++i) send(Priority::evidence);
  CHECK(b.received() == 8);
  CHECK(b.dropped() == 2);
  CHECK(b.take_all().telemetry.size() == 8);
  send(Priority::detail);
  CHECK(b.received() == 9);
  for (const std::vector<uint8_t>& bytes : {std::vector<uint8_t>{}, std::vector<uint8_t>{100, 1}})
    REQUIRE(bus_a.send("telemetry.a", bytes).ok());
  CHECK(b.received() == 9);
}

TEST_CASE("A server that takes nothing holds up nobody, and detail is given up before evidence") {
  Shared shared;
  HeldBus bus_a(shared);
  SharedBus bus_b(shared);
  Relay a(bus_a, "a"), b(bus_b, "b");
  for (Relay* r : {&a, &b}) REQUIRE(r->start().ok());
  const std::vector<uint8_t> large(Outbox::bytes_max / 4 - 16);
  for (int i = 0; i < 3; ++i) a.send("x", large, Priority::detail);
  CHECK(a.not_sent() == 1);
  for (int i = 0; i < 3; ++i) a.send("x", large, Priority::evidence);
  CHECK(a.not_sent() == 2);
  CHECK_FALSE(a.flush(absl::ZeroDuration()));
  CHECK(a.sent() == 0);
  bus_a.let_go();
  flush(a);
  CHECK(a.sent() == 4);
  CHECK(b.take_all().telemetry.size() == 4);
}

TEST_CASE("Rounds that have ended are detail; where operations stand, and who speaks, is evidence") {
  Batch batch;
  batch.payloads = {Rounds(), P2pRounds(), Metrics(), NetQueues()};
  CHECK(priority_of(batch) == Priority::detail);
  for (const Payload& p : {Payload(InFlight()), Payload(CommUp()), Payload(CommDown()), Payload(AgentHealth())}) {
    Batch more = batch;
    more.payloads.push_back(p);
    CHECK(priority_of(more) == Priority::evidence);
  }
}

}  // namespace ccld::decision::cluster
