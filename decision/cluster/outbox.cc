#include "decision/cluster/outbox.h"

#include <utility>

#include "absl/time/time.h"

namespace ccld::decision::cluster {

Outbox::~Outbox() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Outbox::start() {
  thread_ = std::thread([this] { run(); });
}

bool Outbox::put(std::string subject, std::vector<uint8_t> message, Priority priority) {
  bool taken = bus_.connected();
  if (taken) {
    const std::lock_guard lock(mutex_);
    taken = has_room(waiting_bytes_, message.size(), bytes_max, priority);
    if (taken) {
      waiting_bytes_ += message.size();
      waiting_.push_back({std::move(subject), std::move(message)});
    }
  }
  if (taken)
    wake_.notify_one();
  else
    ++not_sent_;
  return taken;
}

bool Outbox::flush(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  return empty_.wait_for(lock, absl::ToChronoNanoseconds(timeout), [this] { return waiting_.empty() && !sending_; });
}

void Outbox::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const std::vector<Message> taken = std::exchange(waiting_, {});
    sending_ = true;
    for (const Message& m : taken) {
      if (stop_) return;
      lock.unlock();
      ++(bus_.send(m.subject, m.bytes).ok() ? sent_ : not_sent_);
      lock.lock();
      waiting_bytes_ -= m.bytes.size();
    }
    sending_ = false;
    if (waiting_.empty()) empty_.notify_all();
  }
}

}  // namespace ccld::decision::cluster
