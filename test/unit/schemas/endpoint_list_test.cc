#include "schemas/endpoints/endpoint_list.h"

#include <catch2/catch.hpp>

namespace ccld {
namespace {

using List = std::vector<std::string>;

TEST_CASE("one endpoint is any transport and any address") {
  for (const char* text : {"tcp://127.0.0.1:5566", "tcp://[::1]:5566", "ipc:///run/ccld", "gopher://x", "tcp://a b"})
    CHECK(endpoints_in(text) == List{text});
  for (const char* text : {"", "nonsense", "localhost:5566", "tcp://", "://x"}) CHECK(endpoints_in(text).empty());
}

TEST_CASE("several keep their order") {
  CHECK(endpoints_in("tcp://b:5566,tcp://a:1,ipc:///run/ccld,tcp://[::1]:65535") ==
        List{"tcp://b:5566", "tcp://a:1", "ipc:///run/ccld", "tcp://[::1]:65535"});
}

TEST_CASE("several are refused if one of them is none") {
  const std::string good = "tcp://a:5566";
  for (const char* bad :
       {"", " ", "nonsense", "a:5566", "tcp://", "tcp://a", "tcp://:5566", "tcp://b:0", "tcp://b:65536",
        "tcp://b:5566 ", " tcp://b:5566", "tcp://b:*", "tcp://b:port", "gopher://b:70", "ipc://"}) {
    INFO(bad);
    CHECK(endpoints_in(good + "," + bad).empty());
    CHECK(endpoints_in(bad + ("," + good)).empty());
    CHECK(endpoints_in(good + "," + bad + "," + good).empty());
  }
}

TEST_CASE("eight are accepted and nine are not") {
  std::string text = "tcp://a:1";
  for (size_t i = 1; i < endpoints_max; ++i) text += ",tcp://a:1";
  CHECK(endpoints_in(text).size() == endpoints_max);
  CHECK(endpoints_in(text + ",tcp://a:1").empty());
}

}  // namespace
}  // namespace ccld
