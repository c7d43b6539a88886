#include "decision/server/connection_pool.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "decision/server/clock.h"
#include "decision/server/request_head.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

using report::HttpRefusal;

// A connection that is closed with unread bytes is reset, and the client may lose the answer: so much of them is read.
constexpr size_t leftovers_max = 64 * 1024;
constexpr Nanoseconds ending_max_ns = 100 * ns_per_ms;
// As many as may wait; beyond that the longest ending one is closed.
constexpr size_t endings_max = 128;
constexpr Nanoseconds told_every_ns = 60 * ns_per_s;
constexpr uint64_t alarm_id = 0;

bool has_unread(int descriptor) {
  int bytes = 0;
  return ioctl(descriptor, FIONREAD, &bytes) == 0 && bytes > 0;
}

}  // namespace

ConnectionPool::ConnectionPool(Options options, Serve serve)
    : options_(std::move(options)),
      serve_(std::move(serve)),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      alarm_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      queue_(options_.limits),
      next_id_(alarm_id + 1) {
  watch(alarm_, alarm_id);
}

ConnectionPool::~ConnectionPool() {
  stop();
  close(alarm_);
  close(events_);
}

void ConnectionPool::start() {
  serving_ = looking_after_ = true;
  for (size_t i = 0; i < options_.limits.threads; ++i) threads_.emplace_back([this] { serve_turns(); });
  looker_ = std::thread([this] { look_after(); });
}

void ConnectionPool::stop() {
  if (!looker_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    serving_ = false;
  }
  turn_.notify_all();
  for (std::thread& t : threads_) t.join();
  threads_.clear();
  {
    const std::lock_guard lock(mutex_);
    looking_after_ = false;
  }
  wake_up();
  looker_.join();
  for (const ConnectionQueue::Connection& c : queue_.take_all()) close(c.descriptor);
  for (const ToEnd& e : to_end_) close(e.descriptor);
  to_end_.clear();
  for (const Ending& e : ending_) close(e.descriptor);
  ending_.clear();
}

report::HttpCounters ConnectionPool::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void ConnectionPool::take(int descriptor) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &length) != 0) {
    close(descriptor);  // gone already
    return;
  }
  const Nanoseconds until_ns = monotonic_now_ns() + options_.request_timeout_ns;
  {
    const std::lock_guard lock(mutex_);
    const uint64_t id = next_id_++;
    const auto lost = queue_.add({id, descriptor, sharer_of(peer)}, until_ns);
    if (!lost.has_value() || lost->connection.id != id) watch(descriptor, id);
    if (lost.has_value()) {
      ++counters_[lost->reason];
      newest_refused_ = lost->connection.address;
      if (to_end_.size() < endings_max)
        to_end_.push_back({lost->connection.descriptor, true});
      else
        close(lost->connection.descriptor);
    }
  }
  wake_up();
}

void ConnectionPool::serve_turns() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto turn = queue_.next();
    if (!turn.has_value()) {
      if (!serving_) return;
      turn_.wait(lock);
      continue;
    }
    lock.unlock();
    const auto refusal = serve_(turn->connection.descriptor, turn->hurry);
    lock.lock();
    if (refusal.has_value()) ++counters_[*refusal];
    queue_.done(turn->connection.address);
    to_end_.push_back({turn->connection.descriptor, false});
    wake_up();
  }
}

void ConnectionPool::look_after() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = epoll_wait(events_, events.data(), static_cast<int>(events.size()), until_next_ms());
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      look_at_silent(id);
      look_at_ending(id);
    }
    end_slow();
    end_all_that_shall();
    while (!ending_.empty() && (ending_.front().until_ns <= monotonic_now_ns() || ending_.size() > endings_max)) {
      close(ending_.front().descriptor);
      ending_.pop_front();
    }
    tell_refusals();
    const std::lock_guard lock(mutex_);
    if (!looking_after_) return;
  }
}

// For epoll_wait(); -1: nothing ends by time.
int ConnectionPool::until_next_ms() {
  const std::lock_guard lock(mutex_);
  if (!to_end_.empty() || !looking_after_) return 0;
  const Nanoseconds next_ns = std::min(queue_.next_expiry_ns(), ending_.empty() ? INT64_MAX : ending_.front().until_ns);
  if (next_ns == INT64_MAX) return -1;
  return static_cast<int>(std::max<Nanoseconds>(0, (next_ns - monotonic_now_ns()) / ns_per_ms + 1));
}

