#include "decision/cli/service_client.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/server/host_port.h"
#include "httplib.h"

namespace ccld::decision {
namespace {

constexpr time_t connect_timeout_s = 3;
constexpr time_t read_timeout_s = 10;

template <class Request>
absl::StatusOr<report::Json> exchange(const std::string& url, const std::string& path, const Request& request) {
  const auto address = server::parse_host_port(url);
  if (!address.ok()) return absl::InvalidArgumentError(absl::StrCat("--http: ", address.status().message()));
  httplib::Client client(address->host, address->port);
  client.set_connection_timeout(connect_timeout_s);
  client.set_read_timeout(read_timeout_s);
  const httplib::Result answer = request(client);
  if (!answer) {
    return absl::UnavailableError(absl::StrCat("no service answers at http://", address->text(), " (", httplib::to_string(answer.error()),
                                               "): is `ccld serve` running? --http names another one"));
  }
  report::Json document = report::Json::parse(answer->body, nullptr, false);
  if (document.is_object() && document.contains("error")) {
    const std::string words = document["error"].is_string() ? document["error"].get<std::string>() : report::to_line(document["error"]);
    switch (answer->status) {
      case 400: return absl::InvalidArgumentError(words);
      case 403: return absl::PermissionDeniedError(words);
      case 404: return absl::NotFoundError(words);
      case 409: return absl::FailedPreconditionError(words);
      case 503: return absl::UnavailableError(words);
      default: break;
    }
  }
  if (answer->status != 200 || document.is_discarded()) {
    return absl::UnavailableError(absl::StrCat("http://", address->text(), path, " did not answer as a ccld service does (HTTP status ", answer->status, ")"));
  }
  return document;
}

}  // namespace

absl::StatusOr<report::Json> ask_service(const std::string& url, const std::string& path) {
  return exchange(url, path, [&](httplib::Client& client) { return client.Get(path); });
}

absl::StatusOr<report::Json> tell_service(const std::string& url, const std::string& path, const report::Json& request) {
  return exchange(url, path, [&](httplib::Client& client) { return client.Post(path, report::to_line(request), "application/json"); });
}

std::string percent_encoded(const std::string& value) {
  std::string out;
  for (const char c : value) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_' || c == '~')
      out += c;
    else
      absl::StrAppendFormat(&out, "%%%02X", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace ccld::decision
