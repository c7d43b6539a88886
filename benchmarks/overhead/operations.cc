// All ranks of a communicator in one process, which does what its standard input says and tells how long it took.
//
// Usage: ccld-bench-operations RANKS [turns]
//
// Each line of input is `OPERATION BYTES COUNT`: allreduce, allgather, reducescatter, broadcast or sendrecv,
// COUNT times, each waited for. The answer is one line with COUNT numbers, nanoseconds from the first call to the end of
// the last rank. With `turns`, blocks run in turns (turns.h); under callgrind (--instr-atstart=no) nothing but the COUNT
// operations is counted then.
//
// The library is whichever libnccl.so.2 the loader finds, so that one program measures all of them. Every error is one
// line and exit status 1.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#endif

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/overhead/turns.h"

namespace ccld::bench {
namespace {

constexpr int warm_up_operations = 3;  // connections are made by the first of a kind

void check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(result));
}
void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
}
#define CCLD_CHECK(call) check((call), #call)

struct Rank {
  ncclComm_t comm;
  cudaStream_t stream;
  char *send, *recv;
};

class Ranks {
 public:
  explicit Ranks(int count) : ranks_(count) {
    std::vector<ncclComm_t> comms(count);
    CCLD_CHECK(ncclCommInitAll(comms.data(), count, nullptr));
    for (int r = 0; r < count; ++r) {
      CCLD_CHECK(cudaSetDevice(r));
      ranks_[r].comm = comms[r];
      CCLD_CHECK(cudaStreamCreateWithFlags(&ranks_[r].stream, cudaStreamNonBlocking));
    }
  }

  // One operation of all ranks; `alone`: each rank's launch is waited for before the next rank's call.
  void run(const std::string& operation, size_t bytes, bool alone) {
    reserve(bytes);
    if (!alone) CCLD_CHECK(ncclGroupStart());
    for (size_t r = 0; r < ranks_.size(); ++r) {
      CCLD_CHECK(cudaSetDevice(static_cast<int>(r)));
      call(operation, bytes, r);
      if (alone) turns_await_launch();
    }
    if (!alone) CCLD_CHECK(ncclGroupEnd());
    for (Rank& rank : ranks_) CCLD_CHECK(cudaStreamSynchronize(rank.stream));
    if (alone) turns_await_idle();
  }

  unsigned count() const { return static_cast<unsigned>(ranks_.size()); }

 private:
  void reserve(size_t bytes) {
    if (bytes <= bytes_) return;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      CCLD_CHECK(cudaSetDevice(static_cast<int>(r)));
      if (bytes_ != 0) {
        CCLD_CHECK(cudaFree(rank.send));
        CCLD_CHECK(cudaFree(rank.recv));
      }
      CCLD_CHECK(cudaMalloc(reinterpret_cast<void**>(&rank.send), bytes));
      CCLD_CHECK(cudaMalloc(reinterpret_cast<void**>(&rank.recv), bytes));
      CCLD_CHECK(cudaMemset(rank.send, 0, bytes));
      CCLD_CHECK(cudaMemset(rank.recv, 0, bytes));
    }
    bytes_ = bytes;
  }

  // `bytes` is the size of the larger buffer.
  void call(const std::string& operation, size_t bytes, size_t r) {
    const Rank& rank = ranks_[r];
    const size_t elements = bytes / sizeof(float), part = elements / ranks_.size();
    if (operation == "allreduce") {
      CCLD_CHECK(ncclAllReduce(rank.send, rank.recv, elements, ncclFloat32, ncclSum, rank.comm, rank.stream));
    } else if (operation == "allgather") {
      CCLD_CHECK(ncclAllGather(rank.send, rank.recv, part, ncclFloat32, rank.comm, rank.stream));
    } else if (operation == "reducescatter") {
      CCLD_CHECK(ncclReduceScatter(rank.send, rank.recv, part, ncclFloat32, ncclSum, rank.comm, rank.stream));
    } else if (operation == "broadcast") {
      CCLD_CHECK(ncclBroadcast(rank.send, rank.recv, elements, ncclFloat32, 0, rank.comm, rank.stream));
    } else if (operation == "sendrecv") {
      const int next = static_cast<int>((r + 1) % ranks_.size());
      const int previous = static_cast<int>((r + ranks_.size() - 1) % ranks_.size());
      CCLD_CHECK(ncclGroupStart());
      CCLD_CHECK(ncclSend(rank.send, elements, ncclFloat32, next, rank.comm, rank.stream));
      CCLD_CHECK(ncclRecv(rank.recv, elements, ncclFloat32, previous, rank.comm, rank.stream));
      CCLD_CHECK(ncclGroupEnd());
    } else {
      throw std::runtime_error("there is no operation '" + operation + "'");
    }
  }

  std::vector<Rank> ranks_;
  size_t bytes_ = 0;
};

// Times (without turns) or counts (with turns) what one line asks for.
void obey(Ranks& ranks, const std::string& line, bool turns) {
  std::istringstream words(line);
  std::string operation;
  size_t bytes = 0, count = 0;
  if (!(words >> operation >> bytes >> count)) throw std::runtime_error("not understood: " + line);
  for (int i = 0; i < warm_up_operations; ++i) ranks.run(operation, bytes, false);
  if (turns) {
    // A root may be done with a broadcast before the others begin: only where all wait for all has every rank a thread of its own.
    ranks.run("allreduce", bytes, false);
    turns_await_idle();
    turns_begin(ranks.count());
    ranks.run(operation, bytes, true);  // one more warm-up, in turns
    CALLGRIND_START_INSTRUMENTATION;
  }
  std::vector<long long> times;
  for (size_t i = 0; i < count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    ranks.run(operation, bytes, turns);
    times.push_back(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
  }
  if (turns) {
    CALLGRIND_STOP_INSTRUMENTATION;
    turns_begin(0);
  }
  for (long long ns : times) printf("%lld ", ns);
  printf("\n");
  fflush(stdout);
}

}  // namespace
}  // namespace ccld::bench

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? atoi(argv[1]) : 0;
  const bool turns = argc > 2 && strcmp(argv[2], "turns") == 0;
  if (ranks < 2 || ranks > 8 || argc > 3 || (argc == 3 && !turns)) {
    fprintf(stderr, "usage: ccld-bench-operations RANKS [turns]     (2 to 8 ranks; see benchmarks/README.md)\n");
    return 2;
  }
  try {
    ccld::bench::Ranks all(ranks);
    printf("ready\n");
    fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) ccld::bench::obey(all, line, turns);
  } catch (const std::exception& error) {
    fprintf(stderr, "ccld-bench-operations: %s\n", error.what());
    return 1;
  }
  fflush(stdout);
  _exit(0);  // tearing down under valgrind takes longer than measuring
}
