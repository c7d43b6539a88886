#include "decision/server/request_head.h"

#include <catch2/catch.hpp>
#include <string>

namespace ccld::decision::server {

TEST_CASE("A thread begins with a request when its head has come") {
  const std::string head = "GET /healthz HTTP/1.1\r\nHost: node7\r\n\r\n";
  for (size_t size = 0; size < head.size(); ++size)
    CHECK_FALSE(has_head(absl::string_view(head).substr(0, size), false));
  CHECK(has_head(head, false));
  CHECK(has_head(head + "{\"jo", false));
  CHECK_FALSE(has_head(std::string(head_bytes_max - 1, 'x'), false));
  CHECK(has_head(std::string(head_bytes_max, 'x'), false));  // the thread says what is wrong with it
}

TEST_CASE("With TLS it begins when the first message of the handshake has come, or what is none") {
  const std::string hello = std::string("\x16\x03\x01\x01\x02", 5) + std::string(0x102, 'x');
  for (size_t size = 0; size < hello.size(); ++size)
    CHECK_FALSE(has_head(absl::string_view(hello).substr(0, size), true));
  CHECK(has_head(hello, true));
  CHECK(has_head("GET", true));
  // Longer than what is looked at.
  const std::string endless = std::string("\x16\x03\x01\xff\xff", 5) + std::string(head_bytes_max, 'x');
  CHECK(has_head(endless.substr(0, head_bytes_max), true));
}

}  // namespace ccld::decision::server
