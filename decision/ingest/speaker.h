// Whether a batch may say what it says under the key that it came with.
//
// Contract: a key that is bound to jobs or hosts speaks for these only: in the batch's own fields, in communicators
// that it says are of a host, and of communicators and processes that are known to be of another job or host. A
// communicator is of the job of the first process that told of it, as that process said.
// A key that was removed from the list while its connection lasts speaks for nothing.
// Pure. Threads: any.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "decision/admission/key_list.h"
#include "decision/ingest/batch_decoder.h"
#include "decision/model/owner.h"

namespace ccld::decision::ingest {

struct Speaker {
  std::string key;
  std::shared_ptr<const admission::KeyList> list;  // that is in force; never nullptr
  bool is_listed() const { return list->find(key) != nullptr; }
};

// Whose communicators and processes are, as far as all batches said that were accepted before; nothing: not known.
// What is returned is valid until the next question.
class Owners {
 public:
  virtual ~Owners() = default;
  virtual std::optional<Owner> of(CommUid) = 0;
  virtual std::optional<Owner> of(const ProcessId&) = 0;
  virtual std::optional<Owner> of(const ProcessId& reporter, const Sibling&) = 0;
};

// `owners`: nullptr: nothing is known of anybody.
// Errors: as rejection(), by reason and key.
absl::Status check_speaker(const Speaker&, const Batch&, Owners* owners);

// Of an accepted batch: leaves out what it says of processes for which its key may not speak. Of a process that nobody
// has heard of, what its frame says of other jobs' communicators is left out. That is no reason to refuse the batch: a
// probe tells of all processes of its user on its machine, whatever their jobs are.
void leave_out_siblings(const Speaker&, Batch&, Owners&);

constexpr bool is_about_speaker(RejectReason reason) {
  return reason == RejectReason::key || reason == RejectReason::job || reason == RejectReason::host;
}

}  // namespace ccld::decision::ingest
