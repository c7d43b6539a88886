#include "decision/server/request_checks.h"

#include <arpa/inet.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ccld::decision::server {
namespace {

// Without a port and brackets.
absl::string_view name_of(absl::string_view host) {
  if (absl::ConsumePrefix(&host, "[")) return host.substr(0, host.find(']'));
  return host.substr(0, host.find(':'));
}

bool is_address(const std::string& text) {
  in6_addr address;
  return inet_pton(AF_INET, text.c_str(), &address) == 1 || inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

}  // namespace

bool is_this_host(absl::string_view address) {
  absl::ConsumePrefix(&address, "::ffff:");
  return address == "::1" || absl::StartsWith(address, "127.");
}

bool is_our_name(absl::string_view host, const std::vector<std::string>& names) {
  const absl::string_view name = name_of(absl::StripAsciiWhitespace(host));
  if (absl::EqualsIgnoreCase(name, "localhost") || is_address(std::string(name))) return true;
  for (const std::string& own : names)
    if (absl::EqualsIgnoreCase(name, own)) return true;
  return false;
}

bool is_no_strangers_name(absl::string_view host, const std::vector<std::string>& names) {
  absl::string_view name = name_of(absl::StripAsciiWhitespace(host));
  absl::ConsumeSuffix(&name, ".");
  if (!absl::StrContains(name, ".") || is_our_name(host, names)) return true;
  // RFC 6761, 6762 and 8375; `internal` is ICANN's.
  for (const char* const domain : {".local", ".internal", ".localhost", ".home.arpa"})
    if (absl::EndsWithIgnoreCase(name, domain)) return true;
  return false;
}

bool is_same_origin(absl::string_view origin, absl::string_view host, bool tls) {
  origin = absl::StripAsciiWhitespace(origin);
  if (origin.empty()) return true;
  return absl::ConsumePrefix(&origin, tls ? "https://" : "http://") &&
         absl::EqualsIgnoreCase(origin, absl::StripAsciiWhitespace(host));
}

bool matches_etag(absl::string_view if_none_match, absl::string_view etag) {
  for (absl::string_view tag : absl::StrSplit(if_none_match, ',')) {
    tag = absl::StripAsciiWhitespace(tag);
    absl::ConsumePrefix(&tag, "W/");
    if (tag == etag || tag == "*") return true;
  }
  return false;
}

}  // namespace ccld::decision::server
