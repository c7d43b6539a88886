#include "decision/server/exposure.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ccld::decision::server {

bool is_local_endpoint(absl::string_view endpoint) {
  if (absl::StartsWith(endpoint, "ipc://")) return true;
  if (!absl::ConsumePrefix(&endpoint, "tcp://")) return false;
  absl::string_view host = endpoint.substr(0, endpoint.rfind(':'));
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return host == "lo" || is_loopback_host(host);  // ZeroMQ takes names of interfaces
}

absl::Status check_telemetry_exposure(const std::string& endpoint, bool keys, bool insecure) {
  if (keys || insecure || is_local_endpoint(endpoint)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--listen ", endpoint,
                   ": everyone who reaches this address could send telemetry. --telemetry-secret-file and "
                   "--telemetry-allow-file let in only who has a key (`ccld keys`); --insecure lets in everyone"));
}

absl::Status check_http_exposure(const HostPort& address, bool tokens, bool insecure) {
  if (tokens || insecure || address.is_loopback()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--http ", address.text(),
                   ": everyone who reaches this address could ask. --http-tokens-file lets in only "
                   "who has a token (`ccld tokens`); --insecure lets in everyone"));
}

}  // namespace ccld::decision::server
