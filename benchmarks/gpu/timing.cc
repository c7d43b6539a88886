#include "benchmarks/gpu/timing.h"

namespace ccld::gpu {
namespace {

constexpr int warm_up_operations = 3;  // connections are made by the first of a kind

class Events {
 public:
  explicit Events(const Rank& rank) : rank_(rank) {
    CCLD_GPU_CHECK(cudaSetDevice(rank.device));
    CCLD_GPU_CHECK(cudaEventCreate(&begin_));
    CCLD_GPU_CHECK(cudaEventCreate(&end_));
  }
  ~Events() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Events(const Events&) = delete;

  void begin() { record(begin_); }
  void end() { record(end_); }
  double elapsed_us() const {
    float ms = 0;
    CCLD_GPU_CHECK(cudaEventElapsedTime(&ms, begin_, end_));
    return 1e3 * static_cast<double>(ms);
  }

 private:
  void record(cudaEvent_t event) {
    CCLD_GPU_CHECK(cudaSetDevice(rank_.device));
    CCLD_GPU_CHECK(cudaEventRecord(event, rank_.stream));
  }

  const Rank& rank_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// The operations of every rank, recorded; a graph for each rank.
class Graphs {
 public:
  Graphs(Ranks& ranks, const Call& call, int operations) : ranks_(ranks) {
    ranks.each([](const Rank& rank) {
      CCLD_GPU_CHECK(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal));
    });
    for (int i = 0; i < operations; ++i) ranks.issue(call);
    std::vector<cudaGraph_t> graphs;
    ranks.each([&graphs](const Rank& rank) {
      graphs.emplace_back();
      CCLD_GPU_CHECK(cudaStreamEndCapture(rank.stream, &graphs.back()));
    });
    // Not before every stream has ended its capture: CUDA refuses to instantiate while this thread captures.
    ranks.each([&](const Rank& rank) {
      executables_.emplace_back();
      CCLD_GPU_CHECK(cudaGraphInstantiate(&executables_.back(), graphs[static_cast<size_t>(rank.number)], 0));
      CCLD_GPU_CHECK(cudaGraphDestroy(graphs[static_cast<size_t>(rank.number)]));
    });
  }
  ~Graphs() {
    for (cudaGraphExec_t executable : executables_) cudaGraphExecDestroy(executable);
  }
  Graphs(const Graphs&) = delete;

  void launch() {
    ranks_.each([this](const Rank& rank) {
      CCLD_GPU_CHECK(cudaGraphLaunch(executables_[static_cast<size_t>(rank.number)], rank.stream));
    });
  }

 private:
  Ranks& ranks_;
  std::vector<cudaGraphExec_t> executables_;
};

std::vector<double> sample(Ranks& ranks, int operations, int samples, const std::function<void()>& run) {
  Events events(ranks[0]);
  std::vector<double> times_us;
  for (int i = 0; i < samples; ++i) {
    ranks.wait();
    events.begin();
    run();
    events.end();
    ranks.wait();
    times_us.push_back(events.elapsed_us() / operations);
  }
  return times_us;
}

}  // namespace

std::vector<double> time_us(Ranks& ranks, const Call& call, int operations, int samples, Launch launch) {
  for (int i = 0; i < warm_up_operations; ++i) ranks.issue(call);
  ranks.wait();
  if (launch == Launch::call) {
    return sample(ranks, operations, samples, [&] {
      for (int i = 0; i < operations; ++i) ranks.issue(call);
    });
  }
  Graphs graphs(ranks, call, operations);
  graphs.launch();
  return sample(ranks, operations, samples, [&] { graphs.launch(); });
}

}  // namespace ccld::gpu
