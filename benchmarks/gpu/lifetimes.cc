#include "benchmarks/gpu/lifetimes.h"

#include <dirent.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

namespace ccld::gpu {
namespace {

constexpr size_t small_count = 1031;
// The kernels have begun by then, and nothing happens any more: there is no event to wait for.
constexpr auto until_stuck = std::chrono::milliseconds(300);

size_t entries_of(const std::string& path, const std::string& prefix) {
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) return 0;
  size_t entries = 0;
  while (const dirent* entry = readdir(folder)) entries += strncmp(entry->d_name, prefix.c_str(), prefix.size()) == 0;
  closedir(folder);
  return entries;
}

size_t mapped_frames() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(".frame") != std::string::npos;
  return count;
}

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Held held_now(const std::string& frames_folder) {
  size_t free_bytes = 0, total_bytes = 0;
  CCLD_GPU_CHECK(cudaSetDevice(0));
  CCLD_GPU_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return {entries_of("/proc/self/fd", ""), mapped_frames(),
          entries_of(frames_folder, "ccld-" + std::to_string(getpid()) + "-"), resident_bytes(), free_bytes};
}

void use_and_end(int ranks, int cycles) {
  for (int i = 0; i < cycles; ++i) {
    Ranks more(ranks);
    more.issue({Collective::all_reduce, ncclFloat32, ncclSum, small_count, 0});
    more.end();
  }
}

double abort_while_waiting(int count) {
  const Call call{Collective::all_reduce, ncclFloat32, ncclSum, small_count, 0};
  Ranks ranks(count);
  ranks.issue(call);  // connections are made by the first one, of all
  ranks.wait();
  ranks.group([&](const Rank& rank) {
    return rank.number == 0 ? ncclSuccess
                            : issue(call, rank.send, rank.recv, rank.number, count, rank.comm, rank.stream);
  });
  std::this_thread::sleep_for(until_stuck);
  for (const Rank& rank : ranks.all()) {
    if (rank.number != 0 && cudaStreamQuery(rank.stream) != cudaErrorNotReady) {
      throw std::runtime_error("a rank did not wait for the one that does not come");
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  ranks.abort();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace ccld::gpu
