// The life of communicators as it shows outside of the process: initializations that end, fail or never end, families
// with equal hashes, and what is left afterwards. One case a run, all ranks in this process.
#include <cuda_runtime.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <nccl.h>
#include "schemas/abi/file_names.h"
#include "schemas/abi/mapped_frame.h"
#include "schemas/abi/metrics.h"
#include "schemas/abi/process.h"
#include "test/integration/lifecycle/registrations.h"

namespace {

using ccld::abi::InitRecord;
using ccld::abi::InitStage;
using ccld::lifecycle_test::refuse_registrations;
using ccld::lifecycle_test::registrations;

constexpr auto timeout = std::chrono::seconds(20);

#define REQUIRE(condition)                                                    \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)
#define REQUIRE_OK(call) REQUIRE((call) == ncclSuccess)

std::string& folder_of_test() {
  static std::string folder;
  return folder;
}
std::string log_path() { return folder_of_test() + "/log"; }

bool becomes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

std::vector<std::string> files_in(const std::string& folder, const std::string& ending) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  REQUIRE(listing != nullptr);
  while (const dirent* entry = readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0)
      names.push_back(folder + "/" + name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<ccld::abi::FrameIdentity> frames_in(const std::string& folder) {
  std::vector<ccld::abi::FrameIdentity> found;
  for (const std::string& path : files_in(folder, ".frame")) {
    std::string error;
    const auto frame = ccld::abi::MappedFrame::open(path, &error);
    if (!frame) fprintf(stderr, "%s: %s\n", path.c_str(), error.c_str());
    REQUIRE(frame);
    found.push_back(frame->view().identity());
  }
  return found;
}

// The process file, as somebody outside reads it; empty: there is none.
std::vector<char> process_file_in(const std::string& folder) {
  const std::string path =
      folder + "/" +
      ccld::abi::process_file_name({static_cast<uint32_t>(getpid()), ccld::abi::pid_namespace_of("/proc", "self")});
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::vector<char> bytes(ccld::abi::process_file_bytes());
  REQUIRE(read(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  close(file);
  const auto& identity = *reinterpret_cast<const ccld::abi::ProcessIdentityPart*>(bytes.data());
  REQUIRE(identity.magic == ccld::abi::process_magic);
  return bytes;
}

uint64_t metric_in(const std::string& folder, ccld::abi::MetricId id) {
  const std::vector<char> bytes = process_file_in(folder);
  REQUIRE(!bytes.empty());
  const auto& identity = *reinterpret_cast<const ccld::abi::ProcessIdentityPart*>(bytes.data());
  return reinterpret_cast<const uint64_t*>(bytes.data() + identity.metrics_offset)[static_cast<unsigned>(id)];
}

// The initializations of this process by number.
std::map<uint64_t, InitRecord> initializations_in(const std::string& folder) {
  std::map<uint64_t, InitRecord> found;
  const std::vector<char> bytes = process_file_in(folder);
  if (bytes.empty()) return found;
  const auto& identity = *reinterpret_cast<const ccld::abi::ProcessIdentityPart*>(bytes.data());
  for (unsigned i = 0; i < ccld::abi::inits_max; ++i) {
    const auto& record =
        *reinterpret_cast<const InitRecord*>(bytes.data() + identity.inits_offset + i * identity.inits_stride);
    if (record.commit != 0) found[record.commit] = record;
  }
  return found;
}

InitStage stage_of(const InitRecord& record) { return static_cast<InitStage>(record.stage); }

// One rank of two comes, the other never does; then the user gives up.
void pending_case(const std::string& folder) {
  ncclUniqueId id;
  REQUIRE_OK(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const ncclResult_t begun = ncclCommInitRankConfig(&comm, 2, id, 0, &config);
  REQUIRE(begun == ncclInProgress || begun == ncclSuccess);
  REQUIRE(becomes_true([&] { return !initializations_in(folder).empty(); }));
  const InitRecord waiting = initializations_in(folder).at(1);
  REQUIRE(stage_of(waiting) == InitStage::entered);
  REQUIRE(waiting.rank == 0 && waiting.rank_count == 2);
  REQUIRE(waiting.comm_hash != 0 && waiting.comm_number == 0);
  REQUIRE(files_in(folder, ".frame").empty());

  (void)ncclCommAbort(comm);
  REQUIRE(becomes_true([&] { return stage_of(initializations_in(folder).at(1)) == InitStage::failed; }));
  REQUIRE(initializations_in(folder).at(1).result != ncclSuccess);
  REQUIRE(files_in(folder, ".frame").empty());
}

void family_case(const std::string& folder) {
  constexpr int ranks = 2;
  ncclComm_t parents[ranks], children[ranks];
  REQUIRE_OK(ncclCommInitAll(parents, ranks, nullptr));
  std::vector<ccld::abi::FrameIdentity> frames = frames_in(folder);
  REQUIRE(frames.size() == ranks);
  REQUIRE(frames[0].comm_uid != 0 && frames[0].comm_uid == frames[1].comm_uid);
  REQUIRE(frames[0].parent_uid == 0);
  const uint64_t parent_uid = frames[0].comm_uid;
  const auto initializations = initializations_in(folder);
  REQUIRE(initializations.size() == ranks);
  std::set<int> seen;
  for (const auto& [number, record] : initializations) {
    REQUIRE(stage_of(record) == InitStage::ready);
    REQUIRE(record.comm_hash == initializations.at(1).comm_hash && record.rank_count == ranks &&
            record.comm_number != 0);
    seen.insert(record.rank);
  }
  REQUIRE(seen == std::set<int>({0, 1}));

  REQUIRE_OK(ncclGroupStart());
  for (int r = 0; r < ranks; ++r) REQUIRE_OK(ncclCommSplit(parents[r], 0, ranks - r, &children[r], nullptr));
  REQUIRE_OK(ncclGroupEnd());
  frames = frames_in(folder);
  REQUIRE(frames.size() == 2 * ranks);
  uint64_t split_uid = 0;
  for (const auto& frame : frames) {
    if (frame.comm_uid == parent_uid) continue;
    REQUIRE(frame.parent_uid == parent_uid);
    REQUIRE(split_uid == 0 || split_uid == frame.comm_uid);
    split_uid = frame.comm_uid;
  }
  // The exchange of colours and the initialization of the child, for each rank.
  REQUIRE(initializations_in(folder).size() == 3 * ranks);
  for (const auto& [number, record] : initializations_in(folder)) REQUIRE(stage_of(record) == InitStage::ready);
  for (ncclComm_t child : children) REQUIRE_OK(ncclCommDestroy(child));
  REQUIRE(frames_in(folder).size() == ranks);

  // Shrunk twice to the same member: NCCL's hash is equal, ours is not.
  int excluded = 1;
  ncclComm_t first = nullptr, second = nullptr;
  REQUIRE_OK(ncclCommShrink(parents[0], &excluded, 1, &first, nullptr, NCCL_SHRINK_DEFAULT));
  REQUIRE_OK(ncclCommShrink(parents[0], &excluded, 1, &second, nullptr, NCCL_SHRINK_DEFAULT));
  std::set<uint64_t> hashes, uids;
  for (const auto& frame : frames_in(folder)) {
    if (frame.comm_uid == parent_uid) continue;
    REQUIRE(frame.parent_uid == parent_uid && frame.rank_count == 1);
    hashes.insert(frame.comm_hash);
    uids.insert(frame.comm_uid);
  }
  REQUIRE(hashes.size() == 1 && uids.size() == 2);
  REQUIRE_OK(ncclCommDestroy(first));
  REQUIRE_OK(ncclCommAbort(second));
  REQUIRE_OK(ncclGroupStart());
  for (ncclComm_t parent : parents) REQUIRE_OK(ncclCommFinalize(parent));
  REQUIRE_OK(ncclGroupEnd());
  for (ncclComm_t parent : parents) REQUIRE_OK(ncclCommDestroy(parent));
  REQUIRE(files_in(folder, ".frame").empty());
}

// Two ranks are joined by a third. All of them know the same hash before they have talked.
void grow_case(const std::string& folder) {
  constexpr int before = 2, after = 3;
  ncclComm_t parents[before], grown[after] = {};
  REQUIRE_OK(ncclCommInitAll(parents, before, nullptr));
  const uint64_t parent_uid = frames_in(folder).at(0).comm_uid;
  ncclUniqueId id;
  REQUIRE_OK(ncclCommGetUniqueId(parents[0], &id));
  std::vector<std::thread> ranks;
  for (int r = 0; r < after; ++r) {
    ranks.emplace_back([&, r] {
      REQUIRE(cudaSetDevice(r) == cudaSuccess);
      const bool is_new = r >= before;
      const bool knows_id = is_new || r == 0;
      REQUIRE_OK(ncclCommGrow(is_new ? nullptr : parents[r], after, knows_id ? &id : nullptr, is_new ? r : -1,
                              &grown[r], nullptr));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  uint64_t hash = 0;
  for (const auto& [number, record] : initializations_in(folder)) {
    REQUIRE(stage_of(record) == InitStage::ready);
    if (record.rank_count != after) continue;
    REQUIRE(hash == 0 || hash == record.comm_hash);
    hash = record.comm_hash;
  }
  REQUIRE(hash != 0);
  uint64_t uid = 0;
  int seen = 0;
  for (const auto& frame : frames_in(folder)) {
    if (frame.rank_count != after) continue;
    REQUIRE(uid == 0 || uid == frame.comm_uid);
    uid = frame.comm_uid;
    REQUIRE(frame.parent_uid == (frame.rank < before ? parent_uid : 0));
    ++seen;
  }
  REQUIRE(seen == after && uid != parent_uid);
  for (ncclComm_t comm : grown) REQUIRE_OK(ncclCommAbort(comm));
  for (ncclComm_t comm : parents) REQUIRE_OK(ncclCommAbort(comm));
  REQUIRE(files_in(folder, ".frame").empty());
}

// ---- memory that the GPU sees ---------------------------------------------------------------------------------------

constexpr int pair = 2;

void all_reduce_works(ncclComm_t* comms) {
  float* buffers[pair];
  for (int r = 0; r < pair; ++r) {
    REQUIRE(cudaSetDevice(r) == cudaSuccess);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&buffers[r]), sizeof(float)) == cudaSuccess);
    const float value = static_cast<float>(r + 1);
    REQUIRE(cudaMemcpy(buffers[r], &value, sizeof value, cudaMemcpyHostToDevice) == cudaSuccess);
  }
  REQUIRE_OK(ncclGroupStart());
  for (int r = 0; r < pair; ++r)
    REQUIRE_OK(ncclAllReduce(buffers[r], buffers[r], 1, ncclFloat32, ncclSum, comms[r], nullptr));
  REQUIRE_OK(ncclGroupEnd());
  for (int r = 0; r < pair; ++r) {
    float value = 0;
    REQUIRE(cudaSetDevice(r) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaMemcpy(&value, buffers[r], sizeof value, cudaMemcpyDeviceToHost) == cudaSuccess);
    REQUIRE(value == 3);
    REQUIRE(cudaFree(buffers[r]) == cudaSuccess);
  }
}

void destroy(ncclComm_t* comms) {
  for (int r = 0; r < pair; ++r) REQUIRE_OK(ncclCommDestroy(comms[r]));
}

int warnings_with(const std::string& text) {
  int found = 0;
  std::ifstream log(log_path());
  for (std::string line; std::getline(log, line);)
    found += line.find("NCCL WARN PROBE") != std::string::npos && line.find(text) != std::string::npos;
  return found;
}

void refused_registration_case(const std::string& folder) {
  for (int i = 0; i < 2; ++i) {
    ncclComm_t comms[pair];
    REQUIRE_OK(ncclCommInitAll(comms, pair, nullptr));
    REQUIRE(files_in(folder, ".frame").empty());
    all_reduce_works(comms);
    destroy(comms);
  }
  REQUIRE(warnings_with("") == 1);
  REQUIRE(warnings_with(
              "frames are kept without a file, where nobody but this process sees them: cudaHostRegister: ") == 1);
  REQUIRE(metric_in(folder, ccld::abi::MetricId::agent_comms_unwatched) == 0);
}

void refused_memory_case(const std::string& folder) {
  for (int i = 0; i < 2; ++i) {
    ncclComm_t comms[pair];
    REQUIRE_OK(ncclCommInitAll(comms, pair, nullptr));
    REQUIRE(files_in(folder, ".frame").empty() && files_in(folder, ".spare").empty());
    all_reduce_works(comms);
    destroy(comms);
  }
  REQUIRE(warnings_with("") == 1);
  REQUIRE(warnings_with("a communicator is not watched: cudaHostRegister: ") == 1);
  REQUIRE(warnings_with("; cudaHostAlloc: ") == 1);
  REQUIRE(metric_in(folder, ccld::abi::MetricId::agent_comms_unwatched) == 2 * pair);
}

// Which driver the library needs is one line of the log, and in the process file.
void driver_case(const std::string& folder) {
  ncclComm_t comms[pair];
  REQUIRE_OK(ncclCommInitAll(comms, pair, nullptr));
  int lines = 0;
  std::ifstream log(log_path());
  for (std::string line; std::getline(log, line);)
    lines += line.find("NCCL INFO PROBE built with CUDA 13") != std::string::npos &&
             line.find("needs driver 580.65.06 or newer; the driver here is for CUDA 13") != std::string::npos;
  REQUIRE(lines == 1);
  const std::vector<char> bytes = process_file_in(folder);
  REQUIRE(!bytes.empty());
  const auto& identity = *reinterpret_cast<const ccld::abi::ProcessIdentityPart*>(bytes.data());
  REQUIRE(identity.cuda_version == CUDART_VERSION && identity.driver_cuda_version >= 13000);
  destroy(comms);
}

// What the probe warns of is no error of the user's calls.
void last_error_case(const std::string&) {
  ncclComm_t first[pair], second[pair];
  REQUIRE_OK(ncclCommInitAll(first, pair, nullptr));
  REQUIRE(ncclAllReduce(nullptr, nullptr, 1, static_cast<ncclDataType_t>(99), ncclSum, first[0], nullptr) !=
          ncclSuccess);
  const std::string error = ncclGetLastError(first[0]);
  REQUIRE(error.find("99") != std::string::npos);
  refuse_registrations();
  REQUIRE_OK(ncclCommInitAll(second, pair, nullptr));
  REQUIRE(warnings_with("") == 1);
  REQUIRE(ncclGetLastError(first[0]) == error);
  destroy(second);
  destroy(first);
}

// What the GPU keeps for the probe lies in memory that NCCL takes anyway: an allocation of its own would take 2 MiB.
void no_gpu_memory_of_its_own_case(const std::string&) {
  const auto allocations_of_a_pair = [] {
    ncclComm_t comms[pair];
    REQUIRE_OK(ncclCommInitAll(comms, pair, nullptr));
    const int allocations = registrations().allocations;
    destroy(comms);
    return allocations;
  };
  const pid_t unwatched = fork();  // before this process has used CUDA
  REQUIRE(unwatched >= 0);
  if (unwatched == 0) {
    setenv("NCCL_PROBE_ENABLE", "0", 1);
    _exit(allocations_of_a_pair());
  }
  int status = 0;
  REQUIRE(waitpid(unwatched, &status, 0) == unwatched && WIFEXITED(status) && WEXITSTATUS(status) > 1);
  REQUIRE(allocations_of_a_pair() == WEXITSTATUS(status));
}

// Memory is given back to CUDA once no communicator is left, and serves the next one before.
void used_again_case(const std::string& folder) {
  ncclComm_t first[pair], next[pair];
  REQUIRE_OK(ncclCommInitAll(first, pair, nullptr));
  int registered = 0;
  for (int i = 0; i < 5; ++i) {
    REQUIRE_OK(ncclCommInitAll(next, pair, nullptr));
    if (i == 0) registered = registrations().taken;
    REQUIRE(registrations().taken == registered);
    std::set<int> ranks;
    for (const auto& frame : frames_in(folder)) ranks.insert(frame.rank);
    REQUIRE(frames_in(folder).size() == 2 * pair && ranks.size() == pair);
    all_reduce_works(next);
    destroy(next);
    REQUIRE(frames_in(folder).size() == pair);
    REQUIRE(files_in(folder, ".spare").size() == pair);
    REQUIRE(registrations().given_back == 0);
  }
  destroy(first);
  REQUIRE(registered == 2 * pair && registrations().given_back == registered);
  REQUIRE(files_in(folder, ".frame").empty() && files_in(folder, ".spare").empty());
}

// The memory of a file that somebody truncates serves nobody after that, whether the probe has seen it or not.
void truncated_case(const std::string& folder) {
  ncclComm_t first[pair], ended[pair], next[pair];
  const auto truncate_all = [&](const char* ending) {
    for (const std::string& path : files_in(folder, ending)) {
      REQUIRE(chmod(path.c_str(), 0600) == 0);
      REQUIRE(truncate(path.c_str(), 0) == 0);
    }
  };
  REQUIRE_OK(ncclCommInitAll(first, pair, nullptr));
  truncate_all(".frame");
  all_reduce_works(first);
  REQUIRE(becomes_true([] { return warnings_with("somebody has truncated") == 1; }));
  REQUIRE_OK(ncclCommInitAll(ended, pair, nullptr));
  destroy(first);
  REQUIRE_OK(ncclCommInitAll(next, pair, nullptr));
  REQUIRE(frames_in(folder).size() == 2 * pair);
  destroy(next);
  truncate_all(".spare");
  REQUIRE_OK(ncclCommInitAll(next, pair, nullptr));
  REQUIRE(frames_in(folder).size() == 2 * pair);
  all_reduce_works(next);
  destroy(next);
  destroy(ended);
  REQUIRE(registrations().given_back == registrations().taken);
  REQUIRE(files_in(folder, ".frame").empty() && files_in(folder, ".spare").empty());
}

// A kernel of one communicator waits for its peer while another communicator ends: nothing of the probe waits for it.
void while_a_kernel_waits_case(const std::string&) {
  ncclComm_t waiting[pair], ending[pair];
  const int others[pair] = {2, 3};
  REQUIRE_OK(ncclCommInitAll(waiting, pair, nullptr));
  REQUIRE_OK(ncclCommInitAll(ending, pair, others));
  all_reduce_works(waiting);  // connects them
  float* buffers[pair];
  const auto call = [&](int r) {
    REQUIRE(cudaSetDevice(r) == cudaSuccess);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&buffers[r]), sizeof(float)) == cudaSuccess);
    REQUIRE_OK(ncclAllReduce(buffers[r], buffers[r], 1, ncclFloat32, ncclSum, waiting[r], nullptr));
  };
  call(0);
  REQUIRE(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  destroy(ending);
  REQUIRE(registrations().given_back == 0);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  REQUIRE(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  call(1);
  for (int r = 0; r < pair; ++r) {
    REQUIRE(cudaSetDevice(r) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaFree(buffers[r]) == cudaSuccess);
  }
  destroy(waiting);
  REQUIRE(registrations().given_back == registrations().taken);
}

// An endpoint that waits shows that again and again, by time: every 4 ms, on any device.
void wait_is_shown_case(const std::string& folder) {
  ncclComm_t comms[pair];
  REQUIRE_OK(ncclCommInitAll(comms, pair, nullptr));
  all_reduce_works(comms);  // connects them
  float* buffers[pair];
  const auto call = [&](int r) {
    REQUIRE(cudaSetDevice(r) == cudaSuccess);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&buffers[r]), sizeof(float)) == cudaSuccess);
    REQUIRE_OK(ncclAllReduce(buffers[r], buffers[r], 1, ncclFloat32, ncclSum, comms[r], nullptr));
  };
  call(0);
  for (const std::string& path : files_in(folder, ".frame")) {
    std::string error;
    const auto frame = ccld::abi::MappedFrame::open(path, &error);
    REQUIRE(frame);
    if (frame->view().identity().rank != 0) continue;
    const auto tick = [&] {
      ccld::abi::Lane lane;
      for (uint32_t i = 0; i < ccld::abi::lanes_per_direction; ++i)
        if (frame->view().read_lane(0, ccld::abi::Direction::recv, i, &lane) && lane.poll_tick != 0)
          return lane.poll_tick;
      return 0u;
    };
    const auto next_tick = [&](uint32_t before) {
      uint32_t now = tick();
      for (; now == before; now = tick()) std::this_thread::yield();
      return now;
    };
    // Not from the first: that may be of the call before.
    uint32_t last = next_tick(tick());
    for (int shown = 0; shown < 20; ++shown) {
      const uint32_t next = next_tick(last);
      constexpr uint32_t tick_ns = 1024, ticks_per_turn = 1u << 22;  // of the low word of the clock
      REQUIRE((next - last) % ticks_per_turn >= 3'990'000 / tick_ns);
      last = next;
    }
  }
  call(1);
  for (int r = 0; r < pair; ++r) {
    REQUIRE(cudaSetDevice(r) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaFree(buffers[r]) == cudaSuccess);
  }
  destroy(comms);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string which = count > 1 ? arguments[1] : "";
  char folder[] = "/tmp/ccld-lifecycle-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  setenv("NCCL_PROBE_FRAMES_DIR", folder, 1);
  folder_of_test() = folder;
  setenv("NCCL_DEBUG", "WARN", 1);
  setenv("NCCL_DEBUG_FILE", log_path().c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  setenv("NCCL_IB_DISABLE", "1", 0);
  setenv("NCCL_MAX_NCHANNELS", "2", 0);
  setenv("NCCL_MIN_NCHANNELS", "1", 0);
  // Between two GPUs NCCL takes its own registered memory on some processors, and none on others (AMD, or this level).
  setenv("NCCL_P2P_LEVEL", "SYS", 0);
  if (which == "pending") {
    pending_case(folder);
  } else if (which == "family") {
    family_case(folder);
  } else if (which == "grow") {
    grow_case(folder);
  } else if (which == "refused_registration") {
    setenv("CCLD_CPU_DEVICE_REFUSE", "registration", 1);
    refused_registration_case(folder);
  } else if (which == "refused_memory") {
    setenv("CCLD_CPU_DEVICE_REFUSE", "registration,portable", 1);
    refused_memory_case(folder);
  } else if (which == "driver") {
    setenv("NCCL_DEBUG", "INFO", 1);
    driver_case(folder);
  } else if (which == "last_error") {
    last_error_case(folder);
  } else if (which == "no_gpu_memory_of_its_own") {
    setenv("NCCL_CUMEM_ENABLE", "0", 1);
    no_gpu_memory_of_its_own_case(folder);
  } else if (which == "used_again") {
    used_again_case(folder);
  } else if (which == "truncated") {
    truncated_case(folder);
  } else if (which == "wait_is_shown") {
    setenv("NCCL_ALGO", "Ring", 1);
    setenv("NCCL_PROTO", "Simple", 1);
    wait_is_shown_case(folder);
  } else if (which == "while_a_kernel_waits") {
    while_a_kernel_waits_case(folder);
  } else {
    fprintf(stderr, "unknown case \"%s\"\n", which.c_str());
    return 2;
  }
  const std::string remove = std::string("rm -rf ") + folder;
  if (system(remove.c_str()) != 0) return 1;
  printf("%s: as it should be\n", which.c_str());
  return 0;
}
