// A TCP port of loopback on which connections are taken and nothing is said.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace ccld::test {

class Listener {
 public:
  Listener() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const a = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    constexpr int waiting_max = 8;
    if (bind(socket_, a, size) != 0 || listen(socket_, waiting_max) != 0 || getsockname(socket_, a, &size) != 0)
      throw std::runtime_error("cannot listen on loopback");
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(socket_); }
  Listener(const Listener&) = delete;

  int port() const { return port_; }
  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port_); }  // of ZeroMQ
  int take() const { return accept(socket_, nullptr, nullptr); }  // a connection, to be closed by the caller

 private:
  const int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port_ = 0;
};

}  // namespace ccld::test
