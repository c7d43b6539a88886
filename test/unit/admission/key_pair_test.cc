#include "decision/admission/key_pair.h"

#include <catch2/catch.hpp>

#include "schemas/keys/curve_key.h"

namespace ccld::decision::admission {

TEST_CASE("A pair belongs together, and its public key needs no quotes anywhere") {
  const auto pair = make_key_pair(), other = make_key_pair();
  REQUIRE(pair.ok());
  REQUIRE(other.ok());
  CHECK(keys::is_key(pair->open));
  CHECK(keys::is_key(pair->secret));
  CHECK(*public_key_of(pair->secret) == pair->open);
  CHECK(pair->secret != other->secret);
  CHECK(pair->open.find_first_of("#$&!*?()[]{}<>'\"\\ ") == std::string::npos);
  CHECK(std::isalnum(static_cast<unsigned char>(pair->open[0])));
}

TEST_CASE("What is no secret key has no public one") { CHECK_FALSE(public_key_of("too short").ok()); }

}  // namespace ccld::decision::admission
