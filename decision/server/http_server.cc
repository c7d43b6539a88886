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

#include "decision/server/tls_connection.h"

namespace ccld::decision::server {
namespace {

using Clock = std::chrono::steady_clock;

// Set while a connection for which there is no room is answered by the thread that accepts.
thread_local bool refusing = false;

// Waits for a thread of the pool, or is refused at once.
class BoundedQueue : public httplib::TaskQueue {
 public:
  BoundedQueue(size_t threads, size_t waiting_max) : pool_(threads), waiting_max_(waiting_max) {}
  void enqueue(std::function<void()> serve) override {
    if (waiting_.load() >= waiting_max_) {
      refusing = true;
      serve();
      refusing = false;
      return;
    }
    ++waiting_;
    pool_.enqueue([this, serve = std::move(serve)] {
      --waiting_;
      serve();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  httplib::ThreadPool pool_;
  const size_t waiting_max_;
  std::atomic<size_t> waiting_ = 0;
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
      if (left <= 0) return false;
      pollfd p{fd_, events, 0};
      const int ready = poll(&p, 1, static_cast<int>(left));
      if (ready >= 0 || errno != EINTR) return ready > 0;
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
  std::array<char, 4096> buffer_;
  size_t begin_ = 0, end_ = 0;
};

void answer(BoundedStream& stream, const char* status, const std::string& error) {
  const std::string body = "{\"error\":\"" + error + "\"}\n";
  const std::string text = std::string("HTTP/1.1 ") + status + "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " +
                           std::to_string(body.size()) + "\r\n\r\n" + body;
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = stream.write(text.data() + sent, text.size() - sent);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

// A connection that is closed with unread bytes is reset, and the client may lose the answer: some of them are read.
void read_leftovers(socket_t fd, std::chrono::milliseconds timeout) {
  constexpr size_t leftovers_max = 64 * 1024;
  ::shutdown(fd, SHUT_WR);
  const auto until = Clock::now() + timeout;
  std::array<char, 4096> bytes;
  for (size_t read = 0; read < leftovers_max;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd p{fd, POLLIN, 0};
    if (left <= 0 || poll(&p, 1, static_cast<int>(left)) <= 0) return;
    const ssize_t n = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n <= 0) return;
    read += static_cast<size_t>(n);
  }
}

bool has_unread(socket_t fd) {
  char byte;
  return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

}  // namespace

HttpServer::HttpServer(const HttpLimits& limits, std::shared_ptr<const TlsBook> tls) : limits_(limits), tls_(std::move(tls)) {
  new_task_queue = [this] { return new BoundedQueue(limits_.threads, limits_.connections_waiting_max); };
}

void HttpServer::widen_backlog() { ::listen(svr_sock_, limits_.backlog); }

bool HttpServer::process_and_close_socket(socket_t fd) {
  const bool busy = ++busy_ > limits_.threads - limits_.threads_in_reserve;
  BoundedStream stream(fd, limits_.request_bytes_max, busy ? limits_.request_timeout_busy : limits_.request_timeout,
                       busy ? limits_.answer_timeout_busy : limits_.answer_timeout);
  bool done = false;
  // The thread that accepts waits for no handshake: with TLS it refuses without a word.
  const bool speaks = tls_ == nullptr || (!refusing && stream.encrypt(tls_->newest()));
  if (speaks && refusing) {
    answer(stream, "503 Service Unavailable", "too many clients wait");
  } else if (speaks) {
    bool closed = false;
    done = stream.is_readable() &&
           process_request(stream, true, closed, [](httplib::Request& request) { request.ranges.clear(); });
    if (!done && stream.too_long() && !stream.answered())
      answer(stream, "431 Request Header Fields Too Large",
             "the request is longer than " + std::to_string(limits_.request_bytes_max) + " bytes");
    stream.say_goodbye();
    if (has_unread(fd)) read_leftovers(fd, busy ? limits_.request_timeout_busy / 2 : limits_.request_timeout_busy);
  }
  ::shutdown(fd, SHUT_RDWR);
  ::close(fd);
  --busy_;
  return done;
}

}  // namespace ccld::decision::server
