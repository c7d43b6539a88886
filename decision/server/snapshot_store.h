// The newest snapshot, handed from the analysis thread to the query API. Both sides hold the lock only to copy a pointer.
// Thread-safe; std::mutex, because ThreadSanitizer sees through it and not through a library built without it.
#pragma once

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

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const report::Snapshot> newest_ = std::make_shared<report::Snapshot>();
};

}  // namespace ccld::decision::server
