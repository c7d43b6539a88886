// What one rank does.
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "test/integration/cpu_device/collectives.h"
#include "test/integration/cpu_device/suites.h"
#include "test/support/ranks/require.h"

namespace ccld::cpu_device_matrix {
namespace {

double now_s() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

using ranks::fail;

Communicator connect(const RankIdentity& identity) {
  int devices = 0;
  REQUIRE_OK(cudaGetDeviceCount(&devices));
  REQUIRE_OK(cudaSetDevice(identity.rank % devices));
  ncclUniqueId id;
  if (identity.rank == 0) {
    REQUIRE_OK(ncclGetUniqueId(&id));
    send_id(identity, &id, sizeof id);
  } else if (!receive_id(identity, &id, sizeof id)) {
    fail(identity, "unique id", "rank 0 sent none");
  }
  Communicator communicator{identity.rank, identity.ranks, nullptr, nullptr};
  REQUIRE_OK(ncclCommInitRank(&communicator.handle, identity.ranks, id, identity.rank));
  REQUIRE_OK(cudaStreamCreateWithFlags(&communicator.stream, cudaStreamNonBlocking));
  return communicator;
}

int disconnect(const RankIdentity& identity, const Communicator& communicator, bool good) {
  REQUIRE_OK(ncclCommDestroy(communicator.handle));
  REQUIRE_OK(cudaStreamDestroy(communicator.stream));
  return good ? 0 : 1;
}

Case reduction_case(Collective collective, ncclDataType_t type, ncclRedOp_t reduction, size_t count, size_t offsets) {
  Case c;
  c.collective = collective;
  c.type = type;
  c.reduction = reduction;
  c.count = count;
  c.source_offset = offsets;
  c.target_offset = 3 * offsets;
  c.root = count % 2 == 1 ? 1 : 0;
  return c;
}

constexpr size_t odd_counts[] = {1, 5, 1031, 30011};
constexpr ncclDataType_t matrix_types[] = {ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat16, ncclInt32, ncclUint8};
constexpr ncclRedOp_t all_reductions[] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};

// Every type with sum, every reduction with f32.
std::vector<Case> all_reduce_cases() {
  std::vector<Case> cases;
  for (ncclDataType_t type : matrix_types) {
    for (size_t count : odd_counts) {
      cases.push_back(reduction_case(Collective::all_reduce, type, ncclSum, count, 0));
      cases.push_back(reduction_case(Collective::all_reduce, type, ncclSum, count, 1));
    }
  }
  for (ncclRedOp_t reduction : all_reductions) {
    cases.push_back(reduction_case(Collective::all_reduce, ncclFloat32, reduction, 4099, 1));
  }
  cases.push_back(reduction_case(Collective::all_reduce, ncclFloat32, ncclSum, (1 << 17) + 7, 0));
  return cases;
}

std::vector<Case> other_cases() {
  std::vector<Case> cases;
  for (Collective collective : {Collective::all_gather, Collective::reduce_scatter, Collective::broadcast,
                                Collective::reduce, Collective::ring_exchange, Collective::all_to_all}) {
    // The default build has these two for sums of f32 only (CCLD_NCCL_ONLY_FUNCS).
    const bool reduces = collective == Collective::reduce_scatter || collective == Collective::reduce;
    for (ncclDataType_t type : matrix_types) {
      if (reduces && type != ncclFloat32) continue;
      cases.push_back(reduction_case(collective, type, ncclSum, 1031, 0));
      cases.push_back(reduction_case(collective, type, ncclSum, 517, 1));
    }
    cases.push_back(reduction_case(collective, ncclFloat32, ncclSum, 4, 0));
    cases.push_back(reduction_case(collective, ncclFloat32, ncclSum, 30011, 1));
  }
  return cases;
}

// What NVLS can do and the default build has.
constexpr ncclDataType_t nvls_types[] = {ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat16, ncclInt32};

std::vector<Case> nvls_cases() {
  std::vector<Case> cases;
  for (size_t count : odd_counts) {
    for (ncclDataType_t type : nvls_types) {
      cases.push_back(reduction_case(Collective::all_reduce, type, ncclSum, count, 0));
      cases.push_back(reduction_case(Collective::all_reduce, type, ncclSum, count, 1));
    }
    for (size_t offsets : {0, 1}) {
      cases.push_back(reduction_case(Collective::all_gather, ncclBfloat16, ncclSum, count, offsets));
      cases.push_back(reduction_case(Collective::reduce_scatter, ncclFloat32, ncclSum, count, offsets));
    }
  }
  // More than the buffers hold, so that credits go around.
  cases.push_back(reduction_case(Collective::all_reduce, ncclFloat32, ncclSum, (1 << 20) + 7, 0));
  cases.push_back(reduction_case(Collective::all_gather, ncclFloat32, ncclSum, (1 << 17) + 7, 0));
  cases.push_back(reduction_case(Collective::reduce_scatter, ncclFloat32, ncclSum, (1 << 17) + 7, 0));
  return cases;
}

// What NVLSTree and CollNet have in the default build.
std::vector<Case> float_sums() {
  std::vector<Case> cases;
  for (size_t count : odd_counts)
    for (size_t offsets : {0, 1})
      cases.push_back(reduction_case(Collective::all_reduce, ncclFloat32, ncclSum, count, offsets));
  cases.push_back(reduction_case(Collective::all_reduce, ncclFloat32, ncclSum, (1 << 18) + 7, 0));
  return cases;
}

std::vector<Case> float_collectives() {
  std::vector<Case> cases = float_sums();
  for (size_t count : odd_counts)
    for (Collective collective : {Collective::all_gather, Collective::reduce_scatter})
      cases.push_back(reduction_case(collective, ncclFloat32, ncclSum, count, count % 2));
  return cases;
}

int run_cases(const RankIdentity& identity, const std::vector<Case>& cases, bool default_stream = false) {
  const Communicator communicator = connect(identity);
  Communicator used = communicator;
  if (default_stream) used.stream = nullptr;
  bool good = true;
  for (const Case& c : cases) good = run_case(c, used) && good;
  return disconnect(identity, communicator, good);
}

int all_reduce_suite(const RankIdentity& identity) { return run_cases(identity, all_reduce_cases()); }

int nvls_suite(const RankIdentity& identity) { return run_cases(identity, nvls_cases()); }

int float_sums_suite(const RankIdentity& identity) { return run_cases(identity, float_sums()); }
int float_collectives_suite(const RankIdentity& identity) { return run_cases(identity, float_collectives()); }

int large_sum_suite(const RankIdentity& identity) {
  return run_cases(identity, {reduction_case(Collective::all_reduce, ncclFloat32, ncclSum, 1 << 22, 0)});
}

int every_collective_suite(const RankIdentity& identity) {
  std::vector<Case> cases = all_reduce_cases();
  for (const Case& c : other_cases()) cases.push_back(c);
  return run_cases(identity, cases);
}

std::vector<Case> smoke_cases() {
  std::vector<Case> cases;
  for (Collective collective : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                Collective::broadcast, Collective::ring_exchange, Collective::all_to_all}) {
    cases.push_back(reduction_case(collective, ncclFloat32, ncclSum, 517, 1));
    cases.push_back(reduction_case(collective, ncclFloat32, ncclSum, 60013, 0));
  }
  return cases;
}

