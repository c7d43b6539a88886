#include "test/support/workload/layout_loop.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "test/support/workload/device_time.h"
#include "test/support/workload/fault_file.h"
#include "test/support/workload/iteration.h"
#include "test/support/workload/micro_batch_file.h"
#include "test/support/workload/nccl_calls.h"
#include "test/support/workload/phases.h"
#include "test/support/workload/rounds.h"
#include "test/support/workload/status_board.h"
#include "test/support/workload/values.h"

namespace ccld::workload {
namespace {

constexpr Group split_groups[] = {Group::tensor, Group::pipeline, Group::data, Group::expert};

class LayoutLoop {
 public:
  explicit LayoutLoop(const Options& options)
      : options_(options),
        layout_(*options.layout),
        faults_(options.fault_file, options.rank),
        micro_batches_(options.micro_batch_file, layout_.dp),
        board_(options.status_file, options.rank_count),
        slot_(board_.slot(options.rank)),
        rounds_(options_, board_, options.iterations) {
    if (options.irregular) phases_.emplace(options.seed, options.rank_count, phase_limits(options));
  }

  uint64_t run() {
    slot_.pid.store(static_cast<uint64_t>(getpid()));
    slot_.state.store(uint64_t(RankState::starting));
    try {
      set_up();
      slot_.state.store(uint64_t(RankState::ready));
      rounds_.restart_time();
      for (uint64_t round = 1; rounds_.released(round); ++round) iterate(round);
      tear_down();
    } catch (...) {
      slot_.state.store(uint64_t(RankState::failed));
      throw;
    }
    slot_.state.store(uint64_t(RankState::finished));
    return slot_.wrong_results.load();
  }

