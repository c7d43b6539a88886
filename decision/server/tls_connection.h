// One encrypted connection on a socket that never blocks: every step is done, or says what it waits for.
// Threads: one.
#pragma once

#include <sys/types.h>

#include <memory>

#include "decision/server/tls.h"

struct ssl_st;  // SSL

namespace ccld::decision::server {

class TlsConnection {
 public:
  // Makes the socket one that does not block.
  TlsConnection(std::shared_ptr<const Tls>, int fd);
  ~TlsConnection();
  TlsConnection(const TlsConnection&) = delete;

  enum class Want { nothing, readable, writable, failed };
  // What to wait for before the handshake can go on; nothing: it is done.
  Want handshake();
  // Bytes, 0 at the end; -1: *want says what to wait for, or that the connection has failed.
  ssize_t read(char* to, size_t size, Want* want);
  ssize_t write(const char* from, size_t size, Want* want);
  bool has_decrypted() const;  // bytes that read() gives without the network
  void say_goodbye();

 private:
  Want want_of(int result);

  const std::shared_ptr<const Tls> tls_;
  ssl_st* const ssl_;
  bool usable_ = true;
};

}  // namespace ccld::decision::server