int smoke_suite(const RankIdentity& identity) { return run_cases(identity, smoke_cases()); }
int default_stream_suite(const RankIdentity& identity) { return run_cases(identity, smoke_cases(), true); }

// Tells the parent that the job is in the middle of its rounds.
void say_ready() {
  const char* path = getenv(ready_variable);
  const int fifo = path == nullptr ? -1 : open(path, O_WRONLY | O_CLOEXEC);
  if (fifo < 0 || write(fifo, "r", 1) != 1) fprintf(stderr, "cannot tell the test that the job is ready\n");
  close(fifo);
}

// AllReduces, checked, until something outside has held one up, and a few more after that.
int disturbed_suite(const RankIdentity& identity) {
  constexpr double held_up_s = 1.2;
  constexpr double timeout_s = 30;
  constexpr int ready_round = 3;
  constexpr int rounds_after = 3;
  const Communicator communicator = connect(identity);
  CaseRun run(reduction_case(Collective::all_reduce, ncclFloat32, ncclSum, 40001, 1), communicator);
  float* left;  // rounds that rank 0 still wants; the others must agree on the end
  REQUIRE_OK(cudaMalloc(reinterpret_cast<void**>(&left), sizeof *left));
  const double begin_s = now_s();
  bool good = true, held_up = false;
  float wanted = rounds_after;
  for (int round = 0; wanted > 0; ++round) {
    run.fill(round);
    const double round_begin_s = now_s();
    REQUIRE_OK(run.submit());
    REQUIRE_OK(cudaStreamSynchronize(communicator.stream));
    const std::string problem = run.check();
    if (!problem.empty()) {
      fprintf(stderr, "rank %d: round %d: %s\n", identity.rank, round, problem.c_str());
      good = false;
    }
    if (identity.rank == 1 && round == ready_round) say_ready();
    if (identity.rank != 0) wanted = 0;
    if (identity.rank == 0 && (held_up || now_s() - begin_s > timeout_s)) wanted -= 1;
    REQUIRE_OK(cudaMemcpy(left, &wanted, sizeof wanted, cudaMemcpyHostToDevice));
    REQUIRE_OK(ncclAllReduce(left, left, 1, ncclFloat32, ncclMax, communicator.handle, communicator.stream));
    REQUIRE_OK(cudaMemcpyAsync(&wanted, left, sizeof wanted, cudaMemcpyDeviceToHost, communicator.stream));
    REQUIRE_OK(cudaStreamSynchronize(communicator.stream));
    held_up = held_up || (round >= ready_round && now_s() - round_begin_s > held_up_s);
  }
  if (identity.rank == 0 && !held_up) fail(identity, "disturbance", "no round was held up: the fault was not planted");
  REQUIRE_OK(cudaFree(left));
  return disconnect(identity, communicator, good);
}

