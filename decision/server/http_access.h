// Tokens and certificate of the query API, out of the flags of `ccld serve`.
// Errors: one line that names the flag; InvalidArgument: a flag that cannot be right. Threads: any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/admission/book.h"
#include "decision/admission/reloader.h"
#include "decision/server/host_port.h"
#include "decision/server/tls.h"

namespace ccld::decision::server {

struct HttpAccessOptions {
  HostPort address;
  std::string tokens_file;       // --http-tokens-file
  std::string certificate_file;  // --http-certificate-file
  std::string key_file;          // --http-key-file
  bool insecure = false;
};

struct HttpAccess {
  std::shared_ptr<const admission::TokenBook> tokens;  // nullptr: anybody may ask
  std::shared_ptr<const TlsBook> tls;                  // nullptr: plain HTTP
  std::vector<admission::WatchedFiles> files;          // to be read again when they change
};

absl::StatusOr<HttpAccess> open_http_access(const HttpAccessOptions&);

}  // namespace ccld::decision::server
