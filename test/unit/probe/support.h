// Time and transport in the hands of the test.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "probe/agent/clock.h"
#include "probe/settings.h"
#include "probe/transport/transport.h"
#include "schemas/wire/control_generated.h"
#include "schemas/wire/telemetry_generated.h"

namespace ccld::test {

class FakeClock final : public probe::Clock {
 public:
  probe::Instant now() const override {
    at.monotonic_ns += step_ns;
    return at;
  }
  uint64_t thread_cpu_ns() const override { return 1234; }
  void advance_us(uint64_t us) {
    at.monotonic_ns += us * 1000;
    at.realtime_ns += static_cast<int64_t>(us) * 1000;
  }
  void advance_ms(uint64_t ms) { advance_us(ms * 1000); }

  uint64_t step_ns = 0;  // between two looks at it
  mutable probe::Instant at{1000 * probe::ns_per_s, 1700000000000000000};
};

// What was sent, verified like the service does it.
struct Sent {
  std::vector<std::vector<uint8_t>> batches;
  probe::SendResult answer = probe::SendResult::sent;
  int refused = 0;
  probe::Link link = probe::Link::up;
  uint64_t handshakes = 1;
  size_t endpoints = 1, endpoint = 0;
  uint64_t moves = 0;
  int unanswered = 0;
  uint64_t looked_ns = 0;  // at the connection
  int looks_back = 0;      // with an older time than before
  std::deque<std::vector<uint8_t>> requests;  // of the service
  void say(const flatbuffers::FlatBufferBuilder& b) { requests.emplace_back(b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()); }
  // The service acknowledges what asks for it, as `session`.
  bool answers = true;
  uint64_t session = 1, batches_in_session = 0;

  void connect(bool there) {
    if (there && link != probe::Link::up) ++handshakes;
    link = there ? probe::Link::up : probe::Link::refused;
  }
  // The next endpoint is used; its service knows nothing yet.
  void move(bool there) {
    ++moves;
    endpoint = (endpoint + 1) % endpoints;
    link = probe::Link::refused;
    if (there) connect(true);
    ++session;
    batches_in_session = 0;
    requests.clear();
  }
  void acknowledge(const wire::Batch& batch) {
    ++batches_in_session;
    if (!answers || !batch.acknowledge()) return;
    flatbuffers::FlatBufferBuilder builder;
    const auto what = wire::CreateAcknowledgement(builder, session, batch.batch_seq(), batches_in_session);
    wire::ControlRequestBuilder message(builder);
    message.add_acknowledgement(what);
    wire::FinishControlRequestBuffer(builder, message.Finish());
    say(builder);
  }

  const wire::Batch* batch(size_t i) const { return wire::GetBatch(batches[i].data()); }
  // All payloads of one kind, in order.
  template <class T>
  std::vector<const T*> all() const {
    std::vector<const T*> result;
    for (const auto& bytes : batches)
      for (const wire::Message* m : *wire::GetBatch(bytes.data())->messages())
        if (m->payload_type() == wire::PayloadTraits<T>::enum_value) result.push_back(m->payload_as<T>());
    return result;
  }
};

class RecordingTransport final : public probe::Transport {
 public:
  explicit RecordingTransport(Sent* sent) : sent_(sent) {}
  probe::SendResult send(const uint8_t* data, size_t size) override {
    flatbuffers::Verifier verifier(data, size);
    if (!wire::VerifyBatchBuffer(verifier)) throw std::runtime_error("batch does not verify");
    if (sent_->answer != probe::SendResult::sent) {
      ++sent_->refused;
      return sent_->answer;
    }
    sent_->batches.emplace_back(data, data + size);
    sent_->acknowledge(*wire::GetBatch(data));
    return probe::SendResult::sent;
  }
  Connection connection(uint64_t now_ns) override {
    sent_->looks_back += now_ns < sent_->looked_ns;
    sent_->looked_ns = now_ns;
    return {sent_->link, sent_->handshakes, sent_->moves, sent_->endpoints, sent_->endpoint, sent_->moves};
  }
  void unanswered() override { ++sent_->unanswered; }
  bool receive(std::vector<uint8_t>* out) override {
    if (sent_->requests.empty()) return false;
    *out = sent_->requests.front();
    sent_->requests.pop_front();
    return true;
  }

 private:
  Sent* sent_;
};

inline probe::Settings settings_with(std::vector<std::pair<std::string, std::string>> variables) {
  return probe::parse_settings(
      [&](const char* name) -> const char* {
        const char* last = nullptr;
        for (const auto& [key, value] : variables)
          if (key == name) last = value.c_str();
        return last;
      },
      nullptr);
}

}  // namespace ccld::test
