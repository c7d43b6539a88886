#include "nccl/cpu_device/cuda/streams.h"

#include <cuda_runtime_api.h>
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "nccl/cpu_device/base/clock.h"
#include "test/unit/cpu_device/gate.h"
#include "test/unit/cpu_device/launch.h"

using namespace ccld::cpu_device;

extern "C" int ccld_cpu_device_busy(void* stream, unsigned long long device_ns);

namespace {

struct Streams {
  cudaStream_t blocking, other_blocking, non_blocking;
  Streams() {
    cudaStreamCreate(&blocking);
    cudaStreamCreate(&other_blocking);
    cudaStreamCreateWithFlags(&non_blocking, cudaStreamNonBlocking);
  }
  ~Streams() {
    for (cudaStream_t stream : {blocking, other_blocking, non_blocking}) {
      cudaStreamSynchronize(stream);
      cudaStreamDestroy(stream);
    }
  }
};

// A journal that streams write to.
struct Journal {
  std::mutex mutex;
  std::string text;
  struct Entry {
    Journal* journal;
    char letter;
  };
  std::deque<Entry> entries;

  void write_from(cudaStream_t stream, char letter) {
    entries.push_back({this, letter});
    cudaLaunchHostFunc(
        stream,
        [](void* data) {
          auto* entry = static_cast<Entry*>(data);
          std::lock_guard<std::mutex> lock(entry->journal->mutex);
          entry->journal->text += entry->letter;
        },
        &entries.back());
  }
  std::string read() {
    std::lock_guard<std::mutex> lock(mutex);
    return text;
  }
};

}  // namespace

TEST_CASE("Work of one stream runs in order, and a synchronisation waits for all of it", "[streams]") {
  Streams streams;
  Journal journal;
  for (char letter = 'a'; letter <= 'z'; ++letter) journal.write_from(streams.blocking, letter);
  REQUIRE(cudaStreamSynchronize(streams.blocking) == cudaSuccess);
  REQUIRE(journal.read() == "abcdefghijklmnopqrstuvwxyz");
}

TEST_CASE("Streams run side by side", "[streams]") {
  Streams streams;
  Gate gate;
  Journal journal;
  gate.close_stream(streams.blocking);
  journal.write_from(streams.other_blocking, 'x');
  REQUIRE(cudaStreamSynchronize(streams.other_blocking) == cudaSuccess);
  REQUIRE(journal.read() == "x");
}