// Returns once all ranks called it.
void meet(const RankIdentity& identity) {
  const char* folder = getenv(meeting_folder_variable);
  if (folder == nullptr) fail(identity, "meeting", "no folder");
  const auto path_of = [&](int rank) { return std::string(folder) + "/met." + std::to_string(rank); };
  const int file = open(path_of(identity.rank).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  close(file);
  for (int rank = 0; rank < identity.ranks; ++rank) {
    while (access(path_of(rank).c_str(), F_OK) != 0) usleep(2000);
  }
}

// An AllReduce that rank 1 does not join: aborted, after which a new communicator works.
int abort_suite(const RankIdentity& identity) {
  Communicator communicator = connect(identity);
  bool good = run_case(reduction_case(Collective::all_reduce, ncclFloat32, ncclSum, 5003, 0), communicator);
  {
    const Case c = reduction_case(Collective::all_reduce, ncclFloat32, ncclSum, 100003, 0);
    CaseRun run(c, communicator);
    run.fill(0);
    if (identity.rank != 1) {
      REQUIRE_OK(run.submit());
      usleep(300000);  // the kernel is in the middle of waiting; there is nothing to wait for that says so
      if (cudaStreamQuery(communicator.stream) != cudaErrorNotReady) fail(identity, "stuck AllReduce", "it completed");
    }
    meet(identity);  // an aborted kernel runs to its end and may let those of other ranks complete
    const double begin_s = now_s();
    REQUIRE_OK(ncclCommAbort(communicator.handle));
    REQUIRE_OK(cudaStreamSynchronize(communicator.stream));
    if (now_s() - begin_s > 20) fail(identity, "ncclCommAbort", "took more than 20 s");
  }
  REQUIRE_OK(cudaDeviceSynchronize());
  REQUIRE_OK(cudaStreamDestroy(communicator.stream));
  return good ? 0 : 1;
}

// Rank 1 dies in the middle; the others notice that nothing moves, abort and end well.
int kill_suite(const RankIdentity& identity) {
  const Communicator communicator = connect(identity);
  const Case c = reduction_case(Collective::all_reduce, ncclFloat32, ncclSum, 100003, 0);
  CaseRun run(c, communicator);
  for (int round = 0;; ++round) {
    run.fill(round);
    if (identity.rank == 1 && round == 3) {
      REQUIRE_OK(run.submit());
      kill(getpid(), SIGKILL);
    }
    REQUIRE_OK(run.submit());
    const double deadline_s = now_s() + (round < 3 ? 30 : 3);
    cudaError_t state;
    while ((state = cudaStreamQuery(communicator.stream)) == cudaErrorNotReady && now_s() < deadline_s) {
      ncclResult_t asynchronous = ncclSuccess;
      REQUIRE_OK(ncclCommGetAsyncError(communicator.handle, &asynchronous));
      if (asynchronous != ncclSuccess) break;
      usleep(1000);
    }
    if (state == cudaSuccess) {
      if (round > 3) fail(identity, "AllReduce", "it completed without rank 1");
      continue;
    }
    const double begin_s = now_s();
    REQUIRE_OK(ncclCommAbort(communicator.handle));
    REQUIRE_OK(cudaStreamSynchronize(communicator.stream));
    if (now_s() - begin_s > 20) fail(identity, "ncclCommAbort", "took more than 20 s");
    return 0;
  }
}

// Collectives captured in a graph and replayed with new data; replays mix with ordinary collectives.
int graph_suite(const RankIdentity& identity) {
  const Communicator communicator = connect(identity);
  CaseRun reduce(reduction_case(Collective::all_reduce, ncclFloat32, ncclSum, 20011, 1), communicator);
  CaseRun gather(reduction_case(Collective::all_gather, ncclInt32, ncclSum, 777, 0), communicator);
  CaseRun exchange(reduction_case(Collective::ring_exchange, ncclFloat32, ncclSum, 5003, 0), communicator);
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  REQUIRE_OK(cudaStreamBeginCapture(communicator.stream, cudaStreamCaptureModeGlobal));
  for (CaseRun* run : {&reduce, &gather, &exchange}) REQUIRE_OK(run->submit());
  REQUIRE_OK(cudaStreamEndCapture(communicator.stream, &graph));
  REQUIRE_OK(cudaGraphInstantiate(&executable, graph, 0));
  REQUIRE_OK(cudaGraphDestroy(graph));
  bool good = true;
  for (int round = 0; round < 5; ++round) {
    for (CaseRun* run : {&reduce, &gather, &exchange}) run->fill(round);
    REQUIRE_OK(cudaGraphLaunch(executable, communicator.stream));
    REQUIRE_OK(cudaStreamSynchronize(communicator.stream));
    for (CaseRun* run : {&reduce, &gather, &exchange}) {
      const std::string problem = run->check();
      if (!problem.empty()) {
        fprintf(stderr, "rank %d: replay %d: %s\n", identity.rank, round, problem.c_str());
        good = false;
      }
    }
    good = run_case(reduction_case(Collective::all_reduce, ncclFloat64, ncclSum, 301, 0), communicator) && good;
  }
  REQUIRE_OK(cudaGraphExecDestroy(executable));
  return disconnect(identity, communicator, good);
}

// Several GPUs in one process.
int one_process(const RankIdentity& identity, int devices, const std::vector<Case>& cases) {
  if (identity.rank == 0) {
    ncclUniqueId unused{};
    send_id(identity, &unused, sizeof unused);
  }
  std::vector<ncclComm_t> handles(static_cast<size_t>(devices));
  REQUIRE_OK(ncclCommInitAll(handles.data(), devices, nullptr));
  std::vector<Communicator> communicators;
  for (int i = 0; i < devices; ++i) {
    REQUIRE_OK(cudaSetDevice(i));
    cudaStream_t stream;
    REQUIRE_OK(cudaStreamCreate(&stream));
    communicators.push_back({i, devices, handles[static_cast<size_t>(i)], stream});
  }
  bool good = true;
  for (const Case& c : cases) {
    std::vector<std::unique_ptr<CaseRun>> runs;
    for (int i = 0; i < devices; ++i) {
      REQUIRE_OK(cudaSetDevice(i));
      runs.push_back(std::make_unique<CaseRun>(c, communicators[static_cast<size_t>(i)]));
      runs.back()->fill(1);
    }
    REQUIRE_OK(ncclGroupStart());
    for (auto& run : runs) REQUIRE_OK(run->submit());
    REQUIRE_OK(ncclGroupEnd());
    for (int i = 0; i < devices; ++i) {
      REQUIRE_OK(cudaSetDevice(i));
      REQUIRE_OK(cudaStreamSynchronize(communicators[static_cast<size_t>(i)].stream));
      const std::string problem = runs[static_cast<size_t>(i)]->check();
      if (!problem.empty()) {
        fprintf(stderr, "device %d: %s: %s\n", i, c.describe().c_str(), problem.c_str());
        good = false;
      }
    }
  }
  for (ncclComm_t handle : handles) REQUIRE_OK(ncclCommDestroy(handle));
  return good ? 0 : 1;
}

int one_process_suite(const RankIdentity& identity) {
  return one_process(identity, 4, {reduction_case(Collective::all_reduce, ncclFloat32, ncclSum, 50021, 1)});
}

int nvls_one_process_suite(const RankIdentity& identity) {
  return one_process(identity, 8,
                     {reduction_case(Collective::all_reduce, ncclFloat32, ncclSum, 50021, 1),
                      reduction_case(Collective::all_gather, ncclFloat16, ncclSum, 5003, 1),
                      reduction_case(Collective::reduce_scatter, ncclFloat32, ncclSum, 5003, 0)});
}

// NCCL's own memory, registered: NVLS takes the user's buffers instead of its own.
int nvls_registered_suite(const RankIdentity& identity) {
  constexpr size_t count = 100003;
  const Communicator communicator = connect(identity);
  float* buffer = nullptr;
  void* registration = nullptr;
  REQUIRE_OK(ncclMemAlloc(reinterpret_cast<void**>(&buffer), count * sizeof *buffer));
  REQUIRE_OK(ncclCommRegister(communicator.handle, buffer, count * sizeof *buffer, &registration));
  std::vector<float> values(count);
  size_t wrong = 0;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(i % 100 + static_cast<size_t>(identity.rank + round));
    }
    REQUIRE_OK(cudaMemcpy(buffer, values.data(), count * sizeof *buffer, cudaMemcpyHostToDevice));
    REQUIRE_OK(ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, communicator.handle, communicator.stream));
    REQUIRE_OK(
        cudaMemcpyAsync(values.data(), buffer, count * sizeof *buffer, cudaMemcpyDeviceToHost, communicator.stream));
    REQUIRE_OK(cudaStreamSynchronize(communicator.stream));
    for (size_t i = 0; i < count; ++i) {
      const int sum = identity.ranks * static_cast<int>(i % 100 + static_cast<size_t>(round)) +
                      identity.ranks * (identity.ranks - 1) / 2;
      wrong += values[i] != static_cast<float>(sum);
    }
  }
  if (wrong != 0) fprintf(stderr, "rank %d: %zu wrong values\n", identity.rank, wrong);
  REQUIRE_OK(ncclCommDeregister(communicator.handle, registration));
  REQUIRE_OK(ncclMemFree(buffer));
  return disconnect(identity, communicator, wrong == 0);
}

