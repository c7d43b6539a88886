// Operations that nobody sees: symmetric kernels and copy engines write nothing, and are reported when they are handed
// over. A rank whose newest call was one may still wait inside, so it is not known to wait for nobody.
//
// Contract: state of one look; O(ranks + their memberships) for each communicator that is asked about. Of those who are
// behind no more than behind_max are told: whoever waits for all of them leads to each, and is certain of none.
#pragma once

#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

// Of any communicator, whether it stands still or not; nullptr: there is none.
using FindCommunicator = std::function<const Communicator*(CommUid)>;

class UnseenWaits {
 public:
  // It must outlive this.
  explicit UnseenWaits(const FindCommunicator& find) : find_(find) {}

  struct Wait {
    bool possible = false;
    std::vector<Rank> behind;  // ranks that have not made the call, so that it waits for them; of many, some
  };
  // What a rank may wait for whose newest call is unseen. Others have not made it, or all have, and none of their GPUs
  // is seen to wait anywhere: then the operation itself may stand. Where some have called more, this rank keeps them
  // waiting.
  const Wait& of(const Communicator&, const RankModel&);

 private:
  static constexpr size_t behind_max = 64;
  Wait find(const Communicator&) const;
  bool waits_somewhere(const ProcessModel&, int device) const;

  const FindCommunicator& find_;
  absl::flat_hash_map<CommUid, Wait> known_;  // of the ranks that have called most
};

}  // namespace ccld::decision
