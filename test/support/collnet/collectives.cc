// The half of the plugin that is a collective network. Each member sends its part to all others, and adds up what it
// got in the order of the members, so that all have the same sums.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "test/support/collnet/devices.h"
#include "test/support/collnet/streams.h"

namespace ccld::collnet {
namespace {

struct Operation;

struct Peer {
  std::unique_ptr<Stream> stream;  // none: this member itself
  std::deque<Operation*> sending, receiving;
};

struct Group {
  int members, me;
  std::vector<Peer> peers;
};

// `out` and `in`: what goes to each peer and comes from it; those of this member itself stay empty.
struct Operation {
  Group* group;
  std::vector<Piece> out, in;
  std::vector<std::vector<float>> terms;  // of a sum, one for each member
  float* sum = nullptr;
  int bytes = 0;

  bool done() const {
    const auto moved = [](const Piece& piece) { return piece.left == 0; };
    return std::all_of(out.begin(), out.end(), moved) && std::all_of(in.begin(), in.end(), moved);
  }

  void expect_terms(const void* own, size_t bytes_each) {
    terms.assign(static_cast<size_t>(group->members), std::vector<float>(bytes_each / sizeof(float)));
    for (size_t i = 0; i < terms.size(); ++i) {
      if (i != static_cast<size_t>(group->me)) in[i] = {reinterpret_cast<char*>(terms[i].data()), bytes_each};
    }
    if (bytes_each > 0) memcpy(terms[static_cast<size_t>(group->me)].data(), own, bytes_each);
  }

