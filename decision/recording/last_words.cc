#include "decision/recording/last_words.h"

#include <algorithm>
#include <variant>

namespace ccld::decision::recording {
namespace {

bool describes_communicators(const Batch& batch) {
  return std::any_of(batch.payloads.begin(), batch.payloads.end(), [](const Payload& payload) {
    return std::holds_alternative<CommUp>(payload) || std::holds_alternative<CommDown>(payload);
  });
}

}  // namespace

void LastWordsBook::drop(const std::shared_ptr<const KeptMessage>& message) {
  if (message != nullptr) bytes_ -= message->bytes.size();
}

void LastWordsBook::heard(const Batch& batch, absl::Span<const uint8_t> message, Nanoseconds now_ns, int64_t realtime_ns) {
  const bool topology = describes_communicators(batch);
  const auto known = processes_.find(batch.process);
  if (known != processes_.end()) {
    Words& words = known->second;
    if (!topology) {
      drop(words.newest);
      words.newest.reset();
    } else if (words.topology.size() == topology_kept_max) {
      drop(words.topology.front());
      words.topology.pop_front();
    }
  }
  if (bytes_ + message.size() > bytes_max_) {
    ++left_out_;
    return;
  }
  bytes_ += message.size();
  auto kept = std::make_shared<const KeptMessage>(
      KeptMessage{now_ns, realtime_ns, std::string(reinterpret_cast<const char*>(message.data()), message.size())});
  Words& words = processes_[batch.process];
  if (topology) words.topology.push_back(std::move(kept));
  else words.newest = std::move(kept);
}

void LastWordsBook::forget(Nanoseconds silent_since_ns) {
  std::erase_if(processes_, [&](const auto& process) {
    const Words& words = process.second;
    const auto silent = [&](const auto& message) { return message->clock_ns < silent_since_ns; };
    if (!(words.newest == nullptr || silent(words.newest))) return false;
    if (!std::all_of(words.topology.begin(), words.topology.end(), silent)) return false;
    drop(words.newest);
    for (const auto& message : words.topology) drop(message);
    return true;
  });
}

LastWords LastWordsBook::collect() const {
  LastWords all;
  for (const auto& [process, words] : processes_) {
    all.insert(all.end(), words.topology.begin(), words.topology.end());
    if (words.newest != nullptr) all.push_back(words.newest);
  }
  return all;
}

}  // namespace ccld::decision::recording
