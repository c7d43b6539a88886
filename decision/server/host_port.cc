#include "decision/server/host_port.h"

#include <arpa/inet.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ccld::decision::server {

std::string HostPort::text() const {
  const bool ipv6 = absl::StrContains(host, ":");
  return absl::StrCat(ipv6 ? "[" : "", host, ipv6 ? "]" : "", ":", port);
}

bool HostPort::is_loopback() const { return is_loopback_host(host); }

// By the address, not by how it begins: 127.example.org is a name like any other.
bool is_loopback_host(absl::string_view host) {
  if (absl::EqualsIgnoreCase(host, "localhost") || host == "::1") return true;
  in_addr address{};
  constexpr uint32_t loopback_network = 127;
  return inet_pton(AF_INET, std::string(host).c_str(), &address) == 1 &&
         ntohl(address.s_addr) >> 24 == loopback_network;
}

absl::StatusOr<HostPort> parse_host_port(absl::string_view text) {
  const auto refuse = [text](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not an address: ", why));
  };
  absl::string_view rest = text;
  absl::ConsumePrefix(&rest, "http://");
  absl::ConsumeSuffix(&rest, "/");
  const size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos) return refuse("host:port is expected");
  HostPort result;
  absl::string_view host = rest.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]")) return refuse("']' is missing");
  } else if (absl::StrContains(host, ":")) {
    return refuse("an IPv6 address needs brackets, [::1]:5580");
  }
  if (host.empty() || host.find_first_of("/ ") != absl::string_view::npos) return refuse("host:port is expected");
  result.host = std::string(host);
  constexpr int port_max = 65535;
  if (!absl::SimpleAtoi(rest.substr(colon + 1), &result.port) || result.port < 0 || result.port > port_max) {
    return refuse("the port must be a number from 0 to 65535");
  }
  return result;
}

}  // namespace ccld::decision::server
