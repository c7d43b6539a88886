// The webhook of a node of a cluster: it sends while this node leads, beginning with what the node that led before did
// not deliver. A message may come twice, with the same `delivery`. Threads: begin() and end() the analysis thread, the
// rest any.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/time/time.h"
#include "decision/server/http_api.h"
#include "decision/server/reporter.h"
#include "decision/server/webhook.h"

namespace ccld::decision::server {

class WebhookTurns {
 public:
  // `http` outlives it.
  WebhookTurns(WebhookOptions, std::string run, std::shared_ptr<Reporter>, HttpApi& http);

  void begin();                        // nothing, if no webhook is asked for; does not wait
  void end();                          // does not wait
  bool stop(absl::Duration timeout);   // as Webhook::stop()
  report::WebhookCounters counters() const;

 private:
  WebhookOptions options_;
  const std::string run_;
  const std::shared_ptr<Reporter> reporter_;
  HttpApi& http_;
  mutable std::mutex mutex_;
  std::shared_ptr<Webhook> now_;
};

}  // namespace ccld::decision::server
