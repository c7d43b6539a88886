#include "decision/server/cluster_side.h"

#include <utility>
#include <vector>

#include "decision/history/revision.h"
#include "decision/server/clock.h"

namespace ccld::decision::server {

void ClusterSide::send_on(const std::string& connection, absl::Span<const uint8_t> message, const Batch& batch) const {
  if (node_ != nullptr) node_->relay().send(connection, message, cluster::priority_of(batch));
}

bool ClusterSide::answer(const std::string& connection, absl::Span<const uint8_t> message) const {
  return node_ != nullptr && node_->relay().answer(connection, message);
}

int ClusterSide::descriptor() const { return node_ != nullptr ? node_->relay().descriptor() : -1; }

void ClusterSide::drain(AnalysisLoop& loop, const ControlDesk::Send& send, ToOwnProbe to_own_probe) const {
  if (node_ == nullptr) return;
  const cluster::Relay::Waiting waiting = node_->relay().take_all();
  for (const cluster::Relayed& r : waiting.answers) to_own_probe(r.connection, r.bytes);
  std::vector<AnalysisLoop::Message> contents;
  for (size_t from = 0; from < waiting.telemetry.size(); from += contents.size()) {
    const Nanoseconds now_ns = monotonic_now_ns();
    loop.look_at_memory(now_ns);
    contents.clear();
    size_t bytes = 0;
    for (size_t i = from; i < waiting.telemetry.size() && is_room_together(contents.size(), bytes); ++i) {
      const cluster::Relayed& r = waiting.telemetry[i];
      bytes += r.bytes.size();
      contents.push_back({.bytes = r.bytes, .connection = &r.connection, .at_other_node = true});
    }
    loop.on_messages(contents, now_ns, now_ns + realtime_minus_clock_ns(), send, [](size_t, const Batch&) {});
  }
}

void ClusterSide::take_turn(AnalysisLoop& loop, Nanoseconds now_ns) const {
  if (node_ == nullptr) return;
  const auto turn = node_->take_turn();
  if (!turn.has_value()) return;
  if (!turn->leads) {
    loop.follow();
    webhook_->end();
    return;
  }
  auto left_open = history::all_left_open_of(turn->standing.open, {realtime_minus_clock_ns()});
  loop.lead({run_, turn->standing.last_id}, std::move(left_open), now_ns, take_up_ns_);
  webhook_->begin();
}

}  // namespace ccld::decision::server
