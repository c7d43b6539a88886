// Byte streams between the processes of one machine (Unix domain sockets), moved along by whoever polls.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace ccld::collnet {

// Where a listener is; small enough for NCCL's handles.
struct Address {
  uint8_t length = 0;
  char name[16] = {};
};

// `wait`: until there is somebody; otherwise -1 means nobody yet.
class Listener {
 public:
  Listener();
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  bool valid() const { return fd_ >= 0; }
  const Address& address() const { return address_; }
  int accept(bool wait);

 private:
  int fd_ = -1;
  Address address_;
};

int connect_to(const Address&, bool wait);

// What is still to be moved.
struct Piece {
  char* data = nullptr;
  size_t left = 0;
};

class Stream {
 public:
  explicit Stream(int fd) : fd_(fd) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Move what can be moved now, or all of it. False: the other end is gone.
  bool send(Piece*, bool wait = false);
  bool receive(Piece*, bool wait = false);

 private:
  int fd_;
};

}  // namespace ccld::collnet
