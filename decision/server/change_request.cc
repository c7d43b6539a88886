#include "decision/server/change_request.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "decision/server/answers.h"
#include "decision/server/request_checks.h"

namespace ccld::decision::server {

std::optional<std::string> take_change(const ChangeRules& rules, const httplib::Request& request, httplib::Response& response,
                                       const httplib::ContentReader& read) {
  const auto no = [&response](int status, const std::string& error) {
    refuse(response, status, error);
    return std::nullopt;
  };
  const std::string host = request.get_header_value("Host"), origin = request.get_header_value("Origin");
  if (!rules.token && !rules.remote && !is_this_host(request.remote_addr)) {
    return no(403, absl::StrCat(rules.doing, " from ", request.remote_addr, " is not allowed: `ccld serve ", rules.flag, "` allows it"));
  }
  if (!rules.token && !is_our_name(host, rules.names)) {
    return no(403, not_our_name(host));
  }
  if (!is_same_origin(origin, host, rules.tls)) return no(403, absl::StrCat("Origin '", origin, "' is another web page"));
  if (!absl::StartsWith(request.get_header_value("Content-Type"), json_type)) return no(415, absl::StrCat("the request is not ", json_type));
  std::string body;
  bool fits = true;
  const bool whole = read([&](const char* data, size_t size) {
    fits = body.size() + size <= change_bytes_max;
    if (fits) body.append(data, size);
    return fits;
  });
  if (!fits || response.status == 413) return no(413, absl::StrCat("the request is longer than ", change_bytes_max, " bytes"));
  if (!whole) return no(400, "the request did not come whole");
  response.status = 200;
  return body;
}

}  // namespace ccld::decision::server
