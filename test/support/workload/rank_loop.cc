#include "test/support/workload/rank_loop.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "test/support/workload/device_time.h"
#include "test/support/workload/fault_file.h"
#include "test/support/workload/layout_loop.h"
#include "test/support/workload/nccl_calls.h"
#include "test/support/workload/rounds.h"
#include "test/support/workload/status_board.h"
#include "test/support/workload/traffic.h"
#include "test/support/workload/values.h"

namespace ccld::workload {
namespace {

class RankLoop {
 public:
  explicit RankLoop(const Options& options)
      : options_(options),
        traffic_(options),
        faults_(options.fault_file, options.rank),
        board_(options.status_file, options.rank_count),
        slot_(board_.slot(options.rank)),
        rounds_(options_, board_, traffic_.rounds_per_pass()) {}

  uint64_t run() {
    slot_.pid.store(static_cast<uint64_t>(getpid()));
    slot_.state.store(uint64_t(RankState::starting));
    try {
      set_up();
      slot_.state.store(uint64_t(RankState::ready));
      run_rounds();
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

  void run_rounds() {
    rounds_.restart_time();
    for (uint64_t round = 1; rounds_.released(round); ++round) {
      faults_.refresh();
      slot_.fault_text_version.store(faults_.version());
      const uint64_t round_begin_ns = monotonic_ns();
      const RoundPlan plan = faults_.plan(round, traffic_);
      if (plan.changed) {
        if (slot_.fault_applications.fetch_add(1) == 0) slot_.fault_first_ns.store(round_begin_ns);
      }
      pause(round);
      prepare(round);
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
      if (round == options_.warm_up) rounds_.restart_time();
    }
  }

  // What a rank does before the call, on its host and its device.
  void prepare(uint64_t round) {
    double compute_ms = options_.compute_ms + options_.jitter_ms * draw(options_.seed, uint64_t(options_.rank), round);
    if (const std::optional<Behaviour> behaviour = traffic_.behaviour(round)) {
      compute_ms += behaviour->compute_ms;
      sleep_ms(behaviour->host_pause_ms);
      if (behaviour->recreate) recreate();
    }
    compute(stream_, compute_ms);
  }

  // As elastic training does: a new communicator out of the old one, which goes.
  void recreate() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t next = nullptr;
    CCLD_CHECK(ncclCommSplit(comm_, 0, options_.rank, &next, &config));
    CCLD_CHECK(ncclCommDestroy(comm_));
    comm_ = next;
  }

  void pause(uint64_t round) const {
    if (options_.pause_every == 0 || round % options_.pause_every != 0) return;
    if (options_.pause_rank < 0 || options_.pause_rank == options_.rank) sleep_ms(options_.pause_ms);
  }

  void issue(const Call& call) {
    if (options_.check) {
      const uint64_t bytes = output_count(call, options_.rank, options_.rank_count) * bytes_of(call.datatype);
      if (bytes > 0) CCLD_CHECK(cudaMemsetAsync(recv_, 0xff, bytes, stream_));
    }
    workload::issue(call, send_, recv_, comm_, stream_);
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
    const double seconds = rounds_.seconds();
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
  Rounds rounds_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* send_ = nullptr;
  void* recv_ = nullptr;
  std::vector<unsigned char> host_;
};

}  // namespace

uint64_t run_rank(const Options& options) {
  if (options.layout) return run_layout_rank(options);
  return RankLoop(options).run();
}

}  // namespace ccld::workload
