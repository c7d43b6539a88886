#include "decision/cli/service_client.h"

#include "absl/strings/str_cat.h"
#include "decision/server/host_port.h"
#include "httplib.h"

namespace ccld::decision {
namespace {

constexpr time_t connect_timeout_s = 3;
constexpr time_t read_timeout_s = 10;

}  // namespace

absl::StatusOr<report::Json> ask_service(const std::string& url, const std::string& path) {
  const auto address = server::parse_host_port(url);
  if (!address.ok()) return absl::InvalidArgumentError(absl::StrCat("--http: ", address.status().message()));
  httplib::Client client(address->host, address->port);
  client.set_connection_timeout(connect_timeout_s);
  client.set_read_timeout(read_timeout_s);
  const httplib::Result answer = client.Get(path);
  if (!answer) {
    return absl::UnavailableError(absl::StrCat("no service answers at http://", address->text(), " (", httplib::to_string(answer.error()),
                                               "): is `ccld serve` running? --http names another one"));
  }
  report::Json document = report::Json::parse(answer->body, nullptr, false);
  if (answer->status == 404 && document.is_object() && document.contains("error")) {
    return absl::NotFoundError(document["error"].is_string() ? document["error"].get<std::string>() : report::to_line(document["error"]));
  }
  if (answer->status != 200 || document.is_discarded()) {
    return absl::UnavailableError(absl::StrCat("http://", address->text(), path, " did not answer as a ccld service does (HTTP status ", answer->status, ")"));
  }
  return document;
}

}  // namespace ccld::decision
