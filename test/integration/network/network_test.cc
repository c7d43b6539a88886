// What NCCL's own network transports put into the NetRecords of the process file, against what the device says that it
// did: InfiniBand over the stand-in of test/support/verbs, and sockets. Two ranks in this process, one case a run.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <nccl.h>
#include "schemas/abi/file_names.h"
#include "schemas/abi/process.h"
#include "test/support/ranks/becomes_true.h"
#include "test/support/verbs/verbs.h"

namespace {

using ccld::abi::NetKind;
using ccld::abi::NetRecord;

constexpr int ranks = 2;
constexpr size_t elements = 1 << 18;  // several steps of the network
constexpr auto timeout = std::chrono::seconds(20);

#define REQUIRE(condition)                                                    \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

class ProcessFileView {
 public:
  explicit ProcessFileView(const std::string& folder) {
    path_ = folder + "/" + ccld::abi::process_file_name({static_cast<uint32_t>(getpid()), ccld::abi::pid_namespace_of("/proc", "self")});
    const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(file >= 0);
    memory_ = static_cast<const char*>(mmap(nullptr, ccld::abi::process_file_bytes(), PROT_READ, MAP_SHARED, file, 0));
    close(file);
    REQUIRE(memory_ != MAP_FAILED);
  }
  // Copies of those in use.
  std::vector<NetRecord> queues() const {
    const auto& identity = *reinterpret_cast<const ccld::abi::ProcessIdentityPart*>(memory_);
    std::vector<NetRecord> found;
    for (unsigned i = 0; i < ccld::abi::nets_max; ++i) {
      NetRecord record;
      const auto* from =
          reinterpret_cast<const volatile uint64_t*>(memory_ + identity.nets_offset + i * identity.nets_stride);
      auto* to = reinterpret_cast<uint64_t*>(&record);
      for (size_t word = 0; word < sizeof(record) / sizeof(uint64_t); ++word) to[word] = from[word];
      if (record.queue != 0) found.push_back(record);
    }
    return found;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const char* memory_;
};

bool becomes_true(const std::function<bool()>& condition) { return ccld::ranks::becomes_true(condition, timeout); }

struct Job {
  ncclComm_t comms[ranks];
  cudaStream_t streams[ranks];
  float* data[ranks];

  Job() {
    REQUIRE(ncclCommInitAll(comms, ranks, nullptr) == ncclSuccess);
    for (int r = 0; r < ranks; ++r) {
      REQUIRE(cudaSetDevice(r) == cudaSuccess);
      REQUIRE(cudaStreamCreate(&streams[r]) == cudaSuccess);
      REQUIRE(cudaMalloc(reinterpret_cast<void**>(&data[r]), elements * sizeof(float)) == cudaSuccess);
    }
  }
  void fill() {
    const std::vector<float> ones(elements, 1.0f);
    for (int r = 0; r < ranks; ++r) {
      REQUIRE(cudaMemcpy(data[r], ones.data(), elements * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess);
    }
  }
  void launch() {
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int r = 0; r < ranks; ++r) {
      REQUIRE(ncclAllReduce(data[r], data[r], elements, ncclFloat, ncclSum, comms[r], streams[r]) == ncclSuccess);
    }
    REQUIRE(ncclGroupEnd() == ncclSuccess);
  }
  void finish() {
    for (int r = 0; r < ranks; ++r) {
      REQUIRE(cudaSetDevice(r) == cudaSuccess);
      REQUIRE(cudaStreamSynchronize(streams[r]) == cudaSuccess);
      std::vector<float> got(elements);
      REQUIRE(cudaMemcpy(got.data(), data[r], elements * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess);
      for (float value : got) REQUIRE(value == static_cast<float>(ranks));
    }
  }
  void destroy() {
    for (ncclComm_t comm : comms) REQUIRE(ncclCommDestroy(comm) == ncclSuccess);
  }
};

struct Standin {
  decltype(&standin_verbs_hold) hold;
  decltype(&standin_verbs_fail_next) fail_next;
  decltype(&standin_verbs_queues) queues;