 private:
  void set_up() {
    int devices = 0;
    CCLD_CHECK(cudaGetDeviceCount(&devices));
    if (devices == 0) throw std::runtime_error("cudaGetDeviceCount: no device");
    CCLD_CHECK(cudaSetDevice(options_.rank % devices));
    const ncclUniqueId id = exchange_id(options_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "world";
    ncclComm_t world = nullptr;
    CCLD_CHECK(ncclCommInitRankConfig(&world, options_.rank_count, id, options_.rank, &config));
    comms_[Group::world] = world;
    for (const Group group : split_groups) make(group);
    CCLD_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CCLD_CHECK(cudaStreamCreateWithFlags(&beside_, cudaStreamNonBlocking));
    CCLD_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    const uint64_t bytes = buffer_bytes_max(options_.shape);
    for (void** buffer : {&send_, &recv_, &beside_send_, &beside_recv_}) {
      CCLD_CHECK(cudaMalloc(buffer, bytes));
      CCLD_CHECK(cudaMemset(*buffer, 0, bytes));
    }
    if (!options_.check) return;
    const auto input = input_of(options_.rank, ncclFloat32, ncclSum, bytes / sizeof(float));
    CCLD_CHECK(cudaMemcpy(send_, input.data(), input.size(), cudaMemcpyHostToDevice));
  }

  // Every rank takes part in every split, also for groups of one, whose communicator nobody uses.
  void make(Group group) {
    if (group == Group::expert && layout_.ep < 2) return;
    const int color = layout_.color(group, options_.rank);
    const std::string text = name(group) + std::to_string(color);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = text.c_str();
    CCLD_CHECK(ncclCommSplit(comms_[Group::world], color, options_.rank, &comms_[group], &config));
  }

  void iterate(uint64_t round) {
    faults_.refresh();
    slot_.fault_text_version.store(faults_.version());
    const uint64_t begin_ns = monotonic_ns();
    IterationShape shape = options_.shape;
    micro_batches_.refresh();
    shape.micro_batches = micro_batches_.count(round, layout_.data_index_of(options_.rank), shape.micro_batches);
    double extra_ms = options_.jitter_ms * draw(options_.seed, uint64_t(options_.rank), round);
    if (phases_) extra_ms += behave(phases_->of(round, options_.rank), &shape);
    std::vector<Step> steps = iteration_steps(layout_, options_.rank, shape);
    for (const auto& [one, other] : faults_.swaps(round)) {
      if (swap_first(&steps, one, other)) note_fault(begin_ns);
    }
    slot_.entered_round.store(round);
    compute(stream_, extra_ms);
    std::map<Group, int> index;
    for (const Step& step : steps) execute(step, step.kind == StepKind::compute ? 0 : index[step.group]++, round);
    CCLD_CHECK(cudaStreamSynchronize(stream_));
    CCLD_CHECK(cudaStreamSynchronize(beside_));
    slot_.completed_round.store(round);
    const uint64_t round_ns = monotonic_ns() - begin_ns;
    if (round_ns > slot_.longest_round_ns.load()) slot_.longest_round_ns.store(round_ns);
  }

  // Does what comes before the iteration; returns what the device computes in addition.
  double behave(const Behaviour& behaviour, IterationShape* shape) {
    switch (behaviour.kind) {
      case PhaseKind::evaluation: shape->forward_only = true; break;
      case PhaseKind::burst: shape->compute_ms = 0; break;
      case PhaseKind::sizes:
        // Sequences of changing length: activations change, gradients do not.
        shape->tensor_bytes = shape->pipeline_bytes =
            std::max<uint64_t>(4096, shape->tensor_bytes * behaviour.bytes / options_.bytes_max);
        break;
      default: break;
    }
    sleep_ms(behaviour.host_pause_ms);
    if (behaviour.kind == PhaseKind::checkpoint) barrier();
    if (behaviour.recreate) {
      CCLD_CHECK(ncclCommDestroy(comms_[Group::data]));
      make(Group::data);
    }
    return behaviour.compute_ms;
  }

  void barrier() {
    Call call;
    call.count = 1;
    issue(call, send_, recv_, comms_[Group::world], stream_);
    CCLD_CHECK(cudaStreamSynchronize(stream_));
  }

  void execute(const Step& step, int index, uint64_t round) {
    if (step.kind == StepKind::compute) return compute(stream_, step.ms);
    const uint64_t now_ns = monotonic_ns();
    const int size = static_cast<int>(layout_.members(step.group, options_.rank).size());
    const RoundPlan plan = faults_.plan_call(round, step.group, index, size, step.call);
    if (plan.changed) note_fault(now_ns);
    if (plan.delay_ms > 0) {
      // The delay is the host's: nothing may already wait in the streams.
      CCLD_CHECK(cudaStreamSynchronize(stream_));
      CCLD_CHECK(cudaStreamSynchronize(beside_));
      sleep_ms(plan.delay_ms);
    }
    for (const Call& call : plan.calls) {
      call_nccl(step, call);
      if (options_.check) verify(step, call, round);
    }
  }

  // What comes from another stage, and what the whole job reduces. All send what they were given at the start.
  void verify(const Step& step, Call call, uint64_t round) {
    if (step.kind == StepKind::recv) {
      call.operation = Operation::broadcast;  // of the one that sent it
      call.root = layout_.members(step.group, options_.rank).at(static_cast<size_t>(step.peer));
    } else if (step.kind != StepKind::collective || step.group != Group::world) {
      return;
    }
    CCLD_CHECK(cudaStreamSynchronize(stream_));
    host_.resize(output_count(call, options_.rank, options_.rank_count) * bytes_of(call.datatype));
    CCLD_CHECK(cudaMemcpy(host_.data(), recv_, host_.size(), cudaMemcpyDeviceToHost));
    slot_.checked_results.fetch_add(1);
    const std::string wrong = check_output(call, options_.rank, options_.rank_count, host_.data());
    if (wrong.empty() || slot_.wrong_results.fetch_add(1) > 0) return;
    fprintf(stderr, "ccld-workload: rank %d round %llu: %s: %s\n", options_.rank,
            static_cast<unsigned long long>(round), name(step.group), wrong.c_str());
  }

  void call_nccl(const Step& step, const Call& call) {
    const ncclComm_t comm = comms_[step.group];
    switch (step.kind) {
      case StepKind::compute: break;
      case StepKind::collective:
        if (!step.beside) {
          issue(call, send_, recv_, comm, stream_);
          break;
        }
        // Gradients exist when the backward pass before them is done.
        CCLD_CHECK(cudaEventRecord(event_, stream_));
        CCLD_CHECK(cudaStreamWaitEvent(beside_, event_, 0));
        issue(call, beside_send_, beside_recv_, comm, beside_);
        break;
      case StepKind::all_to_all:
        CCLD_CHECK(ncclAlltoAll(send_, recv_, call.count, call.datatype, comm, stream_));
        break;
      case StepKind::send: CCLD_CHECK(ncclSend(send_, call.count, call.datatype, step.peer, comm, stream_)); break;
      case StepKind::recv: CCLD_CHECK(ncclRecv(recv_, call.count, call.datatype, step.peer, comm, stream_)); break;
    }
  }

  void note_fault(uint64_t now_ns) {
    if (slot_.fault_applications.fetch_add(1) == 0) slot_.fault_first_ns.store(now_ns);
  }

  void tear_down() {
    for (const Group group : split_groups) {
      if (comms_[group] != nullptr) CCLD_CHECK(ncclCommDestroy(comms_[group]));
    }
    CCLD_CHECK(ncclCommDestroy(comms_[Group::world]));
    for (void* buffer : {send_, recv_, beside_send_, beside_recv_}) CCLD_CHECK(cudaFree(buffer));
    CCLD_CHECK(cudaEventDestroy(event_));
    CCLD_CHECK(cudaStreamDestroy(stream_));
    CCLD_CHECK(cudaStreamDestroy(beside_));
  }

  const Options options_;
  const Layout layout_;
  FaultFile faults_;
  MicroBatchFile micro_batches_;
  StatusBoard board_;
  BoardSlot& slot_;
  Rounds rounds_;
  std::optional<Phases> phases_;
  std::map<Group, ncclComm_t> comms_;
  cudaStream_t stream_ = nullptr, beside_ = nullptr;
  cudaEvent_t event_ = nullptr;
  void *send_ = nullptr, *recv_ = nullptr, *beside_send_ = nullptr, *beside_recv_ = nullptr;
  std::vector<unsigned char> host_;
};

}  // namespace

uint64_t run_layout_rank(const Options& options) { return LayoutLoop(options).run(); }

}  // namespace ccld::workload
