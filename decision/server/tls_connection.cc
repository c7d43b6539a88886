#include "decision/server/tls_connection.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <climits>
#include <utility>

namespace ccld::decision::server {

TlsConnection::TlsConnection(std::shared_ptr<const Tls> tls, int fd)
    : tls_(std::move(tls)), ssl_(SSL_new(tls_->context())) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  usable_ = ssl_ != nullptr && SSL_set_fd(ssl_, fd) == 1;
  if (usable_) SSL_set_accept_state(ssl_);
}

TlsConnection::~TlsConnection() { SSL_free(ssl_); }

TlsConnection::Want TlsConnection::want_of(int result) {
  const int error = SSL_get_error(ssl_, result);
  ERR_clear_error();
  if (error == SSL_ERROR_WANT_READ) return Want::readable;
  if (error == SSL_ERROR_WANT_WRITE) return Want::writable;
  usable_ = false;
  return Want::failed;
}

TlsConnection::Want TlsConnection::handshake() {
  if (!usable_) return Want::failed;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  return result == 1 ? Want::nothing : want_of(result);
}

ssize_t TlsConnection::read(char* to, size_t size, Want* want) {
  *want = Want::failed;
  if (!usable_) return -1;
  ERR_clear_error();
  const int n = SSL_read(ssl_, to, static_cast<int>(std::min<size_t>(size, INT_MAX)));
  if (n > 0) return n;
  if (SSL_get_error(ssl_, n) == SSL_ERROR_ZERO_RETURN) return 0;
  *want = want_of(n);
  return -1;
}

ssize_t TlsConnection::write(const char* from, size_t size, Want* want) {
  *want = Want::failed;
  if (!usable_) return -1;
  if (size == 0) return 0;
  ERR_clear_error();
  const int n = SSL_write(ssl_, from, static_cast<int>(std::min<size_t>(size, INT_MAX)));
  if (n > 0) return n;
  *want = want_of(n);
  return -1;
}

bool TlsConnection::has_decrypted() const { return usable_ && SSL_pending(ssl_) > 0; }

void TlsConnection::say_goodbye() {
  if (!usable_ || SSL_is_init_finished(ssl_) == 0) return;
  ERR_clear_error();
  SSL_shutdown(ssl_);
  ERR_clear_error();
  usable_ = false;
}

}  // namespace ccld::decision::server
