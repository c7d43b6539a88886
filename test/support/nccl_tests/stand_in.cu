// A stand-in for nccl-tests (README.md): its command line and its table, with two small kernels of its own.
#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr size_t element_bytes = sizeof(float);
constexpr int block_threads = 256;

[[noreturn]] void fail(const char* what, int line, const char* why) {
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  printf("%s: Test %s failure stand_in.cu:%d '%s'\n", host, what, line, why);
  fflush(stdout);
  _exit(1);
}

#define CUDA_OK(call)                                                            \
  do {                                                                           \
    const cudaError_t error = (call);                                            \
    if (error != cudaSuccess) fail("CUDA", __LINE__, cudaGetErrorString(error)); \
  } while (false)
#define NCCL_OK(call)                                                              \
  do {                                                                             \
    const ncclResult_t result = (call);                                            \
    if (result != ncclSuccess) fail("NCCL", __LINE__, ncclGetErrorString(result)); \
  } while (false)

// ---- values: element i of what a rank contributes, small enough for exact sums

__host__ __device__ float contributed(int rank, size_t i) { return static_cast<float>((rank + i) % 64); }

enum class Operation { all_reduce, all_gather, reduce_scatter, broadcast, send_recv };

__device__ float expected(Operation operation, int rank, int ranks, size_t count, size_t i) {
  switch (operation) {
    case Operation::all_gather: return contributed(static_cast<int>(i / count), i % count);
    case Operation::broadcast: return contributed(0, i);
    case Operation::send_recv: return contributed((rank + ranks - 1) % ranks, i);
    default: break;
  }
  const size_t at = operation == Operation::reduce_scatter ? rank * count + i : i;
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += contributed(r, at);
  return sum;
}

__global__ void fill(float* values, size_t count, int rank) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) values[i] = contributed(rank, i);
}

// `unconfirmed` begins with the number of values, so that a kernel that never ran confirms none.
__global__ void confirm(const float* values, size_t total, Operation operation, int rank, int ranks, size_t count,
                        unsigned long long* unconfirmed) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < total && values[i] == expected(operation, rank, ranks, count, i)) atomicAdd(unconfirmed, ~0ull);
}

unsigned blocks_for(size_t count) { return static_cast<unsigned>((count + block_threads - 1) / block_threads); }

// ---- command line

struct Options {
  int gpus = 1, threads = 1, factor = 2, iterations = 20, warm_up = 1, check = 1, blocking = 0;
  size_t bytes_min = 32 << 20, bytes_max = 32 << 20;
};

size_t parse_bytes(const char* text) {
  char* end = nullptr;
  const double value = strtod(text, &end);
  switch (*end) {
    case 'k':
    case 'K': return static_cast<size_t>(value * 1024);
    case 'm':
    case 'M': return static_cast<size_t>(value * (1 << 20));
    case 'g':
    case 'G': return static_cast<size_t>(value * (1 << 30));
    default: return static_cast<size_t>(value);
  }
}

Options parse_options(int argc, char** argv) {
  Options options;
  for (int option; (option = getopt(argc, argv, "g:t:b:e:f:n:w:c:z:")) != -1;) {
    switch (option) {
      case 'g': options.gpus = atoi(optarg); break;
      case 't': options.threads = atoi(optarg); break;
      case 'b': options.bytes_min = parse_bytes(optarg); break;
      case 'e': options.bytes_max = parse_bytes(optarg); break;
      case 'f': options.factor = atoi(optarg); break;
      case 'n': options.iterations = atoi(optarg); break;
      case 'w': options.warm_up = atoi(optarg); break;
      case 'c': options.check = atoi(optarg); break;
      case 'z': options.blocking = atoi(optarg); break;
      default: exit(1);
    }
  }
  return options;
}

Operation operation_of(const std::string& name) {
  if (name == "all_gather_perf") return Operation::all_gather;
  if (name == "reduce_scatter_perf") return Operation::reduce_scatter;
  if (name == "broadcast_perf") return Operation::broadcast;
  if (name == "sendrecv_perf") return Operation::send_recv;
  return Operation::all_reduce;
}

