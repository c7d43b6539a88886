#include "decision/server/request_head.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace ccld::decision::server {
namespace {

// A record of TLS (RFC 8446, 5.1): its type, a version in two bytes, and the length of what follows in two.
bool has_handshake(absl::string_view begin) {
  constexpr size_t header_bytes = 5;
  constexpr char handshake = 22;
  if (begin.empty()) return false;
  if (begin[0] != handshake) return true;
  if (begin.size() < header_bytes) return false;
  const auto byte = [&](size_t at) { return static_cast<size_t>(static_cast<unsigned char>(begin[at])); };
  return begin.size() >= std::min(header_bytes + (byte(3) << 8 | byte(4)), head_bytes_max);
}

}  // namespace

bool has_head(absl::string_view begin, bool tls) {
  if (tls) return has_handshake(begin);
  return begin.size() >= head_bytes_max || absl::StrContains(begin, "\r\n\r\n");
}

}  // namespace ccld::decision::server
