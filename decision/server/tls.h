// A certificate with its key, by which the query API proves who it is and encrypts (TLS 1.2 and 1.3).
// Errors: load(): InvalidArgument with the file and what OpenSSL says of it. Threads: any.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "decision/admission/book.h"

struct ssl_ctx_st;  // SSL_CTX

namespace ccld::decision::server {

class Tls {
 public:
  // PEM. `certificate_file`: with those that signed it, the own one first.
  static absl::StatusOr<std::shared_ptr<const Tls>> load(const std::string& certificate_file,
                                                         const std::string& key_file);
  ~Tls();
  Tls(const Tls&) = delete;

  ssl_ctx_st* context() const { return context_; }

 private:
  explicit Tls(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* const context_;
};

using TlsBook = admission::Book<Tls>;

}  // namespace ccld::decision::server
