// The newest snapshot, handed from the analysis thread to the query API. Both sides hold the lock only to copy a pointer.
// Thread-safe; std::mutex, because ThreadSanitizer sees through it and not through a library built without it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "decision/report/status_json.h"

namespace ccld::decision::server {

class SnapshotStore {
 public:
  void publish(std::shared_ptr<const report::Snapshot> snapshot) {
    const std::lock_guard lock(mutex_);
    newest_.swap(snapshot);
  }  // the older one is freed outside the lock
  std::shared_ptr<const report::Snapshot> newest() const {
    const std::lock_guard lock(mutex_);
    return newest_;
  }
  // The analysis has looked at everything at this instant of its clock; snapshots are taken less often.
  void looked(Nanoseconds at_ns) { looked_ns_.store(at_ns, std::memory_order_relaxed); }
  Nanoseconds looked_ns() const { return looked_ns_.load(std::memory_order_relaxed); }

 private:
  std::atomic<Nanoseconds> looked_ns_ = 0;
  mutable std::mutex mutex_;
  std::shared_ptr<const report::Snapshot> newest_ = std::make_shared<report::Snapshot>();
};

}  // namespace ccld::decision::server
