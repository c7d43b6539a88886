#include "decision/server/read_turns.h"

#include <algorithm>

#include "decision/server/clock.h"

namespace ccld::decision::server {

bool ReadTurns::hangs(Nanoseconds now_ns) const {
  return std::any_of(since_ns_.begin(), since_ns_.end(), [&](const auto& since) {
    return since.has_value() && now_ns - *since >= absl::ToInt64Nanoseconds(patience_);
  });
}

std::optional<size_t> ReadTurns::free_place() const {
  const auto at = std::find(since_ns_.begin(), since_ns_.end(), std::nullopt);
  if (at == since_ns_.end()) return std::nullopt;
  return static_cast<size_t>(at - since_ns_.begin());
}

std::optional<ReadTurns::Turn> ReadTurns::take() {
  std::unique_lock lock(mutex_);
  if (hangs(monotonic_now_ns())) return std::nullopt;
  if (!ended_.wait_for(lock, absl::ToChronoNanoseconds(patience_), [&] { return free_place().has_value(); }))
    return std::nullopt;
  const size_t place = *free_place();
  since_ns_[place] = monotonic_now_ns();
  return Turn(this, place);
}

void ReadTurns::end(size_t place) {
  {
    const std::lock_guard lock(mutex_);
    since_ns_[place].reset();
  }
  ended_.notify_one();
}

}  // namespace ccld::decision::server
