#include "decision/webhook/sender.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "decision/webhook/signature.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::webhook {
namespace {

Nanoseconds now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::function<double()> chance() {
  return [engine = std::minstd_rand(std::random_device()())]() mutable { return std::uniform_real_distribution<double>()(engine); };
}

Outcome outcome_of(const Answer& answer) {
  if (answer.status >= 200 && answer.status < 300) return Outcome::delivered;
  for (const int never : {400, 413, 422})
    if (answer.status == never) return Outcome::refused;
  return Outcome::failed;
}

}  // namespace

struct Sender::State {
  State(std::unique_ptr<Receiver> r, SenderOptions o) : receiver(std::move(r)), options(std::move(o)), queue(options.limits, chance(), options.held) {}

  const std::unique_ptr<Receiver> receiver;
  const SenderOptions options;
  bool failing = false;  // the thread's

  mutable std::mutex mutex;
  std::condition_variable wake;
  DeliveryQueue queue;
  bool stop = false;
  absl::Notification ended;
  std::thread thread;

  void run();
  Answer post(const Delivery&) const;
  void say(Outcome, const Answer&, const Delivery&);
};

Answer Sender::State::post(const Delivery& d) const {
  std::vector<std::string> headers = {absl::StrCat("X-Ccld-Event: ", name(d.event)), absl::StrCat("X-Ccld-Delivery: ", d.id)};
  if (!options.secret.empty()) {
    headers.push_back(absl::StrCat("X-Ccld-Signature: ", signature(options.secret, absl::ToUnixSeconds(absl::Now()), d.body)));
  }
  return receiver->post(headers, d.body);
}

// Once when it begins to fail and once when it works again; what is refused, each time.
void Sender::State::say(Outcome outcome, const Answer& answer, const Delivery& d) {
  const std::string why = answer.status != 0 ? absl::StrCat("HTTP status ", answer.status) : answer.error;
  if (outcome == Outcome::refused) spdlog::error("webhook: {} refuses delivery {}: {}", options.name, d.id, why);
  if (outcome == Outcome::failed && !std::exchange(failing, true)) spdlog::warn("webhook: {}: {}; deliveries wait and are tried again", options.name, why);
  if (outcome == Outcome::delivered && std::exchange(failing, false)) spdlog::info("webhook: {} takes deliveries again", options.name);
}

void Sender::State::run() {
  std::unique_lock lock(mutex);
  while (!stop) {
    const auto next = queue.take(now_ns(), absl::ToUnixMillis(absl::Now()));
    if (const auto silenced = queue.take_silenced(); !silenced.empty() && options.over) {
      lock.unlock();
      for (const Delivery& d : silenced) options.over(d);
      lock.lock();
    }
    if (!next.has_value()) {
      if (stop) break;
      const auto due = queue.due_ns();
      if (due.has_value()) wake.wait_for(lock, std::chrono::nanoseconds(std::max<Nanoseconds>(0, *due - now_ns())));
      else wake.wait(lock);
      continue;
    }
    lock.unlock();
    const Answer answer = post(*next);
    const Outcome outcome = outcome_of(answer);
    if (outcome != Outcome::failed && options.over) options.over(*next);
    lock.lock();
    if (stop && outcome == Outcome::failed) break;  // interrupted: it did not fail
    say(outcome, answer, *next);
    const Nanoseconds at_ns = now_ns();
    queue.done(outcome, at_ns, answer.retry_after_s > 0 ? at_ns + answer.retry_after_s * ns_per_s : 0);
  }
  lock.unlock();
  ended.Notify();
}

Sender::Sender(std::unique_ptr<Receiver> receiver, SenderOptions options)
    : state_(std::make_unique<State>(std::move(receiver), std::move(options))) {
  state_->thread = std::thread([s = state_.get()] { s->run(); });
}

Sender::~Sender() { stop(absl::InfiniteDuration()); }

void Sender::put(Delivery delivery) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->queue.put(std::move(delivery));
  }
  state_->wake.notify_one();
}

void Sender::count_dropped(uint64_t n) {
  const std::lock_guard lock(state_->mutex);
  state_->queue.count_dropped(n);
}

report::WebhookCounters Sender::counters() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.counters();
}

bool Sender::stop(absl::Duration timeout) {
  State& s = *state_;
  if (!s.thread.joinable()) return true;
  {
    const std::lock_guard lock(s.mutex);
    s.stop = true;
  }
  s.receiver->interrupt();
  s.wake.notify_one();
  if (!s.ended.WaitForNotificationWithTimeout(timeout)) return false;
  s.thread.join();
  return true;
}

}  // namespace ccld::decision::webhook
