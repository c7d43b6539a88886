// Why processes leave a job: some are the reason why it hangs, all others leave because it does. They get an error from
// who is gone, run into a timeout, or are ended by whoever started them. (Beyond the paper, which looks at a job as
// long as all of it is there.)
//
// Contract: plain state, not thread-safe. One small entry for each communicator that lost a member or hangs; forget()
// takes it back.
#pragma once

#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "decision/model/types.h"

namespace ccld::decision {

struct ProcessModel;

class Departures {
 public:
  // The process is gone since `state_since_ns`; again if it turns out to be a member of further communicators.
  void lost(const ProcessModel&);
  // The communicators that lost a member earlier than was known, since the last call: the loss is one of the whole job.
  absl::flat_hash_set<CommUid> new_losses() { return std::exchange(new_losses_, {}); }
  // nullopt: none is known.
  std::optional<Nanoseconds> first_loss_ns(CommUid) const;
  // The job has lost a process by then. False: an earlier loss is known.
  bool job_lost(CommUid, Nanoseconds lost_ns);
  // A member that fell silent, and that nobody sees, had left by then; nullopt: none has. True: it was not known.
  bool silent(CommUid, std::optional<Nanoseconds> left_by_ns);
  // The communicator is part of a hang that was said then; nullopt: it is no more.
  void hangs(CommUid, std::optional<Nanoseconds> since_ns);
  // The same of one that was there before anybody listened: it would have been said then. True: it was not known.
  bool hung_before(CommUid, std::optional<Nanoseconds> due_ns);
  void forget(CommUid comm) { broken_.erase(comm); }

  bool is_broken(CommUid comm) const { return broken_.contains(comm); }

  enum class Why {
    itself,        // nothing is known to have come before
    after_loss,    // another process of the job was lost just before
    after_a_hang,  // the job hung, and that was said, or would have been
  };
  // When a process left: seen by others, or between its last word and its next one.
  struct Left {
    Nanoseconds from_ns, by_ns;
  };
  // Losses that are less than `apart_ns` apart have no order. Who was seen to be gone goes before who may have left
  // later.
  Why why(const ProcessModel&, Left, Nanoseconds apart_ns) const;

 private:
  struct Broken {
    std::optional<Nanoseconds> lost_ns, silent_ns, hangs_ns, hung_before_ns;
    bool any() const { return lost_ns || silent_ns || hangs_ns || hung_before_ns; }
  };
  bool set(CommUid, std::optional<Nanoseconds> Broken::*, std::optional<Nanoseconds>);
  absl::flat_hash_map<CommUid, Broken> broken_;
  absl::flat_hash_set<CommUid> new_losses_;
};

}  // namespace ccld::decision
