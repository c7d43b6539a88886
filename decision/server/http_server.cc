#include "decision/server/http_server.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "decision/server/connection_pool.h"
#include "decision/server/tls_connection.h"

namespace ccld::decision::server {
namespace {

using Clock = std::chrono::steady_clock;

// httplib gives its queue no connection but something to call that has it: this is called at once, on the thread that
// accepts, and gives the connection to the pool.
class HandOver : public httplib::TaskQueue {
 public:
  explicit HandOver(ConnectionPool& pool) : pool_(pool) { pool_.start(); }
  void enqueue(std::function<void()> take) override { take(); }
  void shutdown() override { pool_.stop(); }

 private:
  ConnectionPool& pool_;
};

// A connection with a budget of bytes and time for the request, and of time for the answer.
class BoundedStream : public httplib::Stream {
 public:
  BoundedStream(socket_t fd, size_t bytes_max, std::chrono::milliseconds request, std::chrono::milliseconds answer)
      : fd_(fd), bytes_left_(bytes_max), until_(Clock::now() + request), answer_(answer) {}

  // False: the client is none of TLS, or too slow.
  bool encrypt(std::shared_ptr<const Tls> tls) {
    tls_.emplace(std::move(tls), fd_);
    for (;;) {
      const TlsConnection::Want want = tls_->handshake();
      if (want == TlsConnection::Want::nothing) return true;
      if (!wait_for(want)) return false;
    }
  }
  void say_goodbye() {
    if (tls_.has_value()) tls_->say_goodbye();
  }

  bool is_readable() const override { return begin_ < end_ || (tls_.has_value() && tls_->has_decrypted()) || wait(POLLIN); }
  bool is_writable() const override { return wait(POLLOUT); }
  socket_t socket() const override { return fd_; }

  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_) {
      if (bytes_left_ == 0) {
        too_long_ = true;
        return -1;
      }
      const ssize_t n = receive(buffer_.data(), std::min(buffer_.size(), bytes_left_));
      if (n <= 0) return n;
      bytes_left_ -= static_cast<size_t>(n);
      begin_ = 0;
      end_ = static_cast<size_t>(n);
    }
    const size_t n = std::min(size, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, n, to);
    begin_ += n;
    return static_cast<ssize_t>(n);
  }

  ssize_t write(const char* from, size_t size) override {
    if (!answering_) {
      answering_ = true;
      until_ = Clock::now() + answer_;
    }
    while (tls_.has_value()) {
      TlsConnection::Want want;
      const ssize_t n = tls_->write(from, size, &want);
      if (n >= 0 || !wait_for(want)) return n;
    }
    for (;;) {
      const ssize_t n = send(fd_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n >= 0 || (errno != EAGAIN && errno != EINTR)) return n;
      if (!wait(POLLOUT)) return -1;
    }
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override { name(getpeername, ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { name(getsockname, ip, port); }

  bool too_long() const { return too_long_; }
  bool too_slow() const { return too_slow_; }
  bool answered() const { return answering_; }

 private:
  ssize_t receive(char* to, size_t size) {
    while (tls_.has_value()) {
      TlsConnection::Want want;
      const ssize_t n = tls_->read(to, size, &want);
      if (n >= 0 || !wait_for(want)) return n;
    }
    return wait(POLLIN) ? recv(fd_, to, size, 0) : -1;
  }
  bool wait_for(TlsConnection::Want want) const {
    if (want == TlsConnection::Want::failed) return false;
    return wait(want == TlsConnection::Want::writable ? POLLOUT : POLLIN);
  }
  bool wait(short events) const {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until_ - Clock::now()).count();
      if (left <= 0) {
        too_slow_ = true;
        return false;
      }
      pollfd p{fd_, events, 0};
      const int ready = poll(&p, 1, static_cast<int>(left));
      if (ready > 0 || (ready < 0 && errno != EINTR)) return ready > 0;
    }
  }
  template <class Ask>
  void name(Ask ask, std::string& ip, int& port) const {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    char host[NI_MAXHOST], service[NI_MAXSERV];
    if (ask(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
        getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host, sizeof(host), service, sizeof(service),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
      return;
    ip = host;
    port = std::atoi(service);
  }

  const socket_t fd_;
  std::optional<TlsConnection> tls_;
  size_t bytes_left_;
  Clock::time_point until_;
  const std::chrono::milliseconds answer_;
  bool answering_ = false, too_long_ = false;
  mutable bool too_slow_ = false;
  std::array<char, 4096> buffer_;
  size_t begin_ = 0, end_ = 0;
};

std::string answer_text(const std::string& status, const std::string& error) {
  const std::string body = "{\"error\":\"" + error + "\"}\n";
  return "HTTP/1.1 " + status +
         "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

void answer(BoundedStream& stream, const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = stream.write(text.data() + sent, text.size() - sent);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

ConnectionPool::Options pool_options(const HttpLimits& limits, bool tls) {
  return {.limits = {.threads = limits.threads,
                     .threads_in_reserve = limits.threads_in_reserve,
                     .threads_of_address = limits.threads_of_address,
                     .waiting_max = limits.connections_waiting_max},
          .request_timeout_ns = std::chrono::nanoseconds(limits.request_timeout).count(),
          .tls = tls,
          .no_room = answer_text("503 Service Unavailable", "too many clients wait")};
}

}  // namespace

HttpServer::HttpServer(const HttpLimits& limits, std::shared_ptr<const TlsBook> tls)
    : limits_(limits),
      tls_(std::move(tls)),
      pool_(pool_options(limits_, tls_ != nullptr), [this](int fd, bool hurry) { return serve(fd, hurry); }) {
  new_task_queue = [this] { return new HandOver(pool_); };
}

void HttpServer::widen_backlog() { ::listen(svr_sock_, limits_.backlog); }

bool HttpServer::process_and_close_socket(socket_t fd) {
  pool_.take(fd);
  return true;
}

std::optional<report::HttpRefusal> HttpServer::serve(socket_t fd, bool hurry) {
  BoundedStream stream(fd, limits_.request_bytes_max, hurry ? limits_.request_timeout_busy : limits_.request_timeout,
                       hurry ? limits_.answer_timeout_busy : limits_.answer_timeout);
  if (tls_ == nullptr || stream.encrypt(tls_->newest())) {
    bool closed = false;
    const bool done = stream.is_readable() &&
                      process_request(stream, true, closed, [](httplib::Request& request) { request.ranges.clear(); });
    if (!done && stream.too_long() && !stream.answered())
      answer(stream, answer_text("431 Request Header Fields Too Large",
                                 "the request is longer than " + std::to_string(limits_.request_bytes_max) + " bytes"));
    stream.say_goodbye();
  }
  if (stream.too_long()) return report::HttpRefusal::too_long;
  if (stream.too_slow()) return report::HttpRefusal::slow;
  return std::nullopt;
}

}  // namespace ccld::decision::server
