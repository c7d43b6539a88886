#include "decision/webhook/queue.h"

#include <catch2/catch.hpp>

namespace ccld::decision::webhook {
namespace {

constexpr int64_t day_ms = 24 * 3600 * 1000;

Delivery delivery(uint64_t incident, uint64_t revision) {
  Delivery d;
  d.id = std::to_string(incident) + "-" + std::to_string(revision);
  d.incident = incident;
  d.revision = revision;
  return d;
}

std::string id(const std::optional<Delivery>& d) { return d.has_value() ? d->id : "none"; }

DeliveryQueue queue(size_t max = 1000) {
  QueueLimits limits;
  limits.deliveries_max = max;
  return DeliveryQueue(limits, [] { return 1.0; });
}

}  // namespace

TEST_CASE("Deliveries of an incident go in order, and one that fails holds up its own incident only") {
  DeliveryQueue q = queue();
  for (const auto& [incident, revision] : {std::pair<uint64_t, uint64_t>{1, 1}, {1, 2}, {2, 1}}) q.put(delivery(incident, revision));
  CHECK(id(q.take(0, 0)) == "1-1");
  q.done(Outcome::failed, 0);
  CHECK(id(q.take(0, 0)) == "2-1");
  q.done(Outcome::delivered, 0);
  CHECK(id(q.take(0, 0)) == "none");
  CHECK(q.due_ns() == ns_per_s);
  CHECK(id(q.take(ns_per_s, 0)) == "1-1");
  q.done(Outcome::delivered, ns_per_s);
  CHECK(id(q.take(ns_per_s, 0)) == "1-2");
  q.done(Outcome::refused, ns_per_s);
  CHECK_FALSE(q.due_ns().has_value());
  CHECK(q.counters().delivered == 2);
  CHECK(q.counters().refused == 1);
  CHECK(q.counters().failed_attempts == 2);
  CHECK(q.counters().queue_length == 0);
}

TEST_CASE("The time to the next attempt doubles up to a bound, less a part by chance, or is what the receiver asks for") {
  DeliveryQueue q = queue();
  q.put(delivery(1, 1));
  for (const int64_t seconds : {1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}) {
    REQUIRE(q.take(*q.due_ns(), 0).has_value());
    q.done(Outcome::failed, 0);
    CHECK(q.due_ns() == seconds * ns_per_s);
  }
  REQUIRE(q.take(*q.due_ns(), 0).has_value());
  q.done(Outcome::failed, 0, 3600 * ns_per_s);
  CHECK(q.due_ns() == 300 * ns_per_s);  // nobody may ask for silence
  DeliveryQueue half(QueueLimits(), [] { return 0.0; });
  half.put(delivery(1, 1));
  REQUIRE(half.take(0, 0).has_value());
  half.done(Outcome::failed, 0);
  CHECK(half.due_ns() == ns_per_s / 2);
  REQUIRE(half.take(ns_per_s, 0).has_value());
  half.done(Outcome::failed, 0, 20 * ns_per_s);
  CHECK(half.due_ns() == 20 * ns_per_s);
}

TEST_CASE("What could not be delivered for a day is given up") {
  DeliveryQueue q = queue();
  q.put(delivery(1, 1));
  REQUIRE(q.take(0, day_ms).has_value());
  q.done(Outcome::failed, 0);
  CHECK(id(q.take(10 * ns_per_s, day_ms + 1)) == "none");
  CHECK(q.counters().given_up == 1);
  CHECK(q.counters().queue_length == 0);
}

TEST_CASE("Without room an older revision gives way to a newer one, else the oldest delivery goes; both are counted") {
  DeliveryQueue q = queue(3);
  q.put(delivery(1, 1));
  REQUIRE(id(q.take(0, 0)) == "1-1");  // being sent: it stays
  q.put(delivery(2, 1));
  q.put(delivery(1, 2));
  q.put(delivery(1, 3));  // instead of 1-2
  CHECK(q.counters().replaced == 1);
  q.put(delivery(3, 1));  // instead of the oldest
  CHECK(q.counters().dropped == 1);
  CHECK(q.counters().queue_length == 3);
  q.done(Outcome::delivered, 0);
  CHECK(id(q.take(0, 0)) == "1-3");
  q.done(Outcome::delivered, 0);
  CHECK(id(q.take(0, 0)) == "3-1");
}

TEST_CASE("What is held waits as long as it takes, and is not told if its incident closes meanwhile") {
  bool held = true;
  DeliveryQueue q(QueueLimits(), [] { return 1.0; }, [&](const Delivery& d, int64_t) { return held && d.incident < 3; });
  q.put(delivery(1, 1));
  q.put(delivery(2, 1));
  q.put(delivery(3, 1));
  CHECK(id(q.take(0, 0)) == "3-1");
  q.done(Outcome::delivered, 0);
  CHECK(id(q.take(0, 0)) == "none");
  CHECK(q.due_ns() == ns_per_s);
  Delivery closed = delivery(2, 2);
  closed.event = Event::closed;
  q.put(closed);
  CHECK(id(q.take(ns_per_s, 3 * day_ms)) == "none");
  REQUIRE(q.take_silenced().size() == 1);
  CHECK(q.take_silenced().empty());
  CHECK(q.counters().silenced == 2);
  held = false;
  CHECK(id(q.take(2 * ns_per_s, 3 * day_ms)) == "1-1");  // not given up: it was kept back
  CHECK(q.counters().given_up == 0);
}

}  // namespace ccld::decision::webhook
