#include "decision/server/operator_book.h"

#include <utility>

namespace ccld::decision::server {

void OperatorBook::set_acknowledgements(report::Acknowledgements all) {
  const std::lock_guard lock(mutex_);
  acknowledgements_ = std::move(all);
}

void OperatorBook::acknowledge(uint64_t incident, report::Acknowledgement a) {
  const std::lock_guard lock(mutex_);
  acknowledgements_[incident] = std::move(a);
  while (acknowledgements_.size() > acknowledgements_max) acknowledgements_.erase(acknowledgements_.begin());
}

void OperatorBook::withdraw_acknowledgement(uint64_t incident) {
  const std::lock_guard lock(mutex_);
  acknowledgements_.erase(incident);
}

report::Acknowledgements OperatorBook::acknowledgements() const {
  const std::lock_guard lock(mutex_);
  return acknowledgements_;
}

void OperatorBook::set_silences(report::Silences all, uint64_t last_id) {
  const std::lock_guard lock(mutex_);
  silences_ = std::move(all);
  last_silence_id_ = last_id;
}

uint64_t OperatorBook::last_silence_id() const {
  const std::lock_guard lock(mutex_);
  return last_silence_id_;
}

uint64_t OperatorBook::next_silence_id() {
  const std::lock_guard lock(mutex_);
  return ++last_silence_id_;
}

void OperatorBook::add_silence(report::Silence silence) {
  const std::lock_guard lock(mutex_);
  std::erase_if(silences_, [&](const report::Silence& s) { return s.until_ms <= silence.from_ms; });
  silences_.push_back(std::move(silence));
}

void OperatorBook::end_silence(uint64_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(silences_, [id](const report::Silence& s) { return s.id == id; });
}

report::Silences OperatorBook::silences(int64_t now_ms) const {
  const std::lock_guard lock(mutex_);
  report::Silences result = silences_;
  std::erase_if(result, [now_ms](const report::Silence& s) { return s.until_ms <= now_ms; });
  return result;
}

}  // namespace ccld::decision::server
