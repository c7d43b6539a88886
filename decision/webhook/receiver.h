// Who takes deliveries: over HTTP(S), or a test.
//
// Contract
//   post() waits post_timeout at most to connect, to send and to receive, each. It comes back at once after interrupt(), but for
//   a connection that is being made, and a name server that does not answer. interrupt() is for good and may come from any thread.
//   Redirects are not followed: a signed message goes where it was meant to go. Certificates are checked.
// Threads: post() from one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ccld::decision::webhook {

struct Answer {
  int status = 0;             // of HTTP; 0: there was none
  std::string error;          // why there was none
  int64_t retry_after_s = 0;  // what the receiver asks for, a day at most; 0: nothing
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  virtual Answer post(const std::vector<std::string>& headers, const std::string& body) = 0;
  virtual void interrupt() = 0;
};

// Errors: as parse_url().
// `ca_file`: certificates of those whom it trusts to sign the receiver's; empty: the system's.
absl::StatusOr<std::unique_ptr<Receiver>> open_receiver(const std::string& url, const std::string& ca_file, int64_t post_timeout_ms);

// Scheme, host and port: what a log may have, since paths of webhooks are secrets of some receivers. Empty: no URL.
std::string receiver_name(const std::string& url);

}  // namespace ccld::decision::webhook
