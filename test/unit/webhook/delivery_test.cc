#include "decision/webhook/delivery.h"

#include <catch2/catch.hpp>

namespace ccld::decision::webhook {
namespace {

using report::Json;

Json verdict(const char* state, bool was_confirmed) {
  return {{"time", "2026-01-31T12:00:00.000Z"}, {"incident", 17}, {"run", "r1"}, {"revision", 3}, {"state", state},
          {"confirmed_ms", was_confirmed ? Json(5) : Json(nullptr)}, {"acknowledged", nullptr}};
}

}  // namespace

TEST_CASE("The body is the incident's document with event, number of the delivery and run") {
  const Delivery d = revision_delivery(verdict("confirmed", true), "r2");
  const Json body = Json::parse(d.body);
  CHECK(body["event"] == "incident.revised");
  CHECK(body["delivery"] == "r1-17-3");  // of the run that gave the number: the same after a restart
  CHECK(body["run"] == "r2");
  CHECK(body["incident"] == verdict("confirmed", true));
  CHECK(d.made_ms == 1'769'860'800'000);
  CHECK(Json::parse(revision_delivery(verdict("resolved", true), "r2").body)["event"] == "incident.closed");
  CHECK(Json::parse(revision_delivery(verdict("ended", true), "r2").body)["event"] == "incident.closed");
  const Delivery ack = acknowledgement_delivery(verdict("confirmed", true), "r2", false, 7);
  CHECK(ack.id == "r1-17-3-ack-7");
  CHECK(Json::parse(ack.body)["event"] == "incident.acknowledged");
}

TEST_CASE("Who wants confirmed incidents only is told of their end too, and never of one that was not confirmed") {
  CHECK(is_told(verdict("suspected", false), MinState::suspected));
  CHECK_FALSE(is_told(verdict("suspected", false), MinState::confirmed));
  CHECK_FALSE(is_told(verdict("resolved", false), MinState::confirmed));
  CHECK(is_told(verdict("confirmed", true), MinState::confirmed));
  CHECK(is_told(verdict("resolved", true), MinState::confirmed));
}

}  // namespace ccld::decision::webhook
