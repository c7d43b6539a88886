#include "decision/server/webhook_turns.h"

#include <thread>
#include <utility>

#include "decision/server/clock.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {

WebhookTurns::WebhookTurns(WebhookOptions options, std::string run, std::shared_ptr<Reporter> reporter, HttpApi& http)
    : options_(std::move(options)), run_(std::move(run)), reporter_(std::move(reporter)), http_(http) {
  options_.of_cluster = true;
}

void WebhookTurns::begin() {
  if (options_.url.empty()) return;
  end();
  const int64_t now_ms = realtime_now_ns() / ns_per_ms;
  auto opened = Webhook::open(options_, nullptr, run_, now_ms);
  if (!opened.ok()) {
    spdlog::error("webhook: nothing is sent: {}", std::string(opened.status().message()));
    return;
  }
  (*opened)->connect(reporter_, http_);
  const std::lock_guard lock(mutex_);
  now_ = *std::move(opened);
}

void WebhookTurns::end() {
  std::shared_ptr<Webhook> ended;
  {
    const std::lock_guard lock(mutex_);
    ended = std::exchange(now_, nullptr);
  }
  if (ended == nullptr) return;
  reporter_->tell({});
  http_.tell_acknowledgements([](const report::Json&, bool, int64_t) {});
  // A receiver that hangs is waited for elsewhere.
  if (!ended->stop(absl::ZeroDuration())) std::thread([ended] { ended->stop(absl::InfiniteDuration()); }).detach();
}

bool WebhookTurns::stop(absl::Duration timeout) {
  const std::lock_guard lock(mutex_);
  return now_ == nullptr || now_->stop(timeout);
}

report::WebhookCounters WebhookTurns::counters() const {
  const std::lock_guard lock(mutex_);
  return now_ != nullptr ? now_->counters() : report::WebhookCounters();
}

}  // namespace ccld::decision::server
