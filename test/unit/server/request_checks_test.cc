#include "decision/server/request_checks.h"

#include <catch2/catch.hpp>

namespace ccld::decision::server {

TEST_CASE("Our names are addresses, localhost and what we were told") {
  const std::vector<std::string> names = {"node7", "ccld.monitoring.svc"};
  for (const char* host : {"127.0.0.1:5580", "127.0.0.1", "[::1]:5580", "10.0.0.5:5580", "localhost:5580", "LOCALHOST", "node7:5580",
                           "CCLD.monitoring.svc"})
    CHECK(is_our_name(host, names));
  for (const char* host : {"", "evil.example:5580", "node7.evil.example", "127.0.0.1.evil.example", "localhost.evil.example", ":5580", "[::1"
                           ".evil]"})
    CHECK_FALSE(is_our_name(host, names));
}

TEST_CASE("A question comes under a name that a stranger's page cannot have") {
  const std::vector<std::string> names = {"node7", "ccld.example"};
  for (const char* host :
       {"", "127.0.0.1:5580", "[::1]:5580", "[2001:db8::1]", "localhost", "node7:5580", "ccld.example",
        "CCLD.example:5580", "ccld", "node8.:5580", "ccld.monitoring.svc.cluster.local:5580", "node8.LOCAL",
        "vm.zone.internal", "nas.home.arpa"})
    CHECK(is_no_strangers_name(host, names));
  for (const char* host : {"evil.example:5580", "evil.example.", "node7.evil.example", "127.0.0.1.evil.example",
                           "local.evil.example", "evillocal.example", "[::1.evil]"})
    CHECK_FALSE(is_no_strangers_name(host, names));
}

TEST_CASE("A request of another web page tells by its origin") {
  CHECK(is_same_origin("", "127.0.0.1:5580"));
  CHECK(is_same_origin("http://127.0.0.1:5580", "127.0.0.1:5580"));
  for (const char* origin : {"null", "http://evil.example", "https://127.0.0.1:5580", "http://127.0.0.1:80", "http://127.0.0.1:5580.evil.example"})
    CHECK_FALSE(is_same_origin(origin, "127.0.0.1:5580"));
}

TEST_CASE("Where we speak https, our own pages come by https") {
  CHECK(is_same_origin("https://node7:5580", "node7:5580", true));
  CHECK_FALSE(is_same_origin("http://node7:5580", "node7:5580", true));
}

TEST_CASE("A document that the client has is recognized") {
  CHECK(matches_etag("\"a-1\"", "\"a-1\""));
  CHECK(matches_etag("\"x\", W/\"a-1\"", "\"a-1\""));
  CHECK(matches_etag("*", "\"a-1\""));
  CHECK_FALSE(matches_etag("", "\"a-1\""));
  CHECK_FALSE(matches_etag("\"a-2\"", "\"a-1\""));
  CHECK_FALSE(matches_etag("a-1", "\"a-1\""));
}

TEST_CASE("Loopback addresses are this host") {
  for (const char* address : {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"}) CHECK(is_this_host(address));
  for (const char* address : {"10.0.0.1", "", "::2", "128.0.0.1"}) CHECK_FALSE(is_this_host(address));
}

}  // namespace ccld::decision::server
