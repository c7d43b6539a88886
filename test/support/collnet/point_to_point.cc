// The half of the plugin that NCCL cannot do without: sends and receives between two ranks. A message is its size, then
// its bytes.
#include <deque>
#include <memory>

#include "test/support/collnet/devices.h"
#include "test/support/collnet/streams.h"

namespace ccld::collnet {
namespace {

struct Message;

struct End {
  explicit End(int fd) : stream(fd) {}
  Stream stream;
  std::deque<Message*> underway;
};

struct Message {
  End* end;
  bool sends;
  uint64_t bytes;
  Piece body;
  Piece head{reinterpret_cast<char*>(&bytes), sizeof bytes};

  bool done() const { return head.left == 0 && body.left == 0; }

  bool move() {
    if (sends) return end->stream.send(&head) && (head.left > 0 || end->stream.send(&body));
    if (head.left > 0) {
      const size_t room = body.left;
      if (!end->stream.receive(&head)) return false;
      if (head.left > 0) return true;
      if (bytes > room) return false;
      body.left = bytes;
    }
    return end->stream.receive(&body);
  }
};

ncclResult_t start(void** context, uint64_t, ncclNetCommConfig_v11_t*, ncclDebugLogger_t, ncclProfilerCallback_t) {
  *context = nullptr;
  return ncclSuccess;
}

ncclResult_t connect(void*, int, void* handle, void** sender, ncclNetDeviceHandle_v11_t**) {
  const int fd = connect_to(*static_cast<Address*>(handle), false);
  *sender = fd < 0 ? nullptr : new End(fd);
  return ncclSuccess;
}

ncclResult_t accept(void* listener, void** receiver, ncclNetDeviceHandle_v11_t**) {
  const int fd = static_cast<Listener*>(listener)->accept(false);
  *receiver = fd < 0 ? nullptr : new End(fd);
  return ncclSuccess;
}

ncclResult_t begin(Message message, void** request) {
  auto* made = new Message(message);
  made->head.data = reinterpret_cast<char*>(&made->bytes);
  made->end->underway.push_back(made);
  *request = made;
  return ncclSuccess;
}

ncclResult_t send(void* sender, void* data, size_t bytes, int, void*, void*, void** request) {
  return begin({static_cast<End*>(sender), true, bytes, {static_cast<char*>(data), bytes}}, request);
}

ncclResult_t receive(void* receiver, int, void** data, size_t* sizes, int*, void**, void**, void** request) {
  return begin({static_cast<End*>(receiver), false, 0, {static_cast<char*>(data[0]), sizes[0]}}, request);
}

ncclResult_t flush(void*, int, void**, int*, void**, void** request) {
  *request = nullptr;
  return ncclSuccess;
}

ncclResult_t test(void* request, int* done, int* size) {
  auto* message = static_cast<Message*>(request);
  std::deque<Message*>& underway = message->end->underway;
  while (!underway.empty()) {
    if (!underway.front()->move()) return ncclRemoteError;
    if (!underway.front()->done()) break;
    underway.pop_front();
  }
  *done = message->done();
  if (*done == 0) return ncclSuccess;
  if (size != nullptr) *size = static_cast<int>(message->bytes);
  delete message;
  return ncclSuccess;
}

ncclResult_t close_end(void* end) {
  delete static_cast<End*>(end);
  return ncclSuccess;
}

ncclNet_v11_t describe() {
  ncclNet_v11_t net{};
  net.name = "software";
  net.init = start;
  net.devices = count_devices;
  net.getProperties = describe_device;
  net.listen = listen;
  net.connect = connect;
  net.accept = accept;
  net.regMr = no_registration;
  net.deregMr = no_deregistration;
  net.isend = send;
  net.irecv = receive;
  net.iflush = flush;
  net.test = test;
  net.closeSend = net.closeRecv = close_end;
  net.closeListen = close_listener;
  net.finalize = finish;
  return net;
}

}  // namespace
}  // namespace ccld::collnet

extern "C" {
__attribute__((visibility("default"))) ncclNet_v11_t ncclNetPlugin_v11 = ccld::collnet::describe();
}