// A function that this build leaves out is refused by the call, by name, and no kernel runs in its place.
int left_out_suite(const RankIdentity& identity) {
  Communicator communicator = connect(identity);
  bool good = run_case(reduction_case(Collective::all_reduce, ncclFloat64, ncclSum, 301, 0), communicator);
  double number = 2;
  double* buffer = nullptr;
  REQUIRE_OK(cudaMalloc(&buffer, sizeof number));
  REQUIRE_OK(cudaMemcpy(buffer, &number, sizeof number, cudaMemcpyDefault));
  const ncclResult_t result =
      ncclAllReduce(buffer, buffer, 1, ncclFloat64, ncclProd, communicator.handle, communicator.stream);
  const std::string reason = ncclGetLastError(communicator.handle);
  REQUIRE_OK(cudaStreamSynchronize(communicator.stream));
  REQUIRE_OK(cudaMemcpy(&number, buffer, sizeof number, cudaMemcpyDefault));
  if (result != ncclInvalidUsage || reason.find("leaves 'AllReduce Prod f64") == std::string::npos || number != 2) {
    fprintf(stderr, "rank %d: %s, '%s', %g\n", identity.rank, ncclGetErrorString(result), reason.c_str(), number);
    good = false;
  }
  REQUIRE_OK(cudaFree(buffer));
  REQUIRE_OK(ncclCommAbort(communicator.handle));
  return good ? 0 : 1;
}

