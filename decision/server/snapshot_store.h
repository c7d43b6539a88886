// The newest snapshot, handed from the analysis thread to the query API. Both sides hold the lock only to copy a pointer.
// Thread-safe.
#pragma once

#include <memory>

#include "absl/synchronization/mutex.h"
#include "decision/report/status_json.h"

namespace ccld::decision::server {

class SnapshotStore {
 public:
  void publish(std::shared_ptr<const report::Snapshot> snapshot) {
    absl::MutexLock lock(&mutex_);
    newest_.swap(snapshot);
  }  // the older one is freed outside the lock
  std::shared_ptr<const report::Snapshot> newest() const {
    absl::MutexLock lock(&mutex_);
    return newest_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<const report::Snapshot> newest_ ABSL_GUARDED_BY(mutex_) = std::make_shared<report::Snapshot>();
};

}  // namespace ccld::decision::server
