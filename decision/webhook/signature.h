// The signature of a delivery, by which a receiver knows that it comes from this service, whole, and now.
//   X-Ccld-Signature: t=1769860800,v1=<hexadecimal HMAC-SHA256 of "1769860800.<body>" with the secret>
// Pure. Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace ccld::decision::webhook {

// `time_s`: since 1970.
std::string signature(absl::string_view secret, int64_t time_s, absl::string_view body);

}  // namespace ccld::decision::webhook
