#include "decision/server/exposure.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"

namespace ccld::decision::server {

TEST_CASE("Nobody on another host reaches loopback and sockets of the file system") {
  for (const char* endpoint : {"tcp://127.0.0.1:5566", "tcp://127.9.9.9:*", "tcp://[::1]:5566", "tcp://localhost:5566",
                               "tcp://lo:5566", "ipc:///run/ccld"})
    CHECK(is_local_endpoint(endpoint));
  for (const char* endpoint :
       {"tcp://0.0.0.0:5566", "tcp://*:5566", "tcp://[::]:5566", "tcp://10.0.0.5:5566", "tcp://eth0:5566",
        "tcp://node7:5566", "tcp://127.example.org:5566", "tcp://localhost.example.org:5566", "tcp://lo.example.org:1"})
    CHECK_FALSE(is_local_endpoint(endpoint));
}

TEST_CASE("A service that knows nobody listens on this host only, unless its operator says so") {
  CHECK(check_telemetry_exposure("tcp://127.0.0.1:5566", false, false).ok());
  CHECK(check_telemetry_exposure("tcp://0.0.0.0:5566", true, false).ok());
  CHECK(check_telemetry_exposure("tcp://0.0.0.0:5566", false, true).ok());
  const absl::Status telemetry = check_telemetry_exposure("tcp://0.0.0.0:5566", false, false);
  CHECK(absl::IsInvalidArgument(telemetry));
  for (const char* word :
       {"--listen tcp://0.0.0.0:5566", "--telemetry-secret-file", "--telemetry-allow-file", "--insecure"})
    CHECK(absl::StrContains(telemetry.message(), word));

  CHECK(check_http_exposure({"localhost", 5580}, false, false).ok());
  CHECK(check_http_exposure({"0.0.0.0", 5580}, true, false).ok());
  CHECK(check_http_exposure({"0.0.0.0", 5580}, false, true).ok());
  const absl::Status http = check_http_exposure({"::", 5580}, false, false);
  CHECK(absl::IsInvalidArgument(http));
  for (const char* word : {"--http [::]:5580", "--http-tokens-file", "--insecure"})
    CHECK(absl::StrContains(http.message(), word));
}

}  // namespace ccld::decision::server
