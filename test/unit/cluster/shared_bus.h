// A bus in this process that several nodes share, for tests. Time is given; a node can be cut off from it.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "decision/cluster/bus.h"

namespace ccld::decision::cluster {

struct Shared {
  std::vector<std::string> log;
  std::optional<Bus::Lease> lease;
  Nanoseconds lease_ns = 0;  // when it was renewed
  uint64_t revisions = 0;
  Nanoseconds now_ns = ns_per_s;
  Nanoseconds lease_lasts_ns = 3 * ns_per_s;
  std::vector<std::pair<std::string, std::pair<const void*, Bus::Handler>>> listeners;
  bool loses_answers = false;  // of what is written, which is done all the same
  Nanoseconds renewal_takes_ns = 0;  // until the answer comes
  int64_t log_made_ns = 1;
  size_t entry_bytes_max = SIZE_MAX;
  std::string refusal;  // of entries of the log; empty: none
  Nanoseconds refusal_takes_ns = 0;
};

class SharedBus final : public Bus {
 public:
  explicit SharedBus(Shared& shared) : shared_(shared) {}
  bool cut = false;

  bool connected() const override { return !cut; }
  void mend() override {}
  absl::Status send(const std::string& subject, absl::Span<const uint8_t> bytes) override {
    if (cut) return gone();
    for (const auto& [wanted, listener] : shared_.listeners) {
      const bool fits =
          wanted == subject || (wanted.ends_with(".*") && subject.starts_with(wanted.substr(0, wanted.size() - 1)));
      if (fits && listener.first != this) listener.second(subject, bytes);
    }
    return absl::OkStatus();
  }
  absl::Status listen(const std::string& subject, Handler handler) override {
    shared_.listeners.push_back({subject, {this, std::move(handler)}});
    return absl::OkStatus();
  }

  void close() override {
    std::erase_if(shared_.listeners, [this](const auto& l) { return l.second.first == this; });
  }

  absl::StatusOr<std::optional<Lease>> lease() override {
    if (cut) return gone();
    if (shared_.lease.has_value() && shared_.now_ns - shared_.lease_ns >= shared_.lease_lasts_ns) shared_.lease.reset();
    return shared_.lease;
  }
  absl::StatusOr<uint64_t> take_lease(const std::string& holder) override {
    const auto now = lease();
    if (!now.ok()) return now.status();
    if (now->has_value()) return absl::AbortedError("taken");
    return answer(set(holder));
  }
  absl::StatusOr<uint64_t> renew_lease(const std::string& holder, uint64_t of) override {
    const auto now = lease();
    if (!now.ok()) return now.status();
    if (!now->has_value() || (*now)->revision != of) return absl::AbortedError("another one");
    const uint64_t revision = set(holder);
    shared_.now_ns += std::exchange(shared_.renewal_takes_ns, 0);
    return answer(revision);
  }
  absl::Status give_lease_back(uint64_t of) override {
    if (cut) return gone();
    if (shared_.lease.has_value() && shared_.lease->revision == of) shared_.lease.reset();
    return absl::OkStatus();
  }

  absl::StatusOr<Range> log() override {
    if (cut) return gone();
    return Range{1, shared_.log.size(), shared_.log_made_ns};
  }
  absl::StatusOr<std::string> read(uint64_t number) override {
    if (cut) return gone();
    if (number == 0 || number > shared_.log.size()) return absl::NotFoundError("no such entry");
    return shared_.log[number - 1];
  }
  absl::StatusOr<uint64_t> append(const std::string& entry, uint64_t after) override {
    if (cut) return gone();
    if (entry.size() > shared_.entry_bytes_max) return absl::OutOfRangeError("too long");
    if (!shared_.refusal.empty()) {
      shared_.now_ns += shared_.refusal_takes_ns;
      return absl::FailedPreconditionError(shared_.refusal);
    }
    if (after != shared_.log.size()) return absl::AbortedError("somebody was first");
    shared_.log.push_back(entry);
    return answer(shared_.log.size());
  }

 private:
  static absl::Status gone() { return absl::UnavailableError("cut off"); }
  absl::StatusOr<uint64_t> answer(uint64_t number) {
    if (std::exchange(shared_.loses_answers, false)) return absl::UnavailableError("no answer");
    return number;
  }
  uint64_t set(const std::string& holder) {
    shared_.lease = Lease{holder, ++shared_.revisions};
    shared_.lease_ns = shared_.now_ns;
    return shared_.revisions;
  }
  Shared& shared_;
};

}  // namespace ccld::decision::cluster