// Of a function of which only some algorithms are built, one of those is chosen. On nodes of their own small sums would
// take the tree, which is not built for 64 bits.
constexpr size_t partly_built_counts[] = {1, 301, 100000};

int partly_built_suite(const RankIdentity& identity) {
  Communicator communicator = connect(identity);
  bool good = true;
  for (const size_t count : partly_built_counts)
    for (const ncclDataType_t type : {ncclInt64, ncclFloat32})
      good = run_case(reduction_case(Collective::all_reduce, type, ncclSum, count, 0), communicator) && good;
  REQUIRE_OK(ncclCommDestroy(communicator.handle));
  return good ? 0 : 1;
}

// Where the user leaves no other choice, it is refused by name.
int forced_and_not_built_suite(const RankIdentity& identity) {
  Communicator communicator = connect(identity);
  bool good = true;
  int64_t* buffer = nullptr;
  REQUIRE_OK(cudaMalloc(&buffer, 100000 * sizeof *buffer));
  for (const size_t count : partly_built_counts) {
    const ncclResult_t result =
        ncclAllReduce(buffer, buffer, count, ncclInt64, ncclSum, communicator.handle, communicator.stream);
    const std::string reason = ncclGetLastError(communicator.handle);
    if (result != ncclInvalidUsage || reason.find("leaves 'AllReduce Sum i64 TREE") == std::string::npos) {
      fprintf(stderr, "rank %d: %s, '%s'\n", identity.rank, ncclGetErrorString(result), reason.c_str());
      good = false;
    }
  }
  REQUIRE_OK(cudaFree(buffer));
  REQUIRE_OK(ncclCommAbort(communicator.handle));
  return good ? 0 : 1;
}

}  // namespace

int run_rank(const std::string& suite, const RankIdentity& identity) {
  static const std::map<std::string, int (*)(const RankIdentity&)> suites = {
      {"all_reduce", all_reduce_suite},
      {"every_collective", every_collective_suite},
      {"float_sums", float_sums_suite},
      {"float_collectives", float_collectives_suite},
      {"large_sum", large_sum_suite},
      {"smoke", smoke_suite},
      {"disturbed", disturbed_suite},
      {"abort", abort_suite},
      {"kill", kill_suite},
      {"graph", graph_suite},
      {"one_process", one_process_suite},
      {"nvls", nvls_suite},
      {"nvls_one_process", nvls_one_process_suite},
      {"nvls_registered", nvls_registered_suite},
      {"default_stream", default_stream_suite},
      {"left_out", left_out_suite},
      {"partly_built", partly_built_suite},
      {"forced_and_not_built", forced_and_not_built_suite},
  };
  const auto found = suites.find(suite);
  if (found == suites.end()) {
    fprintf(stderr, "no suite %s\n", suite.c_str());
    return 2;
  }
  return found->second(identity);
}

}  // namespace ccld::cpu_device_matrix