  void add_up() {
    if (terms.empty()) return;
    for (size_t k = 0; k < terms[0].size(); ++k) {
      float value = terms[0][k];
      for (size_t i = 1; i < terms.size(); ++i) value += terms[i][k];
      sum[k] = value;
    }
  }
};

// The part of a window that belongs to a member, as offsets in the window.
struct Part {
  size_t begin, end;
  size_t bytes() const { return end - begin; }
};
Part part_of(int member, size_t bytes_each, size_t window_begin, size_t window_bytes) {
  const auto within = [&](size_t at) {
    return std::clamp(at, window_begin, window_begin + window_bytes) - window_begin;
  };
  const size_t begin = static_cast<size_t>(member) * bytes_each;
  return {within(begin), within(begin + bytes_each)};
}

ncclResult_t start(void** context, uint64_t, ncclDebugLogger_t) {
  *context = nullptr;
  return ncclSuccess;
}

// Each member connects to those before it and is connected to by those after it. NCCL calls this on all of them at a
// time.
ncclResult_t connect(void* handles[], int members, int me, void* listener, void** group) {
  auto made = std::make_unique<Group>(Group{members, me, std::vector<Peer>(static_cast<size_t>(members))});
  for (int i = 0; i < me; ++i) {
    const int fd = connect_to(*static_cast<Address*>(handles[i]), true);
    if (fd < 0) return ncclSystemError;
    auto& stream = made->peers[static_cast<size_t>(i)].stream = std::make_unique<Stream>(fd);
    Piece hello{reinterpret_cast<char*>(&me), sizeof me};
    if (!stream->send(&hello, true)) return ncclSystemError;
  }
  for (int i = me + 1; i < members; ++i) {
    const int fd = static_cast<Listener*>(listener)->accept(true);
    if (fd < 0) return ncclSystemError;
    auto stream = std::make_unique<Stream>(fd);
    int who = 0;
    Piece hello{reinterpret_cast<char*>(&who), sizeof who};
    if (!stream->receive(&hello, true) || who <= me || who >= members) return ncclSystemError;
    made->peers[static_cast<size_t>(who)].stream = std::move(stream);
  }
  *group = made.release();
  return ncclSuccess;
}

ncclResult_t can_reduce(ncclDataType_t type, ncclRedOp_t reduction, int* supported) {
  *supported = type == ncclFloat32 && reduction == ncclSum;
  return ncclSuccess;
}

std::unique_ptr<Operation> operation_in(void* group_pointer) {
  auto* group = static_cast<Group*>(group_pointer);
  const auto members = static_cast<size_t>(group->members);
  return std::unique_ptr<Operation>(new Operation{group, std::vector<Piece>(members), std::vector<Piece>(members), {}});
}

ncclResult_t begin(std::unique_ptr<Operation> operation, size_t bytes, void** request) {
  operation->bytes = static_cast<int>(bytes);
  for (Peer& peer : operation->group->peers) {
    if (peer.stream == nullptr) continue;
    peer.sending.push_back(operation.get());
    peer.receiving.push_back(operation.get());
  }
  *request = operation.release();
  return ncclSuccess;
}

ncclResult_t all_reduce(void* group, void* from, void* to, size_t count, ncclDataType_t, ncclRedOp_t, void*, void*,
                        void** request) {
  const size_t bytes = count * sizeof(float);
  auto operation = operation_in(group);
  for (Piece& piece : operation->out) piece = {static_cast<char*>(from), bytes};
  operation->expect_terms(from, bytes);
  operation->sum = static_cast<float*>(to);
  return begin(std::move(operation), bytes, request);
}

ncclResult_t all_gather(void* group, void* from, int, ncclNetSGE_v11_t* to, size_t bytes_each, size_t window_begin,
                        size_t window_bytes, void*, void** request) {
  auto operation = operation_in(group);
  const int me = operation->group->me;
  char* window = static_cast<char*>(to[0].address);
  const Part own = part_of(me, bytes_each, window_begin, window_bytes);
  for (int i = 0; i < operation->group->members; ++i) {
    const auto at = static_cast<size_t>(i);
    const Part theirs = part_of(i, bytes_each, window_begin, window_bytes);
    operation->out[at] = {static_cast<char*>(from), own.bytes()};
    if (i != me) operation->in[at] = {window + theirs.begin, theirs.bytes()};
  }
  if (own.bytes() > 0) memcpy(window + own.begin, from, own.bytes());
  return begin(std::move(operation), window_bytes, request);
}

ncclResult_t reduce_scatter(void* group, int, ncclNetSGE_v11_t* from, void* to, size_t bytes_each, size_t window_begin,
                            size_t window_bytes, ncclDataType_t, ncclRedOp_t, void*, void** request) {
  auto operation = operation_in(group);
  char* window = static_cast<char*>(from[0].address);
  for (int i = 0; i < operation->group->members; ++i) {
    const Part theirs = part_of(i, bytes_each, window_begin, window_bytes);
    operation->out[static_cast<size_t>(i)] = {window + theirs.begin, theirs.bytes()};
  }
  const Part own = part_of(operation->group->me, bytes_each, window_begin, window_bytes);
  operation->expect_terms(window + own.begin, own.bytes());
  operation->sum = static_cast<float*>(to);
  return begin(std::move(operation), window_bytes, request);
}

ncclResult_t flush(void*, void*, int, void*, void** request) {
  *request = nullptr;
  return ncclSuccess;
}

// Operations of a peer take turns.
template <class Move>
bool move_along(std::deque<Operation*>* queue, std::vector<Piece> Operation::*pieces, size_t peer, Move move) {
  while (!queue->empty()) {
    Piece& piece = (queue->front()->*pieces)[peer];
    if (!move(&piece)) return false;
    if (piece.left > 0) break;
    queue->pop_front();
  }
  return true;
}

ncclResult_t test(void* request, int* done, int* size) {
  std::unique_ptr<Operation> operation(static_cast<Operation*>(request));
  std::vector<Peer>& peers = operation->group->peers;
  for (size_t i = 0; i < peers.size(); ++i) {
    Stream* stream = peers[i].stream.get();
    if (stream == nullptr) {
      operation->out[i].left = 0;
      continue;
    }
    if (!move_along(&peers[i].sending, &Operation::out, i, [&](Piece* piece) { return stream->send(piece); }) ||
        !move_along(&peers[i].receiving, &Operation::in, i, [&](Piece* piece) { return stream->receive(piece); })) {
      operation.release();
      return ncclRemoteError;
    }
  }
  *done = operation->done();
  if (*done == 0) {
    operation.release();
    return ncclSuccess;
  }
  operation->add_up();
  if (size != nullptr) *size = operation->bytes;
  return ncclSuccess;
}

ncclResult_t close_group(void* group) {
  delete static_cast<Group*>(group);
  return ncclSuccess;
}

ncclCollNet_v11_t describe() {
  ncclCollNet_v11_t net{};
  net.name = "software";
  net.init = start;
  net.devices = count_devices;
  net.getProperties = describe_device;
  net.listen = listen;
  net.connect = connect;
  net.reduceSupport = can_reduce;
  net.regMr = no_registration;
  net.deregMr = no_deregistration;
  net.iallreduce = all_reduce;
  net.iallgather = all_gather;
  net.ireducescatter = reduce_scatter;
  net.iflush = flush;
  net.test = test;
  net.closeColl = close_group;
  net.closeListen = close_listener;
  net.finalize = finish;
  return net;
}

}  // namespace
}  // namespace ccld::collnet

extern "C" {
__attribute__((visibility("default"))) ncclCollNet_v11_t ncclCollNetPlugin_v11 = ccld::collnet::describe();
}