int from_environment(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text != nullptr ? atoi(text) : otherwise;
}

bool broken(const char* how) {
  const char* text = getenv("CCLD_STAND_IN_BREAK");
  return text != nullptr && strcmp(text, how) == 0;
}

// ---- ranks

class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    const unsigned turn = turn_;
    if (++arrived_ == threads_) {
      arrived_ = 0;
      ++turn_;
      released_.notify_all();
    } else {
      released_.wait(lock, [&] { return turn_ != turn; });
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable released_;
  int threads_, arrived_ = 0;
  unsigned turn_ = 0;
};

struct Rank {
  int rank, device;
  ncclComm_t comm;
  cudaStream_t stream;
  float *send, *receive;
};

// What all threads share; thread 0 writes the table.
struct Run {
  Options options;
  Operation operation;
  int ranks;
  bool prints;
  Barrier* barrier;
  std::mutex mutex;
  unsigned long long wrong = 0, wrong_total = 0;
  double bus_bandwidth_sum = 0;
  int rows = 0;
};

struct Sizes {
  size_t count;           // what NCCL is told
  size_t sent, received;  // elements of the buffers
};

Sizes sizes_of(const Run& run, size_t bytes) {
  const size_t elements = bytes / element_bytes, share = elements / run.ranks;
  switch (run.operation) {
    case Operation::all_gather: return {share, share, share * run.ranks};
    case Operation::reduce_scatter: return {share, share * run.ranks, share};
    default: return {elements, elements, elements};
  }
}

void call(const Run& run, const Rank& r, const Sizes& sizes, bool in_place) {
  float *send = r.send, *receive = r.receive;
  if (in_place) {
    send = receive;
    if (run.operation == Operation::all_gather) send = receive + r.rank * sizes.count;
    if (run.operation == Operation::reduce_scatter) receive = send + r.rank * sizes.count;
    if (run.operation == Operation::send_recv) send = r.send;
  }
  switch (run.operation) {
    case Operation::all_reduce:
      NCCL_OK(ncclAllReduce(send, receive, sizes.count, ncclFloat, ncclSum, r.comm, r.stream));
      break;
    case Operation::all_gather: NCCL_OK(ncclAllGather(send, receive, sizes.count, ncclFloat, r.comm, r.stream)); break;
    case Operation::reduce_scatter:
      NCCL_OK(ncclReduceScatter(send, receive, sizes.count, ncclFloat, ncclSum, r.comm, r.stream));
      break;
    case Operation::broadcast:
      NCCL_OK(ncclBroadcast(send, receive, sizes.count, ncclFloat, 0, r.comm, r.stream));
      break;
    case Operation::send_recv:
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclSend(send, sizes.count, ncclFloat, (r.rank + 1) % run.ranks, r.comm, r.stream));
      NCCL_OK(ncclRecv(receive, sizes.count, ncclFloat, (r.rank + run.ranks - 1) % run.ranks, r.comm, r.stream));
      NCCL_OK(ncclGroupEnd());
      break;
  }
}

void call_all(const Run& run, const std::vector<Rank>& mine, const Sizes& sizes, bool in_place, int times) {
  for (int i = 0; i < times; ++i) {
    NCCL_OK(ncclGroupStart());
    for (const Rank& r : mine) call(run, r, sizes, in_place);
    NCCL_OK(ncclGroupEnd());
    for (const Rank& r : mine) {
      if (run.options.blocking != 0 || i + 1 == times) CUDA_OK(cudaStreamSynchronize(r.stream));
    }
  }
}