TEST_CASE("The default stream waits for earlier work of blocking streams", "[streams]") {
  Streams streams;
  Gate gate;
  Journal journal;
  gate.close_stream(streams.blocking);
  journal.write_from(streams.blocking, 'b');
  journal.write_from(nullptr, 'd');
  REQUIRE(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  gate.open();
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  REQUIRE(journal.read() == "bd");
  cudaGetLastError();
}

TEST_CASE("Later work of blocking streams waits for the default stream", "[streams]") {
  Streams streams;
  Gate gate;
  Journal journal;
  gate.close_stream(nullptr);
  journal.write_from(streams.blocking, 'b');
  journal.write_from(streams.other_blocking, 'c');
  gate.wait_for_arrival();
  REQUIRE(journal.read().empty());
  journal.write_from(nullptr, 'd');  // after both
  gate.open();
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  REQUIRE(journal.read().size() == 3);
  REQUIRE(journal.read().back() == 'd');
}

TEST_CASE("A non-blocking stream has nothing to do with the default stream", "[streams]") {
  Streams streams;
  Journal journal;
  {
    Gate gate;
    gate.close_stream(nullptr);
    journal.write_from(streams.non_blocking, 'n');
    REQUIRE(cudaStreamSynchronize(streams.non_blocking) == cudaSuccess);
  }
  cudaStreamSynchronize(nullptr);
  Gate gate;
  gate.close_stream(streams.non_blocking);
  journal.write_from(nullptr, 'd');
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  REQUIRE(journal.read() == "nd");
}

TEST_CASE("Default streams of different devices are independent", "[streams]") {
  Gate gate;
  gate.close_stream(nullptr);
  cudaSetDevice(1);
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  cudaSetDevice(0);
  gate.open();
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("A thread's default stream is a blocking stream of its own", "[streams]") {
  unsigned long long mine = 0, again = 0, theirs = 0;
  cudaStreamGetId(cudaStreamPerThread, &mine);
  cudaStreamGetId(cudaStreamPerThread, &again);
  std::thread([&] { cudaStreamGetId(cudaStreamPerThread, &theirs); }).join();
  REQUIRE(mine == again);
  REQUIRE(mine != theirs);
  Gate gate;
  Journal journal;
  gate.close_stream(cudaStreamPerThread);
  journal.write_from(cudaStreamLegacy, 'd');
  gate.wait_for_arrival();
  REQUIRE(journal.read().empty());
  gate.open();
  cudaStreamSynchronize(cudaStreamLegacy);
  REQUIRE(journal.read() == "d");
}

TEST_CASE("Destroying a stream returns at once and its work still runs", "[streams]") {
  cudaStream_t stream;
  Gate gate;
  Journal journal;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  gate.close_stream(stream);
  journal.write_from(stream, 'x');
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  REQUIRE(journal.read().empty());
  gate.open();
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);  // covers the destroyed stream, too
  REQUIRE(journal.read() == "x");
}

TEST_CASE("A handle that is not a stream is refused", "[streams]") {
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaStreamDestroy(stream);
  REQUIRE(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaStreamCreateWithFlags(&stream, 0x80) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("A query tells whether work is left", "[streams]") {
  Streams streams;
  Gate gate;
  gate.close_stream(streams.non_blocking);
  REQUIRE(cudaStreamQuery(streams.non_blocking) == cudaErrorNotReady);
  gate.open();
  cudaStreamSynchronize(streams.non_blocking);
  REQUIRE(cudaStreamQuery(streams.non_blocking) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("A busy device takes the time it was asked to", "[streams]") {
  Streams streams;
  Gate gate;
  gate.close_stream(streams.blocking);
  REQUIRE(ccld_cpu_device_busy(streams.blocking, 30'000'000) == cudaSuccess);
  REQUIRE(cudaStreamQuery(streams.blocking) == cudaErrorNotReady);
  const uint64_t begin_ns = monotonic_ns();
  gate.open();
  REQUIRE(cudaStreamSynchronize(streams.blocking) == cudaSuccess);
  REQUIRE(monotonic_ns() - begin_ns >= 30'000'000);
  cudaGetLastError();
}

TEST_CASE("Who submits far ahead of a stream is held until it catches up", "[streams]") {
  Streams streams;
  Gate gate;
  gate.close_stream(streams.non_blocking);
  std::atomic<uint64_t> submitted{1};
  std::atomic<uint64_t> done{0};
  std::thread submitter([&] {
    for (uint64_t i = 0; i < stream_backlog_max + 10; ++i) {
      cudaLaunchHostFunc(
          streams.non_blocking, [](void* count) { ++*static_cast<std::atomic<uint64_t>*>(count); }, &done);
      ++submitted;
    }
  });
  while (submitted < stream_backlog_max) std::this_thread::yield();
  sleep_ns(20'000'000);
  const uint64_t submitted_while_held = submitted;
  gate.open();
  submitter.join();
  REQUIRE(submitted_while_held == stream_backlog_max);
  REQUIRE(cudaStreamSynchronize(streams.non_blocking) == cudaSuccess);
  REQUIRE(done == stream_backlog_max + 10);
}

TEST_CASE("Kernels run in the order of their streams and see what copies before them wrote", "[streams]") {
  Streams streams;
  int* value;
  cudaMalloc(reinterpret_cast<void**>(&value), sizeof *value);
  const KernelBody add_one = [&] {
    if (thread_index() == 0) ++*value;
  };
  int start = 41, result = 0;
  cudaMemcpyAsync(value, &start, sizeof start, cudaMemcpyHostToDevice, streams.blocking);
  launch(streams.blocking, 1, 64, &add_one);
  cudaMemcpyAsync(&result, value, sizeof result, cudaMemcpyDeviceToHost, streams.blocking);
  REQUIRE(cudaStreamSynchronize(streams.blocking) == cudaSuccess);
  REQUIRE(result == 42);
  cudaFree(value);
}
