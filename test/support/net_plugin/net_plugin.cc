// An external network plugin as a vendor would bring one: NCCL_NET_PLUGIN=/path/libnccl-net-standin.so. Its one device,
// "standin0", carries messages over TCP connections on loopback.
//
// It also offers GPU-initiated networking, which moves nothing: on the CPU device no kernel uses it, and what is tested
// is what the library says when a program asks for it.
//
// Threads: each connection belongs to the progress thread that NCCL uses it from.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>

#include <nccl_gin.h>
#include <nccl_net.h>

namespace {

char device_name[] = "standin0";
constexpr int speed_mbps = 10000;
constexpr uint64_t message_max = 1 << 30;

struct Request {
  bool is_send;
  char* data;
  uint64_t room;       // of a receive
  uint64_t size = 0;   // of the message: known to the sender, told to the receiver first
  uint64_t moved = 0;  // of the size and the data together
  bool done = false;
};

// Messages of one direction, one after the other.
struct Connection {
  explicit Connection(int socket) : socket(socket) {}
  ~Connection() { close(socket); }
  const int socket;
  std::deque<Request*> waiting;
};

struct Listener {
  int socket;
};

struct Handle {
  uint16_t port;
};
static_assert(sizeof(Handle) <= NCCL_NET_HANDLE_MAXSIZE);

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

void make_quick(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

// Moves some of `size` bytes at `bytes`. Negative: the peer is gone.
ssize_t move_some(const Connection& connection, bool is_send, void* bytes, size_t size) {
  const ssize_t moved =
      is_send ? send(connection.socket, bytes, size, MSG_NOSIGNAL) : recv(connection.socket, bytes, size, 0);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return moved == 0 ? -1 : moved;
}

ncclResult_t progress(Connection& connection) {
  while (!connection.waiting.empty()) {
    Request& request = *connection.waiting.front();
    constexpr uint64_t head = sizeof request.size;
    while (request.moved < head || request.moved < head + request.size) {
      char* at = request.moved < head ? reinterpret_cast<char*>(&request.size) + request.moved
                                      : request.data + (request.moved - head);
      const uint64_t left = request.moved < head ? head - request.moved : head + request.size - request.moved;
      const ssize_t moved = move_some(connection, request.is_send, at, left);
      if (moved < 0) return ncclRemoteError;
      if (moved == 0) return ncclSuccess;
      request.moved += static_cast<uint64_t>(moved);
      if (request.moved == head && request.size > (request.is_send ? message_max : request.room))
        return ncclInternalError;
    }
    request.done = true;
    connection.waiting.pop_front();
  }
  return ncclSuccess;
}

// What test() is given: the request and its connection.
struct Pending {
  Request request;
  Connection* connection;
};

ncclResult_t begin(void* comm, Request request, void** out) {
  auto* connection = static_cast<Connection*>(comm);
  auto* pending = new Pending{request, connection};
  connection->waiting.push_back(&pending->request);
  *out = pending;
  return ncclSuccess;
}

ncclResult_t init(void** context, uint64_t, ncclNetCommConfig_v11_t*, ncclDebugLogger_t, ncclProfilerCallback_t) {
  *context = nullptr;
  return ncclSuccess;
}

ncclResult_t devices(int* count) {
  *count = 1;
  return ncclSuccess;
}

ncclResult_t properties_as(ncclNetDeviceType type, ncclNetProperties_v11_t* properties) {
  *properties = {};
  properties->name = device_name;
  properties->ptrSupport = NCCL_PTR_HOST | NCCL_PTR_CUDA;  // the CPU device's memory is the host's
  properties->speed = speed_mbps;
  properties->maxComms = 65536;
  properties->maxRecvs = 1;
  properties->netDeviceType = type;
  properties->vProps.ndevs = 1;
  properties->maxP2pBytes = properties->maxCollBytes = message_max;
  return ncclSuccess;
}

ncclResult_t get_properties(int, ncclNetProperties_v11_t* properties) {
  return properties_as(NCCL_NET_DEVICE_HOST, properties);
}

ncclResult_t begin_listening(void*, int, void* handle, void** listener) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (socket < 0 || bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(socket, SOMAXCONN) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ncclSystemError;
  }
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  static_cast<Handle*>(handle)->port = ntohs(address.sin_port);
  *listener = new Listener{socket};
  return ncclSuccess;
}

ncclResult_t connect_to(void*, int, void* handle, void** comm, ncclNetDeviceHandle_v11_t** device_comm) {
  if (device_comm != nullptr) *device_comm = nullptr;
  const sockaddr_in address = loopback(static_cast<Handle*>(handle)->port);
  auto connection = std::make_unique<Connection>(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // On loopback this does not wait: the kernel takes it in the listener's place.
  if (connect(connection->socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return ncclSystemError;
  make_quick(connection->socket);
  *comm = connection.release();
  return ncclSuccess;
}

ncclResult_t accept_one(void* listener, void** comm, ncclNetDeviceHandle_v11_t** device_comm) {
  if (device_comm != nullptr) *device_comm = nullptr;
  *comm = nullptr;
  const int socket = accept4(static_cast<Listener*>(listener)->socket, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket < 0) return errno == EAGAIN || errno == EINTR ? ncclSuccess : ncclSystemError;
  make_quick(socket);
  *comm = new Connection(socket);
  return ncclSuccess;
}

ncclResult_t register_memory(void*, void*, size_t, int, void** handle) {
  *handle = nullptr;
  return ncclSuccess;
}
ncclResult_t forget_memory(void*, void*) { return ncclSuccess; }

ncclResult_t send_message(void* comm, void* data, size_t size, int, void*, void*, void** request) {
  return begin(comm, {true, static_cast<char*>(data), 0, size}, request);
}

ncclResult_t receive_message(void* comm, int, void** data, size_t* sizes, int*, void**, void**, void** request) {
  return begin(comm, {false, static_cast<char*>(data[0]), sizes[0]}, request);
}

ncclResult_t flush(void*, int, void**, int*, void**, void** request) {
  *request = nullptr;  // no GPU caches anything
  return ncclSuccess;
}

ncclResult_t test(void* request, int* done, int* size) {
  auto* pending = static_cast<Pending*>(request);
  const ncclResult_t result = progress(*pending->connection);
  *done = pending->request.done ? 1 : 0;
  if (*done == 0) return result;
  if (size != nullptr) *size = static_cast<int>(pending->request.size);
  delete pending;
  return ncclSuccess;
}

ncclResult_t close_connection(void* comm) {
  delete static_cast<Connection*>(comm);
  return ncclSuccess;
}

ncclResult_t stop_listening(void* listener) {
  close(static_cast<Listener*>(listener)->socket);
  delete static_cast<Listener*>(listener);
  return ncclSuccess;
}

ncclResult_t finalize(void*) { return ncclSuccess; }

// ---- GPU-initiated networking: what the host calls of it
// -------------------------------------------------------------

ncclResult_t gin_init(void** context, uint64_t, ncclDebugLogger_t) {
  *context = nullptr;
  return ncclSuccess;
}
ncclResult_t gin_properties(int, ncclNetProperties_v11_t* properties) {
  return properties_as(NCCL_NET_DEVICE_GIN_GDAKI, properties);
}
ncclResult_t gin_connect(void*, void*[], int, int, int, int, void*, void** comm) {
  *comm = device_name;  // anything but null
  return ncclSuccess;
}
ncclResult_t gin_create_context(void*, int, int, int, void** context, ncclNetDeviceHandle_v11_t** device_handle) {
  *context = device_name;
  *device_handle = new ncclNetDeviceHandle_v11_t{};
  (*device_handle)->netDeviceType = NCCL_NET_DEVICE_GIN_GDAKI;
  return ncclSuccess;
}
ncclResult_t gin_register(void*, void*, size_t, int, uint64_t, void** handle, void** gin_handle) {
  *handle = *gin_handle = device_name;
  return ncclSuccess;
}
ncclResult_t gin_has_error(void*, bool* has_error) {
  *has_error = false;
  return ncclSuccess;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) ncclNet_v11_t ncclNetPlugin_v11 = {
    .name = "standin",
    .init = init,
    .devices = devices,
    .getProperties = get_properties,
    .listen = begin_listening,
    .connect = connect_to,
    .accept = accept_one,
    .regMr = register_memory,
    .regMrDmaBuf = nullptr,
    .deregMr = forget_memory,
    .isend = send_message,
    .irecv = receive_message,
    .iflush = flush,
    .test = test,
    .closeSend = close_connection,
    .closeRecv = close_connection,
    .closeListen = stop_listening,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
    .finalize = finalize,
    .setNetAttr = nullptr,
};

__attribute__((visibility("default"))) ncclGin_v12_t ncclGinPlugin_v12 = {
    .name = "standin",
    .init = gin_init,
    .devices = devices,
    .getProperties = gin_properties,
    .listen = begin_listening,
    .connect = gin_connect,
    .createContext = gin_create_context,
    .regMrSym = gin_register,
    .regMrSymDmaBuf = nullptr,
    .deregMrSym = forget_memory,
    .destroyContext = finalize,
    .closeColl = finalize,
    .closeListen = stop_listening,
    .iput = nullptr,
    .iputSignal = nullptr,
    .test = nullptr,
    .ginProgress = nullptr,
    .queryLastError = gin_has_error,
    .finalize = finalize,
};
}
