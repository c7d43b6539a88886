// Sends what is put to the receiver, in a thread of its own: who puts never waits for the network.
//
//   Sender sender(std::move(receiver), options);
//   sender.put(revision_delivery(verdict, run));         // returns at once
//   sender.stop(absl::Milliseconds(500));
//
// Contract: queue.h. An answer of 2xx is a delivery; 400, 413 and 422 say that this message will never be taken; everything else is
// tried again, also other answers: a receiver that is being set up answers 404 for a while.
// What waits at stop() is not sent: the history has it for the next run.
// Threads: put() and counters() from any; stop() from one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "decision/webhook/queue.h"
#include "decision/webhook/receiver.h"

namespace ccld::decision::webhook {

struct SenderOptions {
  std::string secret;  // empty: not signed
  std::string name;    // of the receiver, for the log
  QueueLimits limits;
  DeliveryQueue::Held held;  // none: nothing is
  // The receiver has this delivery, or never will, or need not. From the sender's thread, without a lock.
  std::function<void(const Delivery&)> over;
};

class Sender {
 public:
  Sender(std::unique_ptr<Receiver>, SenderOptions);
  ~Sender();
  Sender(const Sender&) = delete;

  void put(Delivery);
  void count_dropped(uint64_t);  // that could not even be put
  report::WebhookCounters counters() const;
  // False: the thread did not end in time; then the process has to end without the destructor. Idempotent.
  bool stop(absl::Duration timeout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ccld::decision::webhook
