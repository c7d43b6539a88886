// The webhook of the service: it hears of revisions and acknowledgements, sends them (webhook/sender.h), and writes
// down in the history what its receiver has.
//
//   auto webhook = Webhook::open(options, history, run, now_ms);   // nullptr: none is asked for
//   webhook->connect(reporter, http);                              // begins to send, with what an earlier run did not
//   deliver webhook->stop(timeout);
//
// Without a history, what waits at the end of the service is lost.
// Errors: InvalidArgument names the option; Unavailable: the secret cannot be read. Threads: one, before the service
// runs; counters() any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/history/deliveries.h"
#include "decision/history/history.h"
#include "decision/server/http_api.h"
#include "decision/server/reporter.h"
#include "decision/webhook/sender.h"

namespace ccld::decision::server {

struct WebhookOptions {
  std::string url;          // empty: none
  std::string secret_file;  // empty: not signed
  std::string ca_file;      // empty: the system's
  std::string min_state = "suspected";
  bool of_cluster = false;  // another node sent until now
};

class Webhook {
 public:
  // `history`: nullptr if none is kept. `run`: this run of the service.
  static absl::StatusOr<std::unique_ptr<Webhook>> open(const WebhookOptions&, history::History* history, const std::string& run, int64_t now_ms);

  // In a cluster: also what the node that sent until now has not delivered, once the reporting thread has found it. It
  // does not wait for that.
  void connect(const std::shared_ptr<Reporter>&, HttpApi&);
  report::WebhookCounters counters() const { return sender_->counters(); }
  // False: as Sender::stop().
  bool stop(absl::Duration timeout) { return sender_ == nullptr || sender_->stop(timeout); }

 private:
  Webhook() = default;
  class Takeover;
  static void take_over(Reporter&, const std::shared_ptr<Takeover>&, const webhook::QueueLimits&);

  std::unique_ptr<webhook::Receiver> receiver_;
  webhook::SenderOptions sender_options_;
  webhook::MinState min_state_ = webhook::MinState::suspected;
  std::string run_;
  bool of_cluster_ = false;
  history::Undelivered left_;
  std::shared_ptr<webhook::Sender> sender_;  // shared with who puts, who may outlive us
};

}  // namespace ccld::decision::server
