#include "test/support/workload/rank_loop.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "test/support/workload/device_time.h"
#include "test/support/workload/fault_file.h"
#include "test/support/workload/status_board.h"
#include "test/support/workload/traffic.h"
#include "test/support/workload/values.h"

namespace ccld::workload {
namespace {

// How far other ranks may be ahead of rank 0. Small roots of broadcasts run ahead a little; nobody waits in practice.
constexpr uint64_t release_ahead_rounds = 16;
constexpr auto board_poll_interval = std::chrono::microseconds(200);
constexpr auto id_wait_max = std::chrono::seconds(60);

void sleep_ms(double ms) { std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms)); }

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(result) + " (" + ncclGetLastError(nullptr) +
                           ")");
}
void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
}
#define CCLD_CHECK(call) check((call), #call)

ncclUniqueId exchange_id(const Options& options) {
  ncclUniqueId id;
  if (options.rank == 0) {
    CCLD_CHECK(ncclGetUniqueId(&id));
    const std::string unfinished = options.id_file + ".part";
    std::ofstream file(unfinished, std::ios::binary);
    file.write(id.internal, sizeof id.internal);
    file.close();
    if (!file || rename(unfinished.c_str(), options.id_file.c_str()) != 0) {
      throw std::runtime_error("--id-file " + options.id_file + ": cannot be written");
    }
    return id;
  }
  const auto deadline = std::chrono::steady_clock::now() + id_wait_max;
  for (;;) {
    std::ifstream file(options.id_file, std::ios::binary);
    if (file.read(id.internal, sizeof id.internal)) return id;
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("--id-file " + options.id_file + ": rank 0 has not written it");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// A repeatable number from 0 to 1.
double draw(uint64_t seed, uint64_t rank, uint64_t round) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u ^ (rank + 1) * 0xbf58476d1ce4e5b9u ^ round * 0x94d049bb133111ebu;
  x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
  x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
  return static_cast<double>((x ^ x >> 33) >> 11) * 0x1p-53;
}

class RankLoop {
 public:
  explicit RankLoop(const Options& options)
      : options_(options),
        traffic_(options),
        faults_(options.fault_file, options.rank),
        board_(options.status_file, options.rank_count),
        slot_(board_.slot(options.rank)) {}

  uint64_t run() {
    slot_.pid.store(static_cast<uint64_t>(getpid()));
    slot_.state.store(uint64_t(RankState::starting));
    try {
      set_up();
      slot_.state.store(uint64_t(RankState::ready));
      rounds();
      tear_down();
    } catch (...) {
      slot_.state.store(uint64_t(RankState::failed));
      throw;
    }
    slot_.state.store(uint64_t(RankState::finished));
    if (options_.rank == 0) summarize();
    return slot_.wrong_results.load();
  }

 private:
  void set_up() {
    int devices = 0;
    CCLD_CHECK(cudaGetDeviceCount(&devices));
    if (devices == 0) throw std::runtime_error("cudaGetDeviceCount: no device");
    CCLD_CHECK(cudaSetDevice(options_.rank % devices));
    const ncclUniqueId id = exchange_id(options_);
    CCLD_CHECK(ncclCommInitRank(&comm_, options_.rank_count, id, options_.rank));
    CCLD_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    const uint64_t bytes = traffic_.buffer_bytes_max();
    CCLD_CHECK(cudaMalloc(&send_, bytes));
    CCLD_CHECK(cudaMalloc(&recv_, bytes));
    CCLD_CHECK(cudaMemset(send_, 0, bytes));
    const Call call = traffic_.call(1);
    const auto input =
        input_of(options_.rank, call.datatype, call.reduction, options_.bytes_max / bytes_of(call.datatype));
    if (!input.empty()) CCLD_CHECK(cudaMemcpy(send_, input.data(), input.size(), cudaMemcpyHostToDevice));
  }

  void rounds() {
    begin_ns_ = monotonic_ns();
    for (uint64_t round = 1; released(round); ++round) {
      faults_.refresh();
      slot_.fault_text_version.store(faults_.version());
      const uint64_t round_begin_ns = monotonic_ns();
      const RoundPlan plan = faults_.plan(round, traffic_);
      if (plan.changed) {
        if (slot_.fault_applications.fetch_add(1) == 0) slot_.fault_first_ns.store(round_begin_ns);
      }
      pause(round);
      compute(stream_, options_.compute_ms + options_.jitter_ms * draw(options_.seed, uint64_t(options_.rank), round));
      if (plan.delay_ms > 0) {
        // The delay is the host's: nothing of the round may already wait in the stream.
        CCLD_CHECK(cudaStreamSynchronize(stream_));
        sleep_ms(plan.delay_ms);
      }
      slot_.entered_round.store(round);
      for (const Call& call : plan.calls) issue(call);
      CCLD_CHECK(cudaStreamSynchronize(stream_));
      if (plan.calls.empty()) sleep_ms(1);  // a skipped round must not become a busy loop
      if (options_.check && !plan.calls.empty()) verify(plan.calls.back(), round);
      slot_.completed_round.store(round);
      const uint64_t round_ns = monotonic_ns() - round_begin_ns;
      if (round_ns > slot_.longest_round_ns.load()) slot_.longest_round_ns.store(round_ns);
      if (round == options_.warm_up) begin_ns_ = monotonic_ns();
    }
  }

  // Whether this round is to be run. Rank 0 decides how many there are, the others wait for its word.
  bool released(uint64_t round) {
    auto& word = board_.header().released_rounds;
    const uint64_t planned = traffic_.rounds_per_pass();
    if (options_.seconds <= 0) return round <= planned;
    if (options_.rank == 0 && (time_is_over() == false || word.load() == 0)) word.store(round + release_ahead_rounds);
    while (round > word.load()) {
      if (options_.rank == 0 || no_more_is_released(word)) return false;
      std::this_thread::sleep_for(board_poll_interval);
    }
    return true;
  }

  // Rank 0 releases rounds ahead of its own, so it has completed all that it released only when it wants no more. The
  // order matters: its progress is read before its word, which may have moved on in between.
  bool no_more_is_released(const std::atomic<uint64_t>& word) {
    BoardSlot& first = board_.slot(0);
    if (first.state.load() >= uint64_t(RankState::finished)) return true;
    const uint64_t completed = first.completed_round.load();
    return completed != 0 && completed == word.load();
  }

  bool time_is_over() const { return double(monotonic_ns() - begin_ns_) * 1e-9 >= options_.seconds; }

  void pause(uint64_t round) const {
    if (options_.pause_every == 0 || round % options_.pause_every != 0) return;
    if (options_.pause_rank < 0 || options_.pause_rank == options_.rank) sleep_ms(options_.pause_ms);
  }

  void issue(const Call& call) {
    if (options_.check) {
      const uint64_t bytes = output_count(call, options_.rank, options_.rank_count) * bytes_of(call.datatype);
      if (bytes > 0) CCLD_CHECK(cudaMemsetAsync(recv_, 0xff, bytes, stream_));
    }
    switch (call.operation) {
      case Operation::all_reduce:
        CCLD_CHECK(ncclAllReduce(send_, recv_, call.count, call.datatype, call.reduction, comm_, stream_));
        break;
      case Operation::all_gather:
        CCLD_CHECK(ncclAllGather(send_, recv_, call.count, call.datatype, comm_, stream_));
        break;
      case Operation::reduce_scatter:
        CCLD_CHECK(ncclReduceScatter(send_, recv_, call.count, call.datatype, call.reduction, comm_, stream_));
        break;
      case Operation::broadcast:
        CCLD_CHECK(ncclBroadcast(send_, recv_, call.count, call.datatype, call.root, comm_, stream_));
        break;
      case Operation::reduce:
        CCLD_CHECK(ncclReduce(send_, recv_, call.count, call.datatype, call.reduction, call.root, comm_, stream_));
        break;
    }
  }

  void verify(const Call& call, uint64_t round) {
    const uint64_t bytes = output_count(call, options_.rank, options_.rank_count) * bytes_of(call.datatype);
    host_.resize(std::max<size_t>(host_.size(), bytes));
    if (bytes > 0) CCLD_CHECK(cudaMemcpy(host_.data(), recv_, bytes, cudaMemcpyDeviceToHost));
    slot_.checked_results.fetch_add(1);
    const std::string wrong = check_output(call, options_.rank, options_.rank_count, host_.data());
    if (wrong.empty()) return;
    if (slot_.wrong_results.fetch_add(1) == 0) {
      fprintf(stderr, "ccld-workload: rank %d round %llu: %s\n", options_.rank, static_cast<unsigned long long>(round),
              wrong.c_str());
    }
  }

  void tear_down() {
    CCLD_CHECK(ncclCommDestroy(comm_));
    CCLD_CHECK(cudaFree(send_));
    CCLD_CHECK(cudaFree(recv_));
    CCLD_CHECK(cudaStreamDestroy(stream_));
  }

  void summarize() const {
    const uint64_t rounds = slot_.completed_round.load();
    const uint64_t counted = rounds > options_.warm_up ? rounds - options_.warm_up : rounds;
    const double seconds = double(monotonic_ns() - begin_ns_) * 1e-9;
    printf("rounds %llu, mean %.3f ms, longest %.3f ms, checked %llu, wrong %llu\n",
           static_cast<unsigned long long>(rounds), seconds * 1e3 / double(std::max<uint64_t>(1, counted)),
           double(slot_.longest_round_ns.load()) * 1e-6, static_cast<unsigned long long>(slot_.checked_results.load()),
           static_cast<unsigned long long>(slot_.wrong_results.load()));
  }

  const Options options_;
  const Traffic traffic_;
  FaultFile faults_;
  StatusBoard board_;
  BoardSlot& slot_;
  uint64_t begin_ns_ = 0;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* send_ = nullptr;
  void* recv_ = nullptr;
  std::vector<unsigned char> host_;
};

}  // namespace

uint64_t run_rank(const Options& options) { return RankLoop(options).run(); }

}  // namespace ccld::workload
