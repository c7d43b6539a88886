#include "decision/server/host_port.h"

#include <catch2/catch.hpp>

using namespace ccld::decision::server;

TEST_CASE("Addresses are read with and without scheme, and for IPv6 with brackets") {
  CHECK(parse_host_port("127.0.0.1:5580")->text() == "127.0.0.1:5580");
  CHECK(parse_host_port("http://node7:80/")->text() == "node7:80");
  CHECK(parse_host_port("[::1]:0")->host == "::1");
  CHECK(parse_host_port("[::1]:0")->text() == "[::1]:0");
}

TEST_CASE("Addresses that cannot be are refused with the text and the reason") {
  for (const char* text : {"", "host", ":80", "host:", "host:x", "host:70000", "host:-1", "::1:80", "[::1:80", "https://h:1", "a/b:1"}) {
    const auto address = parse_host_port(text);
    REQUIRE_FALSE(address.ok());
    CHECK(std::string(address.status().message()).find(text) != std::string::npos);
  }
}

TEST_CASE("Loopback is told from the rest") {
  CHECK(parse_host_port("127.0.0.2:1")->is_loopback());
  CHECK(parse_host_port("localhost:1")->is_loopback());
  CHECK(parse_host_port("[::1]:1")->is_loopback());
  CHECK_FALSE(parse_host_port("0.0.0.0:1")->is_loopback());
  CHECK_FALSE(parse_host_port("127.example.org:1")->is_loopback());  // a name like any other
}
