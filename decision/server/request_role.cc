#include "decision/server/request_role.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "decision/server/answers.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

using admission::Role;

// "/", "/i/7", "/page/app.js"; not "/page/incident/7", which is a document.
bool is_page_file(absl::string_view path) {
  if (path == "/") return true;
  if (absl::ConsumePrefix(&path, "/i/"))
    return !path.empty() && std::all_of(path.begin(), path.end(),
                                        [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
  return absl::ConsumePrefix(&path, "/page/") && !absl::StrContains(path, "/");
}

void demand(httplib::Response& response, const std::string& error) {
  response.set_header("WWW-Authenticate", "Bearer realm=\"ccld\"");
  refuse(response, 401, error);
}

// "POST /v1/tune from 10.0.0.7 with token 2bb80d537b1da3e3 (oncall)"
std::string change_text(const admission::TokenEntry& entry, const httplib::Request& request) {
  constexpr size_t digits = 16;  // as `ccld tokens list` shows them
  return absl::StrCat(request.method, " ", request.path, " from ", request.remote_addr, " with token ",
                      admission::hex_of(entry.hash).substr(0, digits),
                      entry.comment.empty() ? "" : absl::StrCat(" (", entry.comment, ")"));
}

}  // namespace

std::optional<Role> role_needed(absl::string_view method, absl::string_view path) {
  if (method == "GET" || method == "HEAD") {
    if (path == "/healthz" || is_page_file(path)) return std::nullopt;
    return Role::read;
  }
  return path == "/v1/tune" || path == "/v1/validate" ? Role::tune : Role::acknowledge;
}

bool admit(const admission::TokenList& tokens, const httplib::Request& request, httplib::Response& response) {
  const auto role = role_needed(request.method, request.path);
  if (!role.has_value()) return true;
  const std::string header = request.get_header_value("Authorization");
  const absl::string_view token = admission::bearer_token(header);
  if (token.empty()) {
    demand(response,
           "this service demands a token: Authorization: Bearer TOKEN; ccld takes it from --token-file, "
           "CCLD_TOKEN_FILE or CCLD_TOKEN");
    return false;
  }
  const admission::TokenEntry* const entry = tokens.find(token);
  if (entry == nullptr) {
    demand(response, "this token is not known to the service, or not any more");
    return false;
  }
  if (entry->roles.has(*role)) {
    if (*role != Role::read) spdlog::info("{}", change_text(*entry, request));
    return true;
  }
  refuse(response, 403,
         absl::StrCat("this token has the role ", text_of(entry->roles), ", and ", name(*role), " is needed"));
  return false;
}

}  // namespace ccld::decision::server
