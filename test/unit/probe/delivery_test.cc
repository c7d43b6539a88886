#include "probe/agent/delivery.h"

#include <catch2/catch.hpp>

namespace ccld::probe {
namespace {

TEST_CASE("what the service says that has come is acknowledged, what was sent after it is unconfirmed") {
  DeliveryLedger l;
  l.asked(1);
  CHECK(l.unconfirmed(1, 0) == 1);
  REQUIRE(l.answered({7, 1, 1}));
  CHECK(l.acknowledged() == 1);
  l.asked(10);
  REQUIRE(l.answered({7, 10, 10}));
  CHECK(l.acknowledged() == 10);
  CHECK(l.undelivered() == 0);
  CHECK(l.unconfirmed(13, 1) == 2);  // one waits
}

TEST_CASE("what the transport refused is undelivered at once, and not taken for lost later") {
  DeliveryLedger l;
  l.asked(1);
  REQUIRE(l.answered({7, 1, 1}));
  l.refused(3);
  CHECK(l.undelivered() == 3);
  l.asked(10);
  REQUIRE(l.answered({7, 10, 7}));
  l.asked(11);
  REQUIRE(l.answered({7, 11, 8}));
  CHECK(l.undelivered() == 3);
  CHECK(l.unconfirmed(11, 0) == 0);
}

TEST_CASE("what is missing between later batches is lost if it is still missing one answer later") {
  DeliveryLedger l;
  l.asked(10);
  REQUIRE(l.answered({7, 10, 10}));
  l.asked(20);
  REQUIRE(l.answered({7, 20, 15}));  // 5 are missing
  CHECK(l.undelivered() == 0);
  CHECK(l.unconfirmed(20, 0) == 5);
  l.asked(30);
  REQUIRE(l.answered({7, 30, 27}));  // 2 of them came late
  CHECK(l.undelivered() == 3);
  CHECK(l.acknowledged() == 27);
  CHECK(l.unconfirmed(30, 0) == 0);
}

TEST_CASE("what a service did not acknowledge before it ended stays unconfirmed") {
  DeliveryLedger l;
  l.asked(10);
  REQUIRE(l.answered({7, 10, 10}));
  l.asked(20);  // never answered
  l.refused(4);
  l.asked(30);
  REQUIRE(l.answered({8, 30, 9}));
  CHECK(l.acknowledged() == 19);
  CHECK(l.undelivered() == 4);
  CHECK(l.unconfirmed_when_answered() == 7);
  CHECK(l.unconfirmed(30, 0) == 7);
  l.asked(40);
  REQUIRE(l.answered({8, 40, 19}));
  CHECK(l.undelivered() == 4);
  CHECK(l.unconfirmed_when_answered() == 7);
}

TEST_CASE("a service that is left and come back to counts on, and what went elsewhere is not lost there") {
  DeliveryLedger l;
  l.asked(10);
  REQUIRE(l.answered({7, 10, 10}));
  l.asked(20);
  REQUIRE(l.answered({8, 20, 10}));
  l.asked(30);
  REQUIRE(l.answered({7, 30, 20}));
  CHECK(l.acknowledged() == 30);
  CHECK(l.undelivered() == 0);
  CHECK(l.unconfirmed(30, 0) == 0);
}

TEST_CASE("a service that has not heard of all that was sent before it is a newcomer") {
  DeliveryLedger l;
  l.asked(1);
  REQUIRE(l.answered({7, 1, 1}));
  CHECK(l.newcomer_lacks() == 0);  // it has heard of everything
  l.asked(10);
  REQUIRE(l.answered({8, 10, 2}));
  CHECK(l.newcomer_lacks() == 8);
  l.asked(20);
  REQUIRE(l.answered({8, 20, 12}));
  CHECK(l.newcomer_lacks() == 0);
  l.asked(30);
  REQUIRE(l.answered({7, 30, 11}));  // it was left, and is used again
  CHECK(l.newcomer_lacks() == 19);
}

TEST_CASE("a service that comes after the first batches were given up is a newcomer") {
  DeliveryLedger l;
  l.refused(5);
  l.asked(9);
  REQUIRE(l.answered({7, 9, 4}));
  CHECK(l.newcomer_lacks() == 5);
}

TEST_CASE("each of eight services that are used in turn counts on") {
  DeliveryLedger l;
  uint64_t newest = 0;
  for (uint64_t round = 1; round <= 3; ++round)
    for (uint64_t session = 1; session <= endpoints_max; ++session) {
      newest += 10;
      l.asked(newest);
      REQUIRE(l.answered({session, newest, 10 * round}));
    }
  CHECK(l.acknowledged() == newest);
  CHECK(l.undelivered() == 0);
}

TEST_CASE("an answer that cannot be changes nothing") {
  DeliveryLedger l;
  CHECK_FALSE(l.answered({7, 0, 0}));
  CHECK_FALSE(l.answered({7, 1, 1}));  // nobody asked
  l.asked(10);
  CHECK_FALSE(l.answered({7, 10, 11}));  // more than there were
  CHECK_FALSE(l.answered({7, 10, 0}));   // that batch itself has come
  REQUIRE(l.answered({7, 10, 10}));
  CHECK_FALSE(l.answered({7, 10, 10}));  // again
  l.asked(20);
  CHECK_FALSE(l.answered({7, 20, 9}));   // fewer than before
  CHECK_FALSE(l.answered({8, 20, 11}));  // with those of the other service, more than there were
  CHECK(l.acknowledged() == 10);
}

TEST_CASE("a question that is repeated may be answered twice, the oldest are forgotten") {
  DeliveryLedger l;
  for (uint64_t seq = 1; seq <= 6; ++seq) l.asked(seq);
  CHECK_FALSE(l.answered({7, 2, 2}));
  CHECK(l.answered({7, 3, 3}));
  CHECK(l.answered({7, 6, 6}));
}

}  // namespace
}  // namespace ccld::probe
