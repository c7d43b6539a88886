#include "decision/webhook/url.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ccld::decision::webhook {
namespace {

absl::Status refused(absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat("this is not a URL: ", why)); }

}  // namespace

absl::StatusOr<Url> parse_url(const std::string& text) {
  const std::string behind_scheme = "://";
  if (!std::all_of(text.begin(), text.end(), absl::ascii_isgraph)) return refused("it has blanks, or letters that are not ASCII");
  const size_t scheme_end = text.find(behind_scheme);
  if (scheme_end == std::string::npos) return refused("http:// or https:// is expected");
  const std::string scheme = absl::AsciiStrToLower(text.substr(0, scheme_end));
  if (scheme != "http" && scheme != "https") return absl::InvalidArgumentError(absl::StrCat("scheme '", scheme, "' is not http or https"));
  const size_t host_at = scheme_end + behind_scheme.size(), host_end = std::min(text.find_first_of("/?#", host_at), text.size());
  const std::string authority = text.substr(host_at, host_end - host_at);
  if (authority.find('@') != std::string::npos) {
    return absl::InvalidArgumentError("the URL has a user or a password, which everybody can read in the list of processes: --webhook-secret-file signs");
  }
  // Not a colon of an address of IPv6: [::1]:8080.
  const size_t bracket = authority.find(']');
  const size_t colon = authority.find(':', bracket == std::string::npos ? 0 : bracket);
  const std::string host = authority.substr(0, colon);
  if (host.empty() || (host.front() == '[') != (host.back() == ']')) return refused("the name of the host is missing");
  constexpr uint32_t port_max = 65535;
  uint32_t port = scheme == "https" ? 443 : 80;
  if (colon != std::string::npos && (!absl::SimpleAtoi(authority.substr(colon + 1), &port) || port == 0 || port > port_max)) {
    return refused(absl::StrCat("'", authority.substr(colon + 1), "' is not a port"));
  }
  std::string target = text.substr(host_end, text.find('#', host_end) - host_end);
  if (target.empty() || target.front() != '/') target.insert(target.begin(), '/');
  return Url{.origin = absl::StrCat(scheme, behind_scheme, host, ":", port), .target = std::move(target)};
}

}  // namespace ccld::decision::webhook