  Standin() {
    void* library = dlopen("libibverbs.so", RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(library != nullptr);
    hold = reinterpret_cast<decltype(hold)>(dlsym(library, "standin_verbs_hold"));
    fail_next = reinterpret_cast<decltype(fail_next)>(dlsym(library, "standin_verbs_fail_next"));
    queues = reinterpret_cast<decltype(queues)>(dlsym(library, "standin_verbs_queues"));
    REQUIRE(hold != nullptr && fail_next != nullptr && queues != nullptr);
  }
  StandinQueue of(uint32_t number) const {
    std::vector<StandinQueue> all(1024);
    all.resize(queues(all.data(), 1024));
    for (const StandinQueue& queue : all) {
      if (queue.number == number) return queue;
    }
    REQUIRE(!"a queue pair that the device does not know");
    return {};
  }
};

bool equal(const NetRecord& record, const StandinQueue& queue) {
  return record.send_posted == queue.signalled && record.send_bytes_posted == queue.send_bytes &&
         record.send_completed == queue.polled_sends && record.recv_posted == queue.receives &&
         record.recv_completed == queue.polled_receives;
}

uint64_t sends_in_flight(const std::vector<NetRecord>& records) {
  uint64_t sum = 0;
  for (const NetRecord& record : records) sum += record.send_posted - record.send_completed;
  return sum;
}

void infiniband_case(const std::string& folder) {
  Job job;
  job.fill();
  job.launch();
  job.finish();
  const ProcessFileView file(folder);
  const Standin device;

  // Every queue pair is there, and agrees with the device once all is polled.
  REQUIRE(becomes_true([&] {
    for (const NetRecord& record : file.queues()) {
      if (!equal(record, device.of(record.number)) || record.send_posted != record.send_completed) return false;
    }
    return true;
  }));
  const std::vector<NetRecord> records = file.queues();
  REQUIRE(records.size() == device.queues(nullptr, 0));
  uint64_t data_bytes = 0;
  for (const NetRecord& record : records) {
    REQUIRE(record.kind == static_cast<uint8_t>(NetKind::infiniband));
    REQUIRE(record.device == 0);
    REQUIRE(strcmp(record.device_name, "standin0") == 0);
    REQUIRE(record.errors == 0);
    REQUIRE(record.send_bytes_completed <= record.send_bytes_posted);
    if (record.send_posted != 0)
      REQUIRE(record.complete_monotonic_ns >= record.post_monotonic_ns || record.recv_posted != 0);
    data_bytes += record.send_bytes_completed;
  }
  REQUIRE(data_bytes >= elements * sizeof(float));  // half of it each way, twice around

  // The device holds data back: it is in flight for as long.
  device.hold(1);
  job.fill();
  job.launch();
  REQUIRE(becomes_true([&] { return sends_in_flight(file.queues()) > 0; }));
  for (const NetRecord& record : file.queues()) {
    const StandinQueue queue = device.of(record.number);
    REQUIRE(record.send_posted - record.send_completed <= queue.signalled);
  }
  device.hold(0);
  job.finish();
  REQUIRE(becomes_true([&] { return sends_in_flight(file.queues()) == 0; }));

  // A completion with an error counts as such.
  device.fail_next();
  job.fill();
  job.launch();
  REQUIRE(becomes_true([&] {
    uint64_t errors = 0;
    for (const NetRecord& record : file.queues()) errors += record.errors;
    return errors == 1;
  }));
  for (ncclComm_t comm : job.comms) (void)ncclCommAbort(comm);
  REQUIRE(becomes_true([&] { return file.queues().empty(); }));
}

void socket_case(const std::string& folder) {
  Job job;
  job.fill();
  job.launch();
  job.finish();
  const ProcessFileView file(folder);
  REQUIRE(!file.queues().empty());
  uint64_t sent = 0, received = 0, posted = 0;
  const auto all_through = [&] {
    sent = received = posted = 0;
    for (const NetRecord& record : file.queues()) {
      sent += record.send_bytes_completed;
      posted += record.send_bytes_posted;
      received += record.recv_bytes_completed;
      if (record.send_posted != record.send_completed || record.recv_posted != record.recv_completed) return false;
    }
    return sent == posted && sent == received;
  };
  REQUIRE(becomes_true(all_through));
  REQUIRE(sent >= elements * sizeof(float));
  for (const NetRecord& record : file.queues()) {
    REQUIRE(record.kind == static_cast<uint8_t>(NetKind::socket));
    REQUIRE(strcmp(record.device_name, "lo") == 0);
    REQUIRE(record.send_posted == 0 || record.recv_posted == 0);  // a connection has one direction
  }
  job.destroy();
  REQUIRE(becomes_true([&] { return file.queues().empty(); }));
}

}  // namespace

int main(int count, char** arguments) {
  const std::string which = count > 1 ? arguments[1] : "";
  char folder[] = "/tmp/ccld-network-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const bool infiniband = which == "infiniband";
  REQUIRE(infiniband || which == "socket");
  for (const auto& [name, value] : std::vector<std::pair<const char*, const char*>>{
           {"NCCL_PROBE_FRAMES_DIR", folder},
           {"NCCL_P2P_DISABLE", "1"},
           {"NCCL_SHM_DISABLE", "1"},
           {"NCCL_NET", infiniband ? "IB" : "Socket"},
           {"NCCL_SOCKET_IFNAME", "lo"},
           {"NCCL_MIN_NCHANNELS", "2"},
           {"NCCL_MAX_NCHANNELS", "2"},
           {"NCCL_NTHREADS", "128"},
           {"NCCL_ALGO", "RING"},
           {"NCCL_PROTO", "Simple"},
       }) {
    setenv(name, value, 0);
  }
  if (infiniband)
    infiniband_case(folder);
  else
    socket_case(folder);
  // The process removes its files by itself; the folder is this test's.
  const std::string remove = std::string("rm -rf ") + folder;
  if (system(remove.c_str()) != 0) return 1;
  printf("%s: counted as the device did\n", which.c_str());
  return 0;
}
