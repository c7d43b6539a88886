#include "decision/server/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "absl/strings/str_cat.h"

namespace ccld::decision::server {
namespace {

absl::Status failure(const std::string& path) {
  const unsigned long error = ERR_get_error();
  const char* const reason = error != 0 ? ERR_reason_error_string(error) : nullptr;
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot use '", path, "': ", reason != nullptr ? reason : "unknown error"));
}

// One with a pass phrase: nobody is there to type it.
int no_pass_phrase(char*, int, int, void*) { return -1; }

}  // namespace

absl::StatusOr<std::shared_ptr<const Tls>> Tls::load(const std::string& certificate_file, const std::string& key_file) {
  ERR_clear_error();
  std::shared_ptr<const Tls> tls(new Tls(SSL_CTX_new(TLS_server_method())));
  if (tls->context_ == nullptr) return failure(certificate_file);
  SSL_CTX_set_min_proto_version(tls->context_, TLS1_2_VERSION);
  SSL_CTX_set_options(tls->context_, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // A connection is one request: there is no session to go on with.
  SSL_CTX_set_session_cache_mode(tls->context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(tls->context_, 0);
  SSL_CTX_set_mode(tls->context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_default_passwd_cb(tls->context_, no_pass_phrase);
  if (SSL_CTX_use_certificate_chain_file(tls->context_, certificate_file.c_str()) != 1)
    return failure(certificate_file);
  // Also if it is not that of the certificate.
  if (SSL_CTX_use_PrivateKey_file(tls->context_, key_file.c_str(), SSL_FILETYPE_PEM) != 1) return failure(key_file);
  return tls;
}

Tls::~Tls() { SSL_CTX_free(context_); }

}  // namespace ccld::decision::server
