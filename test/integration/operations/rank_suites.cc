// What one rank does. Values are checked elsewhere (integration.cpu_device); here only what the probe says counts.
#include <cuda_runtime_api.h>
#include <dirent.h>
#include <fcntl.h>
#include <nccl.h>
#include <nccl_device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "schemas/abi/file_names.h"
#include "test/integration/operations/suites.h"
#include "test/support/ranks/becomes_true.h"
#include "test/support/ranks/require.h"

namespace ccld::operations_test {
namespace {

using ranks::RankIdentity;

using ranks::fail;

constexpr size_t buffer_bytes = size_t{16} << 20;

ncclUniqueId job_id(const RankIdentity& identity) {
  ncclUniqueId id{};
  if (identity.rank == 0) {
    REQUIRE_OK(ncclGetUniqueId(&id));
    ranks::send_id(identity, &id, sizeof id);
  } else if (!ranks::receive_id(identity, &id, sizeof id)) {
    fail(identity, "unique id", "rank 0 sent none");
  }
  return id;
}

void choose_device(const RankIdentity& identity) {
  int devices = 0;
  REQUIRE_OK(cudaGetDeviceCount(&devices));
  if (getenv(two_nodes_variable) != nullptr) {
    const int half = identity.ranks / 2;
    setenv("NCCL_HOSTID", identity.rank < half ? "a" : "b", 1);
    devices = half;
  }
  REQUIRE_OK(cudaSetDevice(identity.rank % devices));
}

// A communicator of all ranks with a stream and two buffers.
struct Rank {
  // `shares`: communicators that are split off use its connections.
  explicit Rank(const RankIdentity& who, bool shares = false) : identity(who) {
    choose_device(identity);
    const ncclUniqueId id = job_id(identity);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.splitShare = shares ? 1 : 0;
    REQUIRE_OK(ncclCommInitRankConfig(&comm, identity.ranks, id, identity.rank, &config));
    REQUIRE_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    REQUIRE_OK(cudaMalloc(reinterpret_cast<void**>(&source), buffer_bytes));
    REQUIRE_OK(cudaMalloc(reinterpret_cast<void**>(&target), buffer_bytes));
  }
  void wait() { REQUIRE_OK(cudaStreamSynchronize(stream)); }
  int next() const { return (identity.rank + 1) % identity.ranks; }
  int previous() const { return (identity.rank + identity.ranks - 1) % identity.ranks; }
  void all_reduce(size_t count, ncclDataType_t type = ncclFloat32) {
    REQUIRE_OK(ncclAllReduce(source, target, count, type, ncclSum, comm, stream));
  }
  int destroy() {
    wait();
    REQUIRE_OK(ncclCommDestroy(comm));
    REQUIRE_OK(cudaStreamDestroy(stream));
    return 0;
  }

