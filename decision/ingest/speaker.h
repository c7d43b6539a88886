// Whether a batch may say what it says under the key that it came with.
//
// Contract: a key that is bound to jobs or hosts speaks for these only: in the batch's own fields, and in communicators
// that it says are of a host. A key that was removed from the list while its connection lasts speaks for nothing.
// Pure. Threads: any.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "decision/admission/key_list.h"
#include "decision/ingest/batch_decoder.h"

namespace ccld::decision::ingest {

struct Speaker {
  std::string key;
  std::shared_ptr<const admission::KeyList> list;  // that is in force; never nullptr
  bool is_listed() const { return list->find(key) != nullptr; }
};

// Errors: as rejection(), by reason and key.
absl::Status check_speaker(const Speaker&, const Batch&);

constexpr bool is_about_speaker(RejectReason reason) {
  return reason == RejectReason::key || reason == RejectReason::job || reason == RejectReason::host;
}

}  // namespace ccld::decision::ingest
