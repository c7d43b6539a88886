#include "test/sim/telemetry/channel.h"

#include <algorithm>
#include <utility>

namespace ccld::sim {
namespace {

constexpr int kept_max = 256;  // NCCL_PROBE_QUEUE_MAX

}  // namespace

Channel::Channel(const Disturbance& d, uint64_t seed)
    : disturbance_(d), random_(seed, "channel"), sequences_(size_t{1} << 20) {}

void Channel::send(decision::Batch batch, Instant now) {
  const auto arrival = [&] {
    Instant at = now + 100'000 + random_.range(0, disturbance_.delay_ns);
    if (random_.chance(disturbance_.spikes)) at += random_.range(0, disturbance_.spike_ns);
    return at;
  };
  if (now < disturbance_.service_starts) {
    int& kept = kept_[batch.process];
    if (kept == kept_max) return;
    pending_.emplace(disturbance_.service_starts + ns_per_ms * ++kept, std::move(batch));
    return;
  }
  // What was kept goes first: a connection keeps its order.
  const auto kept = kept_.find(batch.process);
  const Instant kept_until = kept == kept_.end() ? 0 : disturbance_.service_starts + ns_per_ms * (kept->second + 1);
  if (random_.chance(disturbance_.loss)) return;
  const Instant at = std::max(arrival(), kept_until);
  if (random_.chance(disturbance_.duplicates)) pending_.emplace(std::max(arrival(), kept_until), batch);
  pending_.emplace(at, std::move(batch));
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
