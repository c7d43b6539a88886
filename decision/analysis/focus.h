// Which GPUs of a job are looked at, where it has more than can be judged at once: those around the communicator that
// loses most. (Beyond the paper, which looks at each communicator alone.)
//
// Cheap sums of all communicators say where to look; the model says what is wrong there. Every other choice follows
// waits: from the communicator in which ranks wait longest to the rank that they wait for, and on to where that one
// waits itself, until one waits nowhere. The others take the communicator whose transfers grew most beyond those of its
// like, as a whole: its connections are compared with each other. Around it ranks are taken in, always of the smallest
// communicator that is not whole: the groups around a rank (tensor, pipeline) are whole before the next rank of a large
// one follows. What a rank waits for outside of what is looked at could not be gained.
//
// Contract: plain state of one job, not thread-safe. Cost: linear in the ranks of a round, and for a choice in the
// ranks of the job.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "decision/analysis/watch.h"
#include "decision/timeline/timeline.h"

namespace ccld::decision {

class Focus {
 public:
  // A round of one of its communicators. Changes nothing but what is known of that one.
  static void add(Watch&, const RoundEntry&);
  // At most so many GPUs; empty: nothing was reported since the last choice.
  absl::flat_hash_set<timeline::GpuKey> choose(const Watches&, const std::string& job, size_t gpus_max);

 private:
  using Sums = std::map<CommUid, const WaitSums*>;  // of the job's communicators
  static const RankModel* who_is_waited_for(const Watches&, const Sums&);
  const Communicator* slowest_network(const Watches&, const Sums&);

  std::map<CommUid, uint64_t> chosen_;  // when its network was looked at
  uint64_t choices_ = 0;
};

}  // namespace ccld::decision