unsigned long long check(const Run& run, const std::vector<Rank>& mine, const Sizes& sizes, bool in_place) {
  unsigned long long wrong = 0;
  for (const Rank& r : mine) {
    CUDA_OK(cudaSetDevice(r.device));
    float* input = r.send;
    if (in_place && run.operation != Operation::send_recv) input = r.receive;
    if (in_place && run.operation == Operation::all_gather) input = r.receive + r.rank * sizes.count;
    CUDA_OK(cudaMemset(r.receive, 0xff, std::max(sizes.sent, sizes.received) * element_bytes));
    fill<<<blocks_for(sizes.sent), block_threads>>>(input, sizes.sent, r.rank);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());
  }
  run.barrier->wait();
  call_all(run, mine, sizes, in_place, 1);
  for (const Rank& r : mine) {
    CUDA_OK(cudaSetDevice(r.device));
    const float* output = r.receive;
    if (in_place && run.operation == Operation::reduce_scatter) output = r.receive + r.rank * sizes.count;
    unsigned long long *counter, counted = sizes.received;
    CUDA_OK(cudaMalloc(&counter, sizeof *counter));
    CUDA_OK(cudaMemcpy(counter, &counted, sizeof counted, cudaMemcpyHostToDevice));
    confirm<<<blocks_for(sizes.received), block_threads>>>(output, sizes.received, run.operation, r.rank, run.ranks,
                                                           sizes.count, counter);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaMemcpy(&counted, counter, sizeof counted, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaFree(counter));
    wrong += counted;
  }
  return wrong;
}

double bus_factor(const Run& run) {
  const double n = run.ranks;
  switch (run.operation) {
    case Operation::all_reduce: return 2 * (n - 1) / n;
    case Operation::all_gather:
    case Operation::reduce_scatter: return (n - 1) / n;
    default: return 1;
  }
}

void measure(Run& run, const std::vector<Rank>& mine, int thread, size_t bytes, bool in_place) {
  const Sizes sizes = sizes_of(run, bytes);
  call_all(run, mine, sizes, in_place, 1);
  run.barrier->wait();
  const auto begin = std::chrono::steady_clock::now();
  call_all(run, mine, sizes, in_place, run.options.iterations);
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
                    run.options.iterations;
  run.barrier->wait();
  if (run.options.check > 0) {
    const unsigned long long wrong = check(run, mine, sizes, in_place);
    std::lock_guard<std::mutex> lock(run.mutex);
    run.wrong += wrong;
  }
  run.barrier->wait();
  if (thread != 0) return;
  if (broken("wrong")) run.wrong += 3;
  const double size = static_cast<double>(std::max(sizes.sent, sizes.received) * element_bytes);
  const double algorithm = size / us * 1e-3 * (broken("bandwidth") ? 3 : 1), bus = algorithm * bus_factor(run);
  const bool checked =
      (run.options.check > 0 && !(in_place && run.operation == Operation::send_recv)) || broken("wrong");
  char wrong[32] = "N/A";
  if (checked) snprintf(wrong, sizeof wrong, "%g", static_cast<double>(run.wrong));
  if (run.prints) printf("  %7.2f  %6.2f  %6.2f  %6s", us, algorithm, bus, wrong);
  run.wrong_total += std::exchange(run.wrong, 0ull);
  run.bus_bandwidth_sum += bus;
  ++run.rows;
}

void run_thread(Run& run, const std::vector<Rank>& mine, int thread) {
  CUDA_OK(cudaSetDevice(mine[0].device));
  call_all(run, mine, sizes_of(run, run.options.bytes_max), false, run.options.warm_up);
  const bool reduces = run.operation == Operation::all_reduce || run.operation == Operation::reduce_scatter;
  for (size_t bytes = run.options.bytes_min; bytes <= run.options.bytes_max; bytes *= run.options.factor) {
    const Sizes sizes = sizes_of(run, bytes);
    if (thread == 0 && run.prints) {
      if (broken("garbage")) printf("this is no table\n");
      printf("%12zu  %12zu  %8s  %6s  %6i", std::max(sizes.sent, sizes.received) * element_bytes, sizes.count, "float",
             reduces ? "sum" : "none", run.operation == Operation::broadcast ? 0 : -1);
    }
    for (const bool in_place : {false, true}) measure(run, mine, thread, bytes, in_place);
    if (thread == 0 && run.prints) printf("\n");
    if (run.options.factor < 2) break;
  }
}