  const RankIdentity identity;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  char* source = nullptr;
  char* target = nullptr;
};

// Returns once all ranks called it with that name.
void meet(const RankIdentity& identity, const std::string& name) {
  const char* folder = getenv(meeting_folder_variable);
  if (folder == nullptr) fail(identity, "meeting", "no folder");
  const auto path_of = [&](int rank) { return std::string(folder) + "/" + name + "." + std::to_string(rank); };
  close(open(path_of(identity.rank).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  for (int rank = 0; rank < identity.ranks; ++rank)
    while (access(path_of(rank).c_str(), F_OK) != 0) usleep(2000);
}

// op_seq 1 to 12
int collectives(const RankIdentity& identity) {
  Rank rank(identity);
  rank.all_reduce(small_count);
  rank.all_reduce(large_count);
  for (size_t count : {small_count, large_count / 3})
    REQUIRE_OK(ncclAllGather(rank.source, rank.target, count, ncclFloat32, rank.comm, rank.stream));
  for (size_t count : {small_count, large_count / 3})
    REQUIRE_OK(ncclReduceScatter(rank.source, rank.target, count, ncclFloat32, ncclSum, rank.comm, rank.stream));
  for (size_t count : {small_count, large_count})
    REQUIRE_OK(ncclBroadcast(rank.source, rank.target, count, ncclFloat32, broadcast_root, rank.comm, rank.stream));
  for (size_t count : {small_count, large_count})
    REQUIRE_OK(ncclReduce(rank.source, rank.target, count, ncclFloat32, ncclSum, reduce_root, rank.comm, rank.stream));
  rank.all_reduce(0);
  rank.all_reduce(small_count);
  return rank.destroy();
}

// op_seq 1: large, then small ones: AllReduce has another algorithm than the ring
int all_reduces(const RankIdentity& identity) {
  Rank rank(identity);
  rank.all_reduce(large_count);
  for (int i = 0; i < 3; ++i) rank.all_reduce(small_count);
  return rank.destroy();
}

constexpr ncclDataType_t built_types[] = {ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat16, ncclInt32, ncclUint8};

int types(const RankIdentity& identity) {
  Rank rank(identity);
  for (ncclDataType_t type : built_types) rank.all_reduce(small_count, type);
  // Without reduction, every type is moved as bytes.
  for (ncclDataType_t type : {ncclInt8, ncclUint32, ncclInt64, ncclUint64, ncclFloat8e4m3, ncclFloat8e5m2})
    REQUIRE_OK(ncclAllGather(rank.source, rank.target, small_count, type, rank.comm, rank.stream));
  return rank.destroy();
}

// op_seq 1 alone, 2 to 5 in one group, 6 alone
int fused(const RankIdentity& identity) {
  Rank rank(identity);
  rank.all_reduce(small_count);
  REQUIRE_OK(ncclGroupStart());
  for (size_t count : shared_counts) rank.all_reduce(count);
  REQUIRE_OK(ncclAllGather(rank.source, rank.target, small_count, ncclFloat32, rank.comm, rank.stream));
  REQUIRE_OK(ncclGroupEnd());
  rank.all_reduce(small_count);
  return rank.destroy();
}

void exchange_with_neighbours(Rank& rank, size_t count) {
  const RankIdentity& identity = rank.identity;
  REQUIRE_OK(ncclGroupStart());
  REQUIRE_OK(ncclSend(rank.source, count, ncclFloat32, rank.next(), rank.comm, rank.stream));
  REQUIRE_OK(ncclRecv(rank.target, count, ncclFloat32, rank.previous(), rank.comm, rank.stream));
  REQUIRE_OK(ncclGroupEnd());
}

int point_to_point(const RankIdentity& identity) {
  Rank rank(identity);
  exchange_with_neighbours(rank, small_count);
  // Everybody with everybody, oneself included.
  REQUIRE_OK(ncclGroupStart());
  for (int peer = 0; peer < identity.ranks; ++peer) {
    REQUIRE_OK(ncclSend(rank.source, exchange_count(identity.rank, peer), ncclFloat32, peer, rank.comm, rank.stream));
    REQUIRE_OK(ncclRecv(rank.target, exchange_count(peer, identity.rank), ncclFloat32, peer, rank.comm, rank.stream));
  }
  REQUIRE_OK(ncclGroupEnd());
  // Several calls between the same two.
  REQUIRE_OK(ncclGroupStart());
  for (int i = 0; i < pair_calls; ++i) {
    const size_t count = small_count + static_cast<size_t>(i);
    REQUIRE_OK(ncclSend(rank.source, count, ncclFloat32, rank.next(), rank.comm, rank.stream));
    REQUIRE_OK(ncclRecv(rank.target, count, ncclFloat32, rank.previous(), rank.comm, rank.stream));
  }
  REQUIRE_OK(ncclGroupEnd());
  rank.all_reduce(small_count);
  return rank.destroy();
}

// op_seq 1 AlltoAll, 2 Gather, 3 Scatter, 4 AllReduce
int gather_scatter(const RankIdentity& identity) {
  Rank rank(identity);
  REQUIRE_OK(ncclAlltoAll(rank.source, rank.target, small_count, ncclFloat32, rank.comm, rank.stream));
  REQUIRE_OK(ncclGather(rank.source, rank.target, small_count, ncclFloat32, reduce_root, rank.comm, rank.stream));
  REQUIRE_OK(ncclScatter(rank.source, rank.target, small_count, ncclFloat32, broadcast_root, rank.comm, rank.stream));
  rank.all_reduce(small_count);
  return rank.destroy();
}

// op_seq 1 to n: a Broadcast from every rank, in one group
int all_gather_v(const RankIdentity& identity) {
  Rank rank(identity);
  REQUIRE_OK(ncclGroupStart());
  for (int root = 0; root < identity.ranks; ++root) {
    char* part = rank.target + static_cast<size_t>(root) * small_count * 8;
    REQUIRE_OK(ncclBroadcast(rank.source, part, small_count + static_cast<size_t>(root), ncclFloat32, root, rank.comm,
                             rank.stream));
  }
  REQUIRE_OK(ncclGroupEnd());
  return rank.destroy();
}

// op_seq 1, 3 AllGather, 2, 4 ReduceScatter
int pat(const RankIdentity& identity) {
  Rank rank(identity);
  for (size_t count : {small_count, large_count / 3}) {
    REQUIRE_OK(ncclAllGather(rank.source, rank.target, count, ncclFloat32, rank.comm, rank.stream));
    REQUIRE_OK(ncclReduceScatter(rank.source, rank.target, count, ncclFloat32, ncclSum, rank.comm, rank.stream));
  }
  return rank.destroy();
}

// op_seq 1 and 2 and one exchange are captured; 3 onwards are ordinary, one after each replay
int graph(const RankIdentity& identity) {
  Rank rank(identity);
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  REQUIRE_OK(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeGlobal));
  rank.all_reduce(small_count);
  REQUIRE_OK(ncclAllGather(rank.source, rank.target, small_count, ncclFloat32, rank.comm, rank.stream));
  exchange_with_neighbours(rank, small_count);
  REQUIRE_OK(cudaStreamEndCapture(rank.stream, &graph));
  REQUIRE_OK(cudaGraphInstantiate(&executable, graph, 0));
  REQUIRE_OK(cudaGraphDestroy(graph));
  for (int replay = 0; replay < graph_replays; ++replay) {
    REQUIRE_OK(cudaGraphLaunch(executable, rank.stream));
    rank.all_reduce(small_count);
  }
  rank.wait();
  REQUIRE_OK(cudaGraphExecDestroy(executable));
  return rank.destroy();
}

// op_seq 1 with data, 2 without
// As torch.compile does it, to learn how long calls would take: not on all ranks.
int simulated(const RankIdentity& identity) {
  Rank rank(identity);
  rank.all_reduce(small_count);
  exchange_with_neighbours(rank, small_count);
  for (int i = 0; i < 3 && identity.rank == 0; ++i) {
    ncclSimInfo_t estimate = NCCL_SIM_INFO_INITIALIZER;
    REQUIRE_OK(ncclGroupStart());
    for (const size_t count : shared_counts) rank.all_reduce(count);
    REQUIRE_OK(ncclSend(rank.source, small_count, ncclFloat32, rank.next(), rank.comm, rank.stream));
    REQUIRE_OK(ncclRecv(rank.target, small_count, ncclFloat32, rank.previous(), rank.comm, rank.stream));
    REQUIRE_OK(ncclGroupSimulateEnd(&estimate));
  }
  rank.all_reduce(small_count);
  exchange_with_neighbours(rank, small_count);
  return rank.destroy();
}

int one_rank(const RankIdentity& identity) {
  Rank rank(identity);
  rank.all_reduce(small_count);
  rank.all_reduce(0);
  return rank.destroy();
}

// Several communicators at the same time, each on a stream of its own.
int streams(const RankIdentity& identity) {
  constexpr int communicators = 4;
  Rank rank(identity);
  ncclComm_t comms[communicators];
  cudaStream_t streams[communicators];
  for (int i = 0; i < communicators; ++i) {
    REQUIRE_OK(ncclCommSplit(rank.comm, 0, identity.rank, &comms[i], nullptr));
    REQUIRE_OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
  }
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < communicators; ++i) {
      REQUIRE_OK(ncclAllReduce(rank.source, rank.target + i * (buffer_bytes / communicators), small_count, ncclFloat32,
                               ncclSum, comms[i], streams[i]));
    }
  }
  for (int i = 0; i < communicators; ++i) REQUIRE_OK(cudaStreamSynchronize(streams[i]));
  for (ncclComm_t comm : comms) REQUIRE_OK(ncclCommDestroy(comm));
  return rank.destroy();
}

// One AllReduce each on: the parent, two halves of it, and two shrunk ones of the same members at the same time.
int communicators(const RankIdentity& identity) {
  Rank rank(identity);
  rank.all_reduce(small_count);
  const auto use = [&](ncclComm_t comm) {
    REQUIRE_OK(ncclAllReduce(rank.source, rank.target, small_count, ncclFloat32, ncclSum, comm, rank.stream));
    rank.wait();
  };
  ncclComm_t half = nullptr;
  ncclConfig_t sharing = NCCL_CONFIG_INITIALIZER;
  sharing.splitShare = 1;
  REQUIRE_OK(ncclCommSplit(rank.comm, identity.rank % 2, identity.rank, &half, &sharing));
  use(half);
  int excluded = identity.ranks - 1;
  ncclComm_t shrunk[2] = {nullptr, nullptr};
  if (identity.rank != excluded) {
    for (ncclComm_t& comm : shrunk)
      REQUIRE_OK(ncclCommShrink(rank.comm, &excluded, 1, &comm, nullptr, NCCL_SHRINK_DEFAULT));
    for (ncclComm_t comm : shrunk) use(comm);
    for (ncclComm_t comm : shrunk) REQUIRE_OK(ncclCommDestroy(comm));
  }
  REQUIRE_OK(ncclCommFinalize(half));
  REQUIRE_OK(ncclCommDestroy(half));
  return rank.destroy();
}

// Communicators with the same connections, one AllReduce each on: one of all ranks, which makes them; the parent, which
// finds them made, as does another one of all ranks; one of the ranks of a node.
int shared_connections(const RankIdentity& identity) {
  Rank rank(identity, true);
  ncclConfig_t sharing = NCCL_CONFIG_INITIALIZER;
  sharing.splitShare = 1;
  const auto split = [&](int color) {
    ncclComm_t comm = nullptr;
    REQUIRE_OK(ncclCommSplit(rank.comm, color, identity.rank, &comm, &sharing));
    return comm;
  };
  const auto use = [&](ncclComm_t comm) {
    REQUIRE_OK(ncclAllReduce(rank.source, rank.target, small_count, ncclFloat32, ncclSum, comm, rank.stream));
    rank.wait();
  };
  const ncclComm_t first = split(0);
  use(first);
  use(rank.comm);
  const ncclComm_t second = split(0);
  use(second);
  const ncclComm_t node = split(identity.rank / (identity.ranks / 2));
  use(node);
  for (ncclComm_t comm : {first, second, node}) REQUIRE_OK(ncclCommDestroy(comm));
  return rank.destroy();
}

// op_seq 1; then kernels of the program get a communicator of their own, by which they may use the network if `gin`.
int device_communicator(const RankIdentity& identity, bool gin) {
  Rank rank(identity);
  rank.all_reduce(small_count);
  ncclDevCommRequirements_t requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
  requirements.lsaBarrierCount = 1;
  if (gin) requirements.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
  ncclDevComm_t device_comm{};
  REQUIRE_OK(ncclDevCommCreate(rank.comm, &requirements, &device_comm));
  rank.all_reduce(small_count);
  rank.wait();
  REQUIRE_OK(ncclDevCommDestroy(rank.comm, &device_comm));
  return rank.destroy();
}
int device_api(const RankIdentity& identity) { return device_communicator(identity, false); }
int gin(const RankIdentity& identity) { return device_communicator(identity, true); }

void wait_until_stuck(Rank& rank) {
  const RankIdentity& identity = rank.identity;
  usleep(500000);  // nothing happens from now on, and that is what is wanted; there is no event to wait for
  if (cudaStreamQuery(rank.stream) != cudaErrorNotReady) fail(identity, "stuck AllReduce", "it completed");
}

// The last rank does not join op_seq 2.
int abort_suite(const RankIdentity& identity) {
  Rank rank(identity);
  rank.all_reduce(small_count);
  rank.wait();
  if (identity.rank != identity.ranks - 1) {
    rank.all_reduce(large_count);
    wait_until_stuck(rank);
  }
  meet(identity, "stuck");
  REQUIRE_OK(ncclCommAbort(rank.comm));
  rank.wait();
  return 0;
}

int revoke_suite(const RankIdentity& identity) {
  Rank rank(identity);
  rank.all_reduce(small_count);
  rank.wait();
  if (identity.rank != identity.ranks - 1) {
    rank.all_reduce(large_count);
    wait_until_stuck(rank);
  }
  meet(identity, "stuck");
  REQUIRE_OK(ncclCommRevoke(rank.comm, NCCL_REVOKE_DEFAULT));
  rank.wait();
  REQUIRE_OK(ncclCommDestroy(rank.comm));
  return 0;
}

// The last rank never makes its communicator; the others give up.
int init_incomplete(const RankIdentity& identity) {
  choose_device(identity);
  const ncclUniqueId id = job_id(identity);
  if (identity.rank == identity.ranks - 1) {
    meet(identity, "given up");
    return 0;
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  REQUIRE_OK(ncclCommInitRankConfig(&comm, identity.ranks, id, identity.rank, &config));
  sleep(3);  // what the service hears meanwhile is the test
  ncclResult_t state = ncclSuccess;
  REQUIRE_OK(ncclCommGetAsyncError(comm, &state));
  if (state != ncclInProgress) fail(identity, "init without the last rank", "it ended");
  REQUIRE_OK(ncclCommAbort(comm));
  meet(identity, "given up");
  return 0;
}

size_t entries_of(const char* path, const char* prefix) {
  size_t entries = 0;
  DIR* folder = opendir(path);
  if (folder == nullptr) return 0;
  while (const dirent* entry = readdir(folder)) entries += std::string(entry->d_name).rfind(prefix, 0) == 0;
  closedir(folder);
  return entries;
}

size_t mappings_of_frames() {
  size_t mappings = 0;
  FILE* maps = fopen("/proc/self/maps", "re");
  char line[1024];
  while (maps != nullptr && fgets(line, sizeof line, maps) != nullptr) mappings += strstr(line, ".frame") != nullptr;
  if (maps != nullptr) fclose(maps);
  return mappings;
}

// What the files of this process begin with.
std::string own_prefix() {
  return ccld::abi::file_prefix({static_cast<uint32_t>(getpid()), ccld::abi::pid_namespace_of("/proc", "self")});
}

// Many communicators of one process, one after the other: what the first ones left must be all that is left. The files
// in which the kernel counts for a progress thread stay open until they are read once more after its end.
int create_destroy(const RankIdentity& identity) {
  constexpr int cycles = 20, warm_up = 5;
  if (identity.rank == 0) (void)job_id(identity);
  REQUIRE_OK(cudaSetDevice(0));
  const char* folder = getenv("NCCL_PROBE_FRAMES_DIR");
  size_t descriptors = 0;
  for (int cycle = 0; cycle < cycles; ++cycle) {
    ncclComm_t comms[2];
    REQUIRE_OK(ncclCommInitAll(comms, 2, nullptr));
    if (mappings_of_frames() != 2) fail(identity, "frames", "not two mapped while two communicators live");
    for (ncclComm_t comm : comms) REQUIRE_OK(ncclCommDestroy(comm));
    if (cycle == warm_up) descriptors = entries_of("/proc/self/fd", "");
  }
  if (mappings_of_frames() != 0) fail(identity, "frames", "still mapped after all communicators ended");
  const std::string frames = own_prefix() + "-";
  if (folder == nullptr || entries_of(folder, frames.c_str()) != 0) fail(identity, "frames", "files left");
  if (!ranks::becomes_true([&] { return entries_of("/proc/self/fd", "") <= descriptors; }, std::chrono::seconds(30)))
    fail(identity, "descriptors", "more open than after the first");
  return 0;
}

size_t own_files(const char* folder) {
  return entries_of(folder, own_prefix().c_str());
}

// Children that end like programs do, or become another program: neither is the job, and neither may touch its files.
int fork_and_exec(const RankIdentity& identity) {
  Rank rank(identity);
  rank.all_reduce(small_count);
  rank.wait();
  const char* folder = getenv("NCCL_PROBE_FRAMES_DIR");
  const size_t files = own_files(folder);
  if (files == 0) fail(identity, "frames", "there is none");
  for (const bool becomes_another : {false, true}) {
    const pid_t child = fork();
    if (child == 0) {
      if (becomes_another) execl("/bin/true", "true", nullptr);
      exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
      fail(identity, becomes_another ? "exec" : "fork", "the child did not end well");
    if (own_files(folder) != files) fail(identity, "frames", "a child removed or added some");
    rank.all_reduce(small_count);
    rank.wait();
  }
  return rank.destroy();
}

}  // namespace

int run_rank(const std::string& suite, const ranks::RankIdentity& identity) {
  static const std::map<std::string, int (*)(const RankIdentity&)> suites = {
      {"collectives", collectives},
      {"all_reduces", all_reduces},
      {"types", types},
      {"fused", fused},
      {"point_to_point", point_to_point},
      {"gather_scatter", gather_scatter},
      {"all_gather_v", all_gather_v},
      {"pat", pat},
      {"graph", graph},
      {"simulated", simulated},
      {"one_rank", one_rank},
      {"device_api", device_api},
      {"gin", gin},
      {"streams", streams},
      {"communicators", communicators},
      {"shared_connections", shared_connections},
      {"abort", abort_suite},
      {"revoke", revoke_suite},
      {"init_incomplete", init_incomplete},
      {"create_destroy", create_destroy},
      {"fork_and_exec", fork_and_exec},
  };
  const auto found = suites.find(suite);
  if (found == suites.end()) {
    fprintf(stderr, "no suite %s\n", suite.c_str());
    return 2;
  }
  return found->second(identity);
}

}  // namespace ccld::operations_test
