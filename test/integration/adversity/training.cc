#include "test/integration/adversity/training.h"

#include <cuda_runtime.h>
#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

namespace ccld::adversity {
namespace {

constexpr auto timeout = std::chrono::seconds(30);
constexpr size_t elements = 1000;

std::string& folder_name() {
  static std::string name;
  return name;
}

}  // namespace

const std::string& folder() { return folder_name(); }

void prepare() {
  char name[] = "/tmp/ccld-adversity-XXXXXX";
  if (mkdtemp(name) == nullptr) exit(1);
  folder_name() = name;
  const auto set = [](const char* variable, const std::string& value) { setenv(variable, value.c_str(), 0); };
  set("NCCL_PROBE_FRAMES_DIR", folder());
  set("NCCL_DEBUG", "WARN");
  set("NCCL_DEBUG_FILE", folder() + "/log");
  set("NCCL_SOCKET_IFNAME", "lo");
  set("NCCL_IB_DISABLE", "1");
  set("NCCL_MAX_NCHANNELS", "2");
  set("NCCL_MIN_NCHANNELS", "1");
  set("NCCL_P2P_LEVEL", "SYS");
  // NCCL keeps its own thread for it in a static object: a child that leaves by exit() would end with SIGABRT.
  set("NCCL_RAS_ENABLE", "0");
}

void remove_folder() {
  if (system(("rm -rf " + folder()).c_str()) != 0) exit(1);
}

std::string log_text() {
  std::ifstream log(folder() + "/log");
  std::stringstream text;
  text << log.rdbuf();
  return text.str();
}

int warnings_with(const std::string& text) {
  std::istringstream log(log_text());
  int found = 0;
  for (std::string line; std::getline(log, line);)
    found += line.find("NCCL WARN PROBE") != std::string::npos && line.find(text) != std::string::npos ? 1 : 0;
  return found;
}

bool is_warned_of(const std::string& text) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (warnings_with(text) == 0) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::vector<std::string> files(const std::string& ending) {
  std::vector<std::string> found;
  DIR* listing = opendir(folder().c_str());
  if (listing == nullptr) return found;
  while (const dirent* entry = readdir(listing)) {
    const std::string name = entry->d_name;
    if (name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0)
      found.push_back(folder() + "/" + name);
  }
  closedir(listing);
  std::sort(found.begin(), found.end());
  return found;
}

Training::Training() { REQUIRE(ncclCommInitAll(comms_, ranks, nullptr) == ncclSuccess); }

void Training::goes_on(int rounds) {
  float* buffers[ranks];
  for (int r = 0; r < ranks; ++r) {
    REQUIRE(cudaSetDevice(r) == cudaSuccess);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&buffers[r]), elements * sizeof(float)) == cudaSuccess);
  }
  for (int i = 0; i < rounds; ++i) {
    ++round_;
    for (int r = 0; r < ranks; ++r) {
      const std::vector<float> in(elements, static_cast<float>((r + 1) * (round_ % 1000)));
      REQUIRE(cudaMemcpy(buffers[r], in.data(), elements * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess);
    }
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int r = 0; r < ranks; ++r)
      REQUIRE(ncclAllReduce(buffers[r], buffers[r], elements, ncclFloat32, ncclSum, comms_[r], nullptr) == ncclSuccess);
    REQUIRE(ncclGroupEnd() == ncclSuccess);
    for (int r = 0; r < ranks; ++r) {
      std::vector<float> out(elements);
      REQUIRE(cudaSetDevice(r) == cudaSuccess);
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
      REQUIRE(cudaMemcpy(out.data(), buffers[r], elements * sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess);
      const float right = static_cast<float>(3 * (round_ % 1000));
      REQUIRE(std::all_of(out.begin(), out.end(), [&](float value) { return value == right; }));
    }
  }
  for (int r = 0; r < ranks; ++r) REQUIRE(cudaFree(buffers[r]) == cudaSuccess);
}

void Training::ends() {
  for (ncclComm_t comm : comms_) REQUIRE(ncclCommDestroy(comm) == ncclSuccess);
}

}  // namespace ccld::adversity
