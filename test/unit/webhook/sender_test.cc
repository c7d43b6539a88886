#include "decision/webhook/sender.h"

#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace ccld::decision::webhook {
namespace {

Delivery delivery(uint64_t incident, uint64_t revision) {
  Delivery d;
  d.id = std::to_string(incident) + "-" + std::to_string(revision);
  d.incident = incident;
  d.revision = revision;
  d.body = "{}";
  d.made_ms = absl::ToUnixMillis(absl::Now());
  return d;
}

// What a receiver heard, and what it shall answer.
struct Heard {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> ids;
  std::vector<int> answers;  // in turn; then 200
  bool hangs = false, interrupted = false;

  void wait_for(size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ids.size() >= count; });
  }
};

class TestReceiver : public Receiver {
 public:
  explicit TestReceiver(Heard& heard) : heard_(heard) {}
  Answer post(const std::vector<std::string>& headers, const std::string&) override {
    std::unique_lock lock(heard_.mutex);
    for (const std::string& h : headers)
      if (h.rfind("X-Ccld-Delivery: ", 0) == 0) heard_.ids.push_back(h.substr(17));
    heard_.changed.notify_all();
    if (heard_.hangs) heard_.changed.wait(lock, [&] { return heard_.interrupted; });
    if (heard_.interrupted) return {.error = "interrupted"};
    if (heard_.answers.empty()) return {.status = 200};
    const int status = heard_.answers.front();
    heard_.answers.erase(heard_.answers.begin());
    return {.status = status};
  }
  void interrupt() override {
    const std::lock_guard lock(heard_.mutex);
    heard_.interrupted = true;
    heard_.changed.notify_all();
  }

 private:
  Heard& heard_;
};

SenderOptions quick() {
  SenderOptions options;
  options.limits.delay_first_ns = options.limits.delay_max_ns = ns_per_ms;
  return options;
}

}  // namespace

TEST_CASE("What a receiver did not take is sent again until it does, then the next one; what it refuses is not") {
  Heard heard;
  heard.answers = {503, 404, 200, 422};
  SenderOptions options = quick();
  std::vector<std::string> over;
  absl::Notification all;
  options.over = [&](const Delivery& d) {
    over.push_back(d.id);
    if (over.size() == 3) all.Notify();
  };
  Sender sender(std::make_unique<TestReceiver>(heard), options);
  for (uint64_t revision = 1; revision <= 3; ++revision) sender.put(delivery(1, revision));
  all.WaitForNotification();
  REQUIRE(sender.stop(absl::InfiniteDuration()));
  CHECK(heard.ids == std::vector<std::string>{"1-1", "1-1", "1-1", "1-2", "1-3"});
  CHECK(over == std::vector<std::string>{"1-1", "1-2", "1-3"});
  CHECK(sender.counters().failed_attempts == 3);
  CHECK(sender.counters().refused == 1);
}

TEST_CASE("A receiver that hangs does not keep the service from ending, and what it may have is not counted as failed") {
  Heard heard;
  heard.hangs = true;
  Sender sender(std::make_unique<TestReceiver>(heard), quick());
  sender.put(delivery(1, 1));
  heard.wait_for(1);
  CHECK(sender.stop(absl::Seconds(60)));
  CHECK(sender.counters().failed_attempts == 0);
  CHECK(sender.counters().queue_length == 1);
}

}  // namespace ccld::decision::webhook
