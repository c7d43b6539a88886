#include "probe/process/init_records.h"

#include <algorithm>
#include <atomic>

#include "probe/agent/diagnostic_thread.h"
#include "probe/monotonic.h"
#include "probe/probe.h"

namespace ccld::probe {
namespace {

std::atomic<uint64_t> initializations{0};

uint32_t age_ms(uint64_t now_ns, uint64_t then_ns) {
  if (now_ns <= then_ns) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>((now_ns - then_ns) / ns_per_ms, UINT32_MAX));
}

}  // namespace

void init_record_enter(ProcessFile& file, uint64_t number, const Initialization& initialization, uint64_t now_ns) {
  abi::InitRecord& record = file.inits[number % abi::inits_max];
  store_relaxed(record.commit, 0);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  store_relaxed(record.comm_hash, initialization.comm_hash);
  store_relaxed(record.enter_monotonic_ns, now_ns);
  store_relaxed(record.stage_monotonic_ns, now_ns);
  store_relaxed(record.rank, initialization.rank);
  store_relaxed(record.rank_count, initialization.rank_count);
  store_relaxed(record.result, 0);
  store_relaxed(record.comm_number, 0);
  store_relaxed(record.cuda_device, initialization.cuda_device);
  store_relaxed(record.stage, static_cast<uint32_t>(abi::InitStage::entered));
  store_release(record.commit, number);
}

void init_record_reach(ProcessFile& file, uint64_t number, abi::InitStage stage, int result, uint32_t comm_number,
                       uint64_t now_ns) {
  abi::InitRecord& record = file.inits[number % abi::inits_max];
  if (load_acquire(record.commit) != number) return;  // 64 newer ones have begun meanwhile
  if (comm_number != 0) store_relaxed(record.comm_number, comm_number);
  store_relaxed(record.stage_monotonic_ns, now_ns);
  store_relaxed(record.result, result);
  store_release(record.stage, static_cast<uint32_t>(stage));
}

void InitTeller::collect(Instant now, std::vector<Message>* out) {
  for (unsigned slot = 0; slot < abi::inits_max; ++slot) {
    const abi::InitRecord& record = file_.inits[slot];
    const uint64_t number = load_acquire(record.commit);
    if (number == 0) continue;
    CommInitMessage message;
    message.number = number;
    message.stage = static_cast<abi::InitStage>(load_acquire(record.stage));
    if (message.stage == abi::InitStage::none || message.stage == abi::InitStage::ready) continue;
    message.comm_hash = load_relaxed(record.comm_hash);
    message.rank = load_relaxed(record.rank);
    message.rank_count = load_relaxed(record.rank_count);
    message.result = load_relaxed(record.result);
    message.cuda_device = load_relaxed(record.cuda_device);
    message.stage_age_ms = age_ms(now.monotonic_ns, load_relaxed(record.stage_monotonic_ns));
    message.enter_age_ms = age_ms(now.monotonic_ns, load_relaxed(record.enter_monotonic_ns));
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (load_relaxed(record.commit) != number) continue;  // its place was taken meanwhile
    if (message.stage == abi::InitStage::failed) {
      if (told_failure_[slot] == number) continue;
      told_failure_[slot] = number;
    }
    out->push_back(message);
  }
}

ProcessSource* init_source() {
  ProcessFile* file = process_file();
  if (file == nullptr) return nullptr;
  static auto* const teller = new InitTeller(*file);
  return teller;
}

// ---- probe/probe.h ------------------------------------------------------------------------------------------------

uint64_t init_entered(uint64_t comm_hash, int rank, int rank_count, int cuda_device) {
  if (!enabled()) return 0;
  ProcessFile* file = process_file();
  if (file == nullptr) return 0;
  const uint64_t number = initializations.fetch_add(1, std::memory_order_relaxed) + 1;
  init_record_enter(*file, number, {comm_hash, rank, rank_count, cuda_device}, monotonic_ns());
  (void)running_agent();  // an initialization that never ends has to be told, too
  return number;
}

void init_reached(uint64_t initialization, abi::InitStage stage, int result, uint32_t comm_number) {
  if (initialization == 0) return;
  ProcessFile* file = process_file();
  if (file != nullptr) init_record_reach(*file, initialization, stage, result, comm_number, monotonic_ns());
}

void comm_unwatched() { metric_add(process_file(), abi::MetricId::agent_comms_unwatched, 1); }

}  // namespace ccld::probe