// Under the lock: meanwhile it may be pushed out and its descriptor be another connection's.
void ConnectionPool::look_at_silent(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const ConnectionQueue::Connection* const c = queue_.silent(id);
  if (c == nullptr) return;
  std::array<char, head_bytes_max> begin;
  const ssize_t size = recv(c->descriptor, begin.data(), begin.size(), MSG_PEEK | MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {  // the client went away
    to_end_.push_back({c->descriptor, false});
    queue_.remove(id);
    return;
  }
  pollfd p{c->descriptor, POLLRDHUP, 0};
  const bool is_all = poll(&p, 1, 0) > 0;
  if (!is_all && !has_head({begin.data(), static_cast<size_t>(size)}, options_.tls)) return;
  epoll_ctl(events_, EPOLL_CTL_DEL, c->descriptor, nullptr);
  queue_.make_ready(id);
  turn_.notify_one();
}

void ConnectionPool::end_slow() {
  const std::lock_guard lock(mutex_);
  for (const ConnectionQueue::Connection& c : queue_.take_expired(monotonic_now_ns())) {
    // Browsers open connections ahead: one over which nothing came is nobody who was refused.
    if (has_unread(c.descriptor)) ++counters_[HttpRefusal::slow];
    to_end_.push_back({c.descriptor, false});
  }
}

void ConnectionPool::end_all_that_shall() {
  std::vector<ToEnd> now;
  {
    const std::lock_guard lock(mutex_);
    now.swap(to_end_);
  }
  for (const ToEnd& each : now) end(each);
}

void ConnectionPool::end(const ToEnd& c) {
  if (c.refused && !options_.tls)
    send(c.descriptor, options_.no_room.data(), options_.no_room.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  // A client that is refused may be about to send its request.
  if (!c.refused && !has_unread(c.descriptor)) {
    close(c.descriptor);
    return;
  }
  shutdown(c.descriptor, SHUT_WR);
  epoll_ctl(events_, EPOLL_CTL_DEL, c.descriptor, nullptr);  // under the number that it had while it was silent
  uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_id_++;
  }
  ending_.push_back({id, c.descriptor, monotonic_now_ns() + ending_max_ns, leftovers_max});
  watch(c.descriptor, id);
}

void ConnectionPool::look_at_ending(uint64_t id) {
  const auto e = std::find_if(ending_.begin(), ending_.end(), [id](const Ending& each) { return each.id == id; });
  if (e == ending_.end()) return;
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t size = recv(e->descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size > 0 && static_cast<size_t>(size) < e->bytes_left) {
      e->bytes_left -= static_cast<size_t>(size);
      continue;
    }
    close(e->descriptor);
    ending_.erase(e);
    return;
  }
}

void ConnectionPool::tell_refusals() {
  const Nanoseconds now_ns = monotonic_now_ns();
  if (now_ns < next_told_ns_) return;
  report::HttpCounters counters;
  std::string newest;
  {
    const std::lock_guard lock(mutex_);
    counters = counters_;
    newest = newest_refused_;
  }
  const uint64_t no_room = counters[HttpRefusal::no_room] - told_[HttpRefusal::no_room];
  const uint64_t pushed_out = counters[HttpRefusal::pushed_out] - told_[HttpRefusal::pushed_out];
  if (no_room + pushed_out == 0) return;
  next_told_ns_ = now_ns + told_every_ns;
  told_ = counters;
  spdlog::warn(
      "query API: more than {} connections waited: {} new ones were refused, and {} closed whose request had not come; "
      "the newest of them from {}",
      options_.limits.waiting_max, no_room, pushed_out, newest);
}

// EPOLLET: only what is new is told, so a part of a request is looked at once, and the alarm need not be read.
void ConnectionPool::watch(int descriptor, uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
  event.data.u64 = id;
  epoll_ctl(events_, EPOLL_CTL_ADD, descriptor, &event);
}

void ConnectionPool::wake_up() const {
  const uint64_t one = 1;
  if (write(alarm_, &one, sizeof(one)) < 0) spdlog::debug("the alarm cannot be rung");  // after 2^64 times
}

}  // namespace ccld::decision::server
