#include "test/support/collnet/streams.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ccld::collnet {
namespace {

// All connections of a communicator may arrive before the first is accepted.
constexpr int backlog = 1024;

void wait_for(int fd, short events) {
  pollfd ready{fd, events, 0};
  poll(&ready, 1, -1);
}

template <class Move>
bool move(int fd, Piece* piece, bool wait, short event, Move some) {
  while (piece->left > 0) {
    const ssize_t done = some(fd, piece->data, piece->left, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && errno == EAGAIN) {
      if (!wait) return true;
      wait_for(fd, event);
      continue;
    }
    if (done <= 0) return false;
    piece->data += done;
    piece->left -= static_cast<size_t>(done);
  }
  return true;
}

}  // namespace

Listener::Listener() {
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t length = sizeof(sa_family_t);  // the kernel chooses a name
  if (fd_ < 0 || bind(fd_, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(fd_, backlog) != 0) return;
  length = sizeof address;
  getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
  address_.length = static_cast<uint8_t>(length - offsetof(sockaddr_un, sun_path));
  memcpy(address_.name, address.sun_path, address_.length);
}

Listener::~Listener() { close(fd_); }

int Listener::accept(bool wait) {
  if (wait) wait_for(fd_, POLLIN);
  return accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
}

int connect_to(const Address& to, bool wait) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, to.name, to.length);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + to.length);
  if (fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address), length) == 0) return fd;
  close(fd);
  return -1;
}

Stream::~Stream() { close(fd_); }

bool Stream::send(Piece* piece, bool wait) { return move(fd_, piece, wait, POLLOUT, ::send); }

bool Stream::receive(Piece* piece, bool wait) { return move(fd_, piece, wait, POLLIN, ::recv); }

}  // namespace ccld::collnet
