#include "decision/server/analysis.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace ccld::decision::server {
namespace {

// Of the analysis, which may not have been given yet what came together with the batch in question.
class AnalysisOwners final : public ingest::Owners {
 public:
  // `catch_up`: gives the analysis what it has not been given; false: there was nothing.
  AnalysisOwners(const Analyzer& analyzer, absl::FunctionRef<bool()> catch_up)
      : analyzer_(analyzer), catch_up_(catch_up) {}
  std::optional<Owner> of(CommUid comm) override { return ask(comm); }
  std::optional<Owner> of(const ProcessId& id) override { return ask(id); }
  std::optional<Owner> of(const ProcessId& reporter, const Sibling& s) override { return ask(reporter, s); }

 private:
  template <class... What>
  std::optional<Owner> ask(const What&... what) {
    const std::optional<Owner> owner = analyzer_.owner_of(what...);
    return owner.has_value() || !catch_up_() ? owner : analyzer_.owner_of(what...);
  }
  const Analyzer& analyzer_;
  const absl::FunctionRef<bool()> catch_up_;
};

}  // namespace

Analysis::Analysis(const Settings& settings, std::optional<VerdictWriter> writer, Numbering numbering, size_t threads)
    : workers_(threads), analyzer_(settings, std::move(numbering), &workers_), writer_(std::move(writer)) {}

void Analysis::on_messages(absl::Span<const Message> messages, Nanoseconds now_ns, Nanoseconds realtime_ns,
                           absl::FunctionRef<void(size_t, const Batch*)> decoded) {
  std::vector<std::optional<ingest::Decoded>> contents(messages.size());
  size_t done = 0;
  do {
    decode(messages, contents, done);
    std::vector<std::optional<Batch>> batches;
    batches.reserve(messages.size() - done);
    std::vector<const Batch*> accepted;
    const auto catch_up = [&] {
      if (accepted.empty()) return false;
      analyzer_.apply(accepted, now_ns);
      accepted.clear();
      return true;
    };
    AnalysisOwners owners(analyzer_, catch_up);
    for (; done < messages.size() && contents[done].has_value(); ++done) {
      const Message& m = messages[done];
      const std::optional<Batch>& batch = batches.emplace_back(ingest_.accept(
          *std::exchange(contents[done], std::nullopt), m.bytes.size(), now_ns, realtime_ns, m.speaker, &owners));
      if (batch.has_value()) accepted.push_back(&*batch);
      decoded(done, batch.has_value() ? &*batch : nullptr);
    }
    catch_up();
    spent_ = std::move(batches);
  } while (done < messages.size());
}

// Those from `first` on, in any order, the first for certain: as many as there is room for.
void Analysis::decode(absl::Span<const Message> messages, std::vector<std::optional<ingest::Decoded>>& contents,
                      size_t first) {
  constexpr size_t to_share_min = 16;  // each takes some 3 us
  const size_t count = messages.size() - first;
  std::atomic<size_t> decoded_bytes{0};
  workers_.run(std::max(count, spent_.size()), to_share_min, [&](size_t i) {
    if (i < spent_.size()) spent_[i].reset();
    if (i >= count || contents[first + i].has_value() || (i > 0 && decoded_bytes >= decoded_bytes_max)) return;
    ingest::Decoded& d = contents[first + i].emplace(ingest::decode_message(messages[first + i].bytes));
    decoded_bytes += d.notes.memory_bytes;
  });
}

std::optional<Batch> Analysis::on_message(absl::Span<const uint8_t> message, Nanoseconds now_ns, Nanoseconds realtime_ns,
                                          const ingest::Speaker* speaker) {
  const auto is_up_to_date = [] { return false; };
  AnalysisOwners owners(analyzer_, is_up_to_date);
  auto batch = ingest_.accept(message, now_ns, realtime_ns, speaker, &owners);
  if (batch.has_value()) analyzer_.apply(*batch, now_ns);
  return batch;
}

void Analysis::on_multipart_message(Nanoseconds now_ns) {
  ingest_.reject(ingest::rejection(ingest::RejectReason::multipart, "multipart", "message has several parts, a batch has one"), now_ns);
}

std::vector<Incident> Analysis::tick(Nanoseconds now_ns, Nanoseconds realtime_ns) {
  std::vector<Incident> incidents = analyzer_.advance(now_ns);
  if (writer_.has_value()) {
    const report::WallClock clock{realtime_ns - now_ns};
    for (const Incident& incident : incidents) writer_->write_line(report::to_line(report::verdict_json(incident, now_ns, clock)));
  }
  return incidents;
}

}  // namespace ccld::decision::server
