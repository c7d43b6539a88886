#include "decision/server/replay.h"

#include <variant>

#include "absl/container/flat_hash_set.h"
#include "decision/ingest/batch_decoder.h"

namespace ccld::decision::server {
namespace {

using recording::Entry;
using recording::EntryKind;
using recording::Reader;

// A silent job has nothing more to say after so long, and a damaged clock must not keep us busy for years.
constexpr Nanoseconds ticked_silence_ns_max = 3600 * ns_per_s;

// Who took part.
class Census {
 public:
  void see(const Batch& batch) {
    processes_.insert(batch.process.host + ' ' + batch.process.boot_id + ' ' + std::to_string(batch.process.pid) + ' ' +
                      std::to_string(batch.process.pid_start_ticks) + ' ' + std::to_string(batch.process.pid_namespace));
    for (const Payload& payload : batch.payloads) {
      const auto* up = std::get_if<CommUp>(&payload);
      if (up == nullptr) continue;
      communicators_.insert(up->comm);
      ranks_.insert({up->comm, up->rank});
    }
  }
  void write(ReplaySummary& s) const {
    s.processes = processes_.size();
    s.communicators = communicators_.size();
    s.ranks = ranks_.size();
  }

 private:
  absl::flat_hash_set<std::string> processes_;
  absl::flat_hash_set<CommUid> communicators_;
  absl::flat_hash_set<std::pair<CommUid, Rank>> ranks_;
};

void count(const Entry& e, ReplaySummary& s) {
  if (s.messages + s.ticks + s.multipart + s.gaps == 0) {
    s.first_ns = e.clock_ns;
    s.first_realtime_ns = e.realtime_ns;
  }
  s.last_ns = e.clock_ns;
  switch (e.kind) {
    case EntryKind::message:
      ++s.messages;
      s.message_bytes += e.message.size();
      break;
    case EntryKind::tick: ++s.ticks; break;
    case EntryKind::multipart: ++s.multipart; break;
    case EntryKind::gap:
      ++s.gaps;
      s.missing += e.missing;
      break;
  }
}

class Driver {
 public:
  Driver(Analysis& analysis, bool own_ticks, const ReplayReport& report) : analysis_(analysis), own_ticks_(own_ticks), report_(report) {}

  void carry_out(const Entry& e) {
    if (e.kind != EntryKind::message || e.clock_ns != clock_ns_ || together_.size() >= together_max) take_in();
    if (own_ticks_) tick_until(e);
    switch (e.kind) {
      case EntryKind::message:
        together_.emplace_back(e.message.begin(), e.message.end());
        clock_ns_ = e.clock_ns, realtime_ns_ = e.realtime_ns;
        break;
      case EntryKind::tick: tick(e.clock_ns, e.realtime_ns); break;
      case EntryKind::multipart: analysis_.on_multipart_message(e.clock_ns); break;
      case EntryKind::gap: break;  // the analyzer hears it as lost batches
    }
  }
  // Messages that came together wait for each other.
  void take_in() {
    std::vector<Analysis::Message> messages;
    for (const auto& bytes : together_) messages.push_back({bytes});
    analysis_.on_messages(messages, clock_ns_, realtime_ns_, [&](size_t, const Batch* batch) {
      if (batch != nullptr) census_.see(*batch);
    });
    together_.clear();
  }
  const Census& census() const { return census_; }

 private:
  void tick(Nanoseconds now_ns, int64_t realtime_ns) {
    for (const Incident& incident : analysis_.tick(now_ns, realtime_ns)) {
      if (report_) report_(incident, now_ns, realtime_ns);
    }
  }
  // Ticks of our own, up to the instant of `e`.
  void tick_until(const Entry& e) {
    const int64_t offset_ns = e.realtime_ns - e.clock_ns;
    if (!next_tick_ns_.has_value()) next_tick_ns_ = e.clock_ns;
    const Nanoseconds silence_ends_ns = *next_tick_ns_ + ticked_silence_ns_max;
    for (; *next_tick_ns_ <= e.clock_ns && *next_tick_ns_ <= silence_ends_ns; *next_tick_ns_ += tick_period_ns) {
      tick(*next_tick_ns_, *next_tick_ns_ + offset_ns);
    }
    if (*next_tick_ns_ <= e.clock_ns) next_tick_ns_ = e.clock_ns + tick_period_ns;
  }

  Analysis& analysis_;
  bool own_ticks_;
  const ReplayReport& report_;
  Census census_;
  std::vector<std::vector<uint8_t>> together_;  // at clock_ns_
  Nanoseconds clock_ns_ = 0;
  int64_t realtime_ns_ = 0;
  std::optional<Nanoseconds> next_tick_ns_;
};

}  // namespace

absl::Status replay(Reader& reader, const ReplayOptions& options, Analysis& analysis, ReplaySummary& summary, const ReplayReport& report) {
  Driver driver(analysis, reader.metadata().source == "sink", report);
  Entry e;
  absl::Status status;
  for (;;) {
    const auto found = reader.next(e);
    status = found.status();
    if (!found.ok() || !*found) break;
    ReplaySummary counted = summary;
    count(e, counted);
    if (options.until_ns.has_value() && e.clock_ns - counted.first_ns > *options.until_ns) break;
    summary = counted;
    driver.carry_out(e);
  }
  driver.take_in();
  driver.census().write(summary);
  return status;
}

absl::Status survey(Reader& reader, ReplaySummary& summary) {
  Census census;
  Entry e;
  for (;;) {
    const auto found = reader.next(e);
    if (!found.ok() || !*found) {
      census.write(summary);
      return found.status();
    }
    count(e, summary);
    if (e.kind != EntryKind::message) continue;
    if (const auto batch = ingest::decode_batch(e.message); batch.ok()) census.see(*batch);
  }
}

}  // namespace ccld::decision::server
