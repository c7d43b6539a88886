// "127.0.0.1:5580", "[::1]:5580", "http://node7:5580/": an address of the query API.
// Errors: the text and what is wrong with it. Threads: any.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ccld::decision::server {

struct HostPort {
  std::string host;  // without brackets
  int port = 0;      // 0: any free one, for a listener

  std::string text() const;  // brackets around IPv6 addresses
  bool is_loopback() const;
};

// A loopback address or localhost.
bool is_loopback_host(absl::string_view host);

absl::StatusOr<HostPort> parse_host_port(absl::string_view text);

}  // namespace ccld::decision::server
