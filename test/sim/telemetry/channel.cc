#include "test/sim/telemetry/channel.h"

#include <algorithm>
#include <utility>

namespace ccld::sim {
namespace {

constexpr int kept_max = 256;  // NCCL_PROBE_QUEUE_MAX
constexpr size_t senders_max = size_t{1} << 20;

}  // namespace

Channel::Channel(const Disturbance& d, uint64_t seed)
    : disturbance_(d), random_(seed, "channel"), sequences_(senders_max) {}

void Channel::send(decision::Batch batch, Instant now) {
  const auto arrival = [&] {
    Instant at = now + 100'000 + random_.range(0, disturbance_.delay_ns);
    if (random_.chance(disturbance_.spikes)) at += random_.range(0, disturbance_.spike_ns);
    return at;
  };
  if (const Instant back = back_at(now); back > now) {
    Kept& kept = kept_[batch.process];
    if (kept.until != back) kept = {back};
    if (kept.batches == kept_max) return;
    pending_.emplace(back + ns_per_ms * ++kept.batches, std::move(batch));
    return;
  }
  // What was kept goes first: a connection keeps its order.
  const auto kept = kept_.find(batch.process);
  const Instant kept_until = kept == kept_.end() ? 0 : kept->second.until + ns_per_ms * (kept->second.batches + 1);
  if (random_.chance(disturbance_.loss)) return;
  const Instant at = std::max(arrival(), kept_until);
  if (random_.chance(disturbance_.duplicates)) pending_.emplace(std::max(arrival(), kept_until), batch);
  pending_.emplace(at, std::move(batch));
}

void Channel::cut() {
  pending_.clear();
  sequences_ = decision::ingest::SequenceTracker(senders_max);
}

Instant Channel::back_at(Instant now) const {
  if (now < disturbance_.service_starts) return disturbance_.service_starts;
  return now >= disturbance_.restart_from && now < disturbance_.restart_to ? disturbance_.restart_to : now;
}

void Channel::deliver(Instant now, const std::function<void(const decision::Batch&, Instant)>& apply) {
  while (!pending_.empty() && pending_.begin()->first <= now) {
    const auto& [at, batch] = *pending_.begin();
    if (sequences_.record(batch.process, batch.batch_seq, batch.sent_monotonic_ns).arrival !=
        decision::ingest::SequenceTracker::Arrival::repeated)
      apply(batch, at);
    pending_.erase(pending_.begin());
  }
}

}  // namespace ccld::sim
