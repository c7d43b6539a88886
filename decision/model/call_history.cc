#include "decision/model/call_history.h"

#include <algorithm>
#include <utility>

namespace ccld::decision {
namespace {

uint8_t mean_micros(Nanoseconds sum_ns, uint32_t n) {
  return CallHistory::Bucket::Micros::encode(static_cast<uint64_t>(sum_ns / n / ns_per_us));
}
Nanoseconds decoded_ns(uint8_t micros) {
  return static_cast<Nanoseconds>(CallHistory::Bucket::Micros::decode(micros)) * ns_per_us;
}

}  // namespace

std::optional<CallTimes> CallHistory::Bucket::times() const {
  if (longest == Micros::none) return std::nullopt;
  return CallTimes{decoded_ns(longest), decoded_ns(shortest)};
}

void CallHistory::close(int64_t next) {
  const int64_t closed = std::exchange(open_, next);
  if (calls_ == 0) return;
  Bucket bucket;
  bucket.calls = Bucket::Calls::encode(calls_);
  if (measured_ > 0) {
    bucket.longest = mean_micros(longest_ns_, measured_);
    bucket.shortest = mean_micros(shortest_ns_, measured_);
  }
  calls_ = 0, measured_ = 0, longest_ns_ = 0, shortest_ns_ = 0;

  const auto before = over_ ? over_->buckets.size() : 0;
  const int64_t oldest = closed - static_cast<int64_t>(buckets_max) + 1;
  auto list = std::make_shared<Buckets>();
  list->first = before == 0 ? closed : std::clamp(over_->first, oldest, closed);
  const auto size = static_cast<size_t>(closed - list->first) + 1;
  list->buckets.reserve(size);  // many communicators are small: no room to spare
  list->buckets.resize(size);
  for (size_t i = 0; i < before; ++i) {
    const int64_t at = over_->first + static_cast<int64_t>(i) - list->first;
    if (at >= 0 && at < static_cast<int64_t>(size)) list->buckets[static_cast<size_t>(at)] = over_->buckets[i];
  }
  list->buckets.back() = bucket;
  over_ = std::move(list);
}

}  // namespace ccld::decision