void print_header(const Options& o, const std::string& name, const std::vector<Rank>& ranks) {
  int version = 0;
  NCCL_OK(ncclGetVersion(&version));
  printf("# nccl-tests version stand-in nccl-headers=%d nccl-library=%d\n# Collective test starting: %s\n",
         NCCL_VERSION_CODE, version, name.c_str());
  printf(
      "# nThread %d nGpus %d minBytes %zu maxBytes %zu step: %d(factor) warmup iters: %d iters: %d agg iters: 1 "
      "validation: %d graph: 0\n",
      o.threads, o.gpus, o.bytes_min, o.bytes_max, o.factor, o.warm_up, o.iterations, o.check);
  printf("#\n# Using devices\n");
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  for (const Rank& r : ranks) {
    cudaDeviceProp properties;
    CUDA_OK(cudaGetDeviceProperties(&properties, r.device));
    printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%04x:%02x:%02x] %s\n", r.rank, 0, getpid(), host,
           r.device, properties.pciDomainID, properties.pciBusID, properties.pciDeviceID, properties.name);
  }
  printf("#\n# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n", "", "", "",
         "", "");
  printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s\n", "size", "count", "type", "redop",
         "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
  printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s\n", "(B)", "(elements)", "", "", "",
         "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
}

}  // namespace

int main(int argc, char** argv) {
  setlinebuf(stdout);
  const std::string path = argv[0], name = path.substr(path.rfind('/') + 1);
  Run run{parse_options(argc, argv), operation_of(name)};
  const int local = run.options.threads * run.options.gpus;
  const int process = from_environment("OMPI_COMM_WORLD_RANK", 0),
            processes = from_environment("OMPI_COMM_WORLD_SIZE", 1);
  const int first_device = from_environment("OMPI_COMM_WORLD_LOCAL_RANK", 0) * local;
  run.ranks = processes * local;
  run.prints = process == 0;
  Barrier barrier(run.options.threads);
  run.barrier = &barrier;
  if (broken("cuda")) CUDA_OK(cudaSetDevice(1 << 20));

  std::vector<Rank> ranks(local);
  for (int i = 0; i < local; ++i) {
    Rank& r = ranks[i];
    r.rank = process * local + i;
    r.device = first_device + i;
    CUDA_OK(cudaSetDevice(r.device));
    CUDA_OK(cudaMalloc(&r.send, run.options.bytes_max));
    CUDA_OK(cudaMalloc(&r.receive, run.options.bytes_max));
    CUDA_OK(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
  }
  if (run.prints) print_header(run.options, name, ranks);
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  NCCL_OK(ncclGroupStart());
  for (Rank& r : ranks) {
    CUDA_OK(cudaSetDevice(r.device));
    NCCL_OK(ncclCommInitRank(&r.comm, run.ranks, id, r.rank));
  }
  NCCL_OK(ncclGroupEnd());

  std::vector<std::thread> threads;
  const auto ranks_of = [&](int thread) {
    const auto begin = ranks.begin() + thread * run.options.gpus;
    return std::vector<Rank>(begin, begin + run.options.gpus);
  };
  for (int t = 1; t < run.options.threads; ++t) threads.emplace_back([&, t] { run_thread(run, ranks_of(t), t); });
  run_thread(run, ranks_of(0), 0);
  for (std::thread& thread : threads) thread.join();

  for (Rank& r : ranks) NCCL_OK(ncclCommDestroy(r.comm));
  if (broken("short")) return 0;
  const bool failed = run.wrong_total != 0;
  if (run.prints) {
    printf("# %-20s : %llu %s\n", "Out of bounds values", run.wrong_total, failed ? "FAILED" : "OK");
    printf("# %-20s : %g \n#\n# Collective test concluded: %s\n", "Avg bus bandwidth",
           run.bus_bandwidth_sum / std::max(run.rows, 1), name.c_str());
  }
  CUDA_OK(cudaDeviceReset());
  return failed || broken("status") ? 1 : 0;
}
