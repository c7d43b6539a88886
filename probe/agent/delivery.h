// What became of the batches that the agent has numbered, as far as the service has said so.
//
// Contract
//   Numbers start at 1 and have no gaps. Every batch is one of: acknowledged (the service said that it came),
//   undelivered (refused by the transport, given up, or missing where the service has later ones), waiting (the
//   transport has no connection; counted by the caller), unconfirmed (all others: sent a moment ago, or to a service
//   that ended before it said what had come). A batch that is missing is undelivered one answer later: after a
//   reconnect the service may read later batches first. An answer that is none, or says what cannot be, changes
//   nothing.
//
// Pure. Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "probe/control/control.h"
#include "schemas/endpoints/endpoint_list.h"

namespace ccld::probe {

class DeliveryLedger {
 public:
  // Batches that the transport did not take, or that are given up.
  void refused(uint64_t batches) { refused_ += batches; }
  // The transport has taken that batch, which asks for an answer.
  void asked(uint64_t batch_seq);
  // False: nobody has asked for that, or it cannot be.
  bool answered(const Acknowledgement&);
  // Who answered last is not who answered before: it has started again, or is another one, and batches up to this one
  // may not have come to it. 0: all have, or it is the same.
  uint64_t newcomer_lacks() const { return newcomer_lacks_; }

  uint64_t acknowledged() const { return acknowledged_; }
  uint64_t undelivered() const { return refused_ + lost_; }
  uint64_t unconfirmed(uint64_t newest_batch_seq, uint64_t waiting) const {
    return rest(newest_batch_seq, acknowledged_ + undelivered() + waiting);
  }
  // Of the batches up to the one that was answered last.
  uint64_t unconfirmed_when_answered() const {
    return rest(answered_.batch_seq, acknowledged_ + answered_.refused + lost_);
  }

 private:
  // A question that is repeated may be answered twice.
  static constexpr size_t questions_max = 4;
  // A service that is left and comes to be used again counts on: each of several endpoints, and some restarts.
  static constexpr size_t sessions_max = 2 * endpoints_max;
  struct Question {
    uint64_t batch_seq = 0;  // 0: none
    uint64_t refused = 0;    // of the batches before it
  };
  struct Session {
    uint64_t id = 0, batches = 0;
  };
  static uint64_t rest(uint64_t all, uint64_t known) { return all - std::min(all, known); }

  uint64_t refused_ = 0, lost_ = 0, acknowledged_ = 0;
  Question questions_[questions_max];
  size_t next_question_ = 0;
  Session sessions_[sessions_max];  // newest first
  Question answered_;               // newest
  uint64_t newcomer_lacks_ = 0;
  int64_t missing_ = 0;             // of the batches up to there, as seen by the sessions in which they were sent
};

}  // namespace ccld::probe
