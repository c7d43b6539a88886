// What the analysis thread does: telemetry into the analyzer, its incidents to the reporter, everything that arrives
// to the recorder, a snapshot for the query API. It is given the time and the bytes; the caller owns the socket and the waiting.
// (Paper, section 4: the decision analyzer.)
// Threads: one, and those that it lets help with what came together.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "decision/recording/recorder.h"
#include "decision/server/analysis.h"
#include "decision/server/memory_guard.h"
#include "decision/server/reporter.h"
#include "decision/server/snapshot_store.h"
#include "decision/server/tune.h"

namespace ccld::decision::server {

class AnalysisLoop {
 public:
  // `recorder`: none if nothing is recorded.
  AnalysisLoop(const Settings&, std::shared_ptr<Reporter>, std::shared_ptr<SnapshotStore>, std::unique_ptr<recording::Recorder> recorder,
               Numbering, Nanoseconds now_ns, Nanoseconds realtime_ns, size_t threads = 1);
  // What earlier runs left open; what is not found again within this time gets its last revision.
  void take_up(std::vector<LeftOpen>, Nanoseconds within_ns);
  // Of a cluster one node tells what it finds; the others analyse the same telemetry and tell nobody. `left`: what the node
  // that led until now left open; what of it is not found within this time gets its last revision.
  void lead(Numbering, std::vector<LeftOpen> left, Nanoseconds now_ns, Nanoseconds within_ns);
  void follow();

  // What the snapshots say of who may come in.
  void tell_access(std::function<report::AccessStatus()> access) { access_ = std::move(access); }
  // What the snapshots say of the telemetry connections.
  void tell_connections(std::function<ingest::ConnectionCounters()> connections) { connections_ = std::move(connections); }
  // What the snapshots say of the query API.
  void tell_http(std::function<report::HttpCounters()> http) { http_ = std::move(http); }
  // What the snapshots say of the cluster.
  void tell_cluster(std::function<report::ClusterStatus()> cluster) { cluster_ = std::move(cluster); }
  // What the snapshots say of the webhook.
  void count_webhook(std::function<report::WebhookCounters()> counters) { webhook_counters_ = std::move(counters); }

  // `connection`: how `send` reaches the sender, for an answer. `speaker`: nullptr: keys are not used.
  struct Message {
    absl::Span<const uint8_t> bytes;
    const std::string* connection;
    const ingest::Speaker* speaker = nullptr;
    bool at_other_node = false;  // of a cluster
  };
  // Those that came together. A message whose sender may not say what it says is not recorded either: a replay has no
  // keys, and would believe it. `spoke` is told of each that is a batch, and one that its sender may send.
  void on_messages(absl::Span<const Message>, Nanoseconds now_ns, Nanoseconds realtime_ns, const ControlDesk::Send& send,
                   absl::FunctionRef<void(size_t, const Batch&)> spoke);
  void on_multipart_message(Nanoseconds now_ns, Nanoseconds realtime_ns);

  // Analyses, writes verdicts, and refreshes the snapshot. `finished_ns()` tells the time again when asked, so that
  // the cost of the tick is known.
  template <class Clock>
  void tick(Nanoseconds now_ns, Nanoseconds realtime_ns, Clock clock_ns) {
    analyse(now_ns, realtime_ns);
    const Nanoseconds analysed_ns = clock_ns();
    store_->looked(analysed_ns);
    if (now_ns >= next_snapshot_ns_) {
      publish(now_ns, realtime_ns);
      // A snapshot of a large cluster costs; it may take one twentieth of the thread.
      constexpr int share = 20;
      next_snapshot_ns_ = now_ns + (clock_ns() - analysed_ns) * share;
    }
    tick_duration_ns_ = clock_ns() - now_ns;
  }
  // Memory, looked at between messages too. Before the first tick.
  void guard_memory(uint64_t bytes_max) { memory_ = MemoryGuard(bytes_max); }
  void look_at_memory(Nanoseconds now_ns) { memory_.look(analysis_.analyzer(), now_ns); }
  const MemoryGuard& memory() const { return memory_; }
  // Requests of operators to probes.
  TuneAnswer tune(const TuneRequest& request, const ControlDesk::Send& send);
  void count_late_tick() { ++late_ticks_; }
  // Writes what is still to be recorded, for some seconds at most, and reported. Nothing is, afterwards. False: as
  // Recorder::finish() or Reporter::finish().
  bool finish(absl::Duration timeout);

  const ingest::Ingest& ingest() const { return analysis_.ingest(); }

 private:
  void analyse(Nanoseconds now_ns, Nanoseconds realtime_ns);
  void publish(Nanoseconds now_ns, Nanoseconds realtime_ns);
  bool finish_recording();

  Settings settings_;
  Analysis analysis_;
  std::shared_ptr<Reporter> reporter_;
  std::shared_ptr<SnapshotStore> store_;
  std::unique_ptr<recording::Recorder> recorder_;
  std::function<ingest::ConnectionCounters()> connections_;     // none: all 0
  std::function<report::HttpCounters()> http_;                  // none: all 0
  std::function<report::AccessStatus()> access_;               // none: anybody
  std::function<report::WebhookCounters()> webhook_counters_;  // none: there is no webhook
  std::function<report::ClusterStatus()> cluster_;              // none: this is no cluster
  bool tells_ = true;
  ControlDesk desk_;
  MemoryGuard memory_{0};
  Nanoseconds started_ns_;
  Nanoseconds next_snapshot_ns_ = 0;
  Nanoseconds tick_duration_ns_ = 0;
  uint64_t ticks_ = 0, late_ticks_ = 0;
  uint64_t refused_for_memory_ = 0, memory_refusals_ = 0;  // until the newest snapshot
  bool said_ranks_refused_ = false, said_names_refused_ = false, said_full_ = false;
  std::optional<Nanoseconds> left_open_until_ns_;  // nothing: not looked for (any more)
};

}  // namespace ccld::decision::server
