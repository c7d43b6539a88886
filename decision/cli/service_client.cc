#include "decision/cli/service_client.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "decision/admission/files.h"
#include "decision/report/bounded_json.h"
#include "decision/server/host_port.h"
#include "httplib.h"

namespace ccld::decision {
namespace {

constexpr time_t connect_timeout_s = 3;
constexpr time_t read_timeout_s = 10;

// A server answers that much in its headers at most; a token is shorter.
constexpr size_t token_bytes_max = 4096;
// Four times the largest answer: a page is 1 MiB at most whatever the size of the job, a list of incidents up to 16 MiB.
constexpr size_t answer_bytes_max = size_t{64} << 20;

struct Target {
  server::HostPort address;
  bool tls = false;
  std::string origin;  // "https://node7:5580"
  std::string token;   // empty: none
};

absl::StatusOr<Target> target_of(const ServiceAddress& address) {
  absl::string_view url = address.url;
  const bool tls = absl::ConsumePrefix(&url, "https://");
  const auto parsed = server::parse_host_port(url);
  if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat("--http: ", parsed.status().message()));
  Target target{*parsed, tls, absl::StrCat(tls ? "https://" : "http://", parsed->text()), ""};
  if (!address.token_file.empty()) {
    const auto text = admission::read_file(address.token_file, token_bytes_max);
    if (!text.ok()) return absl::UnavailableError(absl::StrCat("--token-file: ", text.status().message()));
    target.token = std::string(absl::StripAsciiWhitespace(*text));
  } else if (const char* const token = std::getenv(token_variable)) {
    target.token = std::string(absl::StripAsciiWhitespace(token));
  }
  // It becomes part of a header.
  if (std::any_of(target.token.begin(), target.token.end(), [](unsigned char c) { return !absl::ascii_isgraph(c); }))
    return absl::InvalidArgumentError(absl::StrCat(address.token_file.empty() ? token_variable : "--token-file", ": it does not hold one token"));
  if (tls && !address.ca_file.empty() && access(address.ca_file.c_str(), R_OK) != 0)
    return absl::UnavailableError(absl::StrCat("--ca-file: cannot read '", address.ca_file, "': ", std::strerror(errno)));
  return target;
}

std::string remedy_for(httplib::Error error) {
  switch (error) {
    case httplib::Error::SSLServerVerification: return "its certificate is not trusted, or is for another name: --ca-file names who signed it";
    case httplib::Error::SSLLoadingCerts: return "--ca-file holds no certificates";
    case httplib::Error::SSLConnection: return "does it speak https? --http names another one";
    default: return "is `ccld serve` running? --http names another one";
  }
}

absl::StatusOr<report::Json> exchange(const ServiceAddress& address, httplib::Request request) {
  const std::string path = request.path;
  const auto target = target_of(address);
  if (!target.ok()) return target.status();
  // By address and port: httplib reads no URL with every IPv6 address.
  const std::unique_ptr<httplib::ClientImpl> client =
      target->tls ? std::make_unique<httplib::SSLClient>(target->address.host, target->address.port)
                  : std::make_unique<httplib::ClientImpl>(target->address.host, target->address.port);
  client->set_connection_timeout(connect_timeout_s);
  client->set_read_timeout(read_timeout_s);
  client->set_follow_location(true);  // to the node of a cluster that leads
  client->enable_server_certificate_verification(true);
  if (!address.ca_file.empty()) client->set_ca_cert_path(address.ca_file.c_str());
  if (!target->token.empty()) client->set_default_headers({{"Authorization", absl::StrCat("Bearer ", target->token)}});
  std::string body;
  bool is_long = false;
  request.content_receiver = [&](const char* bytes, size_t size, uint64_t, uint64_t) {
    is_long = size > answer_bytes_max - body.size();
    if (!is_long) body.append(bytes, size);
    return !is_long;
  };
  const httplib::Result answer = client->send(request);
  if (is_long)
    return absl::UnavailableError(absl::StrCat(target->origin, path, " answers with more than ", answer_bytes_max >> 20,
                                               " MiB: no ccld service does"));
  if (!answer) {
    return absl::UnavailableError(
        absl::StrCat("no service answers at ", target->origin, " (", httplib::to_string(answer.error()), "): ", remedy_for(answer.error())));
  }
  auto document = report::parse_bounded(body);
  if (document.ok() && document->is_object() && document->contains("error")) {
    const report::Json& error = (*document)["error"];
    const std::string words = error.is_string() ? error.get<std::string>() : report::to_line(error);
    switch (answer->status) {
      case 400: return absl::InvalidArgumentError(words);
      case 401: return absl::UnauthenticatedError(words);
      case 403: return absl::PermissionDeniedError(words);
      case 404: return absl::NotFoundError(words);
      case 409: return absl::FailedPreconditionError(words);
      case 503: return absl::UnavailableError(words);
      default: break;
    }
  }
  if (answer->status != 200 || !document.ok()) {
    return absl::UnavailableError(absl::StrCat(target->origin, path,
                                               " did not answer as a ccld service does (HTTP status ", answer->status,
                                               document.ok() ? "" : ", ", document.status().message(), ")"));
  }
  return document;
}

}  // namespace

absl::StatusOr<report::Json> ask_service(const ServiceAddress& address, const std::string& path) {
  httplib::Request request;
  request.method = "GET";
  request.path = path;
  return exchange(address, std::move(request));
}

absl::StatusOr<report::Json> tell_service(const ServiceAddress& address, const std::string& path,
                                          const report::Json& wish) {
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.body = report::to_line(wish);
  request.set_header("Content-Type", "application/json");
  return exchange(address, std::move(request));
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
