#include "decision/model/baseline.h"

#include <algorithm>
#include <cmath>

namespace ccld::decision {

void Spread::add(double x) {
  if (samples_ >= 5 && deviation_ > 0) x = std::clamp(x, mean_ - 5 * deviation_, mean_ + 5 * deviation_);
  samples_ = std::min(samples_ + 1, memory);
  const double weight = 1.0 / samples_;
  const double off = x - mean_;
  mean_ += weight * off;
  // The first sample has no deviation; afterwards compare with the mean before it moved halfway.
  if (samples_ > 1) deviation_ += (samples_ == 2 ? 1.0 : weight) * (std::abs(off) - deviation_);
}

RoundKind kind_of(const Signature& s) {
  return {s.count,
          s.root,
          static_cast<uint8_t>(s.function),
          static_cast<uint8_t>(s.datatype),
          static_cast<uint8_t>(s.reduction),
          static_cast<uint8_t>(s.algorithm),
          static_cast<uint8_t>(s.protocol),
          s.channels};
}

const char* name(Stage s) {
  switch (s) {
    case Stage::sender_proxy: return "waiting in the sender's proxy";
    case Stage::sender_nic: return "handed to the network and not yet sent";
    case Stage::wire: return "on the wire";
    case Stage::receiver_proxy: return "waiting in the receiver's proxy";
    case Stage::receiver_gpu: return "waiting for the receiver's GPU";
    case Stage::gpu_to_gpu: return "between the two GPUs";
  }
  return "?";
}

KindBaseline* Baselines::of(const RoundKind& kind) {
  auto it = kinds_.find(kind);
  if (it == kinds_.end()) {
    if (kinds_.size() >= settings_.signatures_max) return nullptr;
    it = kinds_.emplace(kind, std::make_unique<KindBaseline>()).first;
    it->second->t_base_ns = settings_.baseline_init_ms * 1e6;
  }
  return it->second.get();
}

void Baselines::count(KindBaseline& b, double t_max_ns, Nanoseconds now_ns) {
  if (b.fixed) return;
  if (b.counted == 0) b.started_ns = now_ns;
  const bool time_is_over = now_ns - b.started_ns > seconds_to_ns(settings_.baseline_s);
  if (!(time_is_over && b.counted > 0)) {
    b.sum_max_ns += t_max_ns;
    ++b.counted;
  }
  if (b.counted >= settings_.baseline_rounds_max || time_is_over) {
    b.t_base_ns = b.sum_max_ns / static_cast<double>(b.counted);
    b.fixed = true;
  }
}

}  // namespace ccld::decision
