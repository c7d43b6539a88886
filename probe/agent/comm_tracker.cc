#include "probe/agent/comm_tracker.h"

#include <algorithm>

namespace ccld::probe {

CommTracker::CommTracker(const abi::FrameView& frame, uint64_t comm_uid, int rank, const TrackerOptions& options,
                         Instant now)
    : frame_(frame),
      comm_uid_(comm_uid),
      rank_(rank),
      late_ns_(options.late_ns),
      rows_(frame_),
      finished_(comm_uid, rank, options.keep_rounds),
      records_(frame_, rows_, finished_),
      proxies_(frame_),
      kernels_(frame_, records_, finished_, proxies_, options.poll_fresh_ns),
      moved_ns_(now.monotonic_ns) {}

void CommTracker::sample(Instant now) {
  Sampling& s = sampling_;
  const uint64_t since_ns = now.monotonic_ns - sampled_ns_;
  sampled_ns_ = now.monotonic_ns;
  // After a rest nobody knows since when: what is in flight has not begun long ago.
  if (busy()) apart_ns_ = since_ns;
  now.seen_late_ns = static_cast<int64_t>(std::min(since_ns, apart_ns_) / 2);
  s.now = now;
  s.moved = false;
  records_.begin_sample();
  const OperationRecords::Counts counts = records_.read_counts();
  const bool changed = !(counts == records_.counts());
  if (!changed && !busy() && !records_.captured().any()) return;

  const bool slow_look = slow_looked_ns_ == 0 || now.monotonic_ns - slow_looked_ns_ >= slow_look_ns;
  if (slow_look) slow_looked_ns_ = now.monotonic_ns;
  if (changed) records_.take_new(counts, s);
  if (busy()) proxies_.sample(s);
  if (changed || slow_look) records_.refresh(!kernels_.running().empty(), s);
  kernels_.follow_runs(slow_look, s);
  kernels_.observe(slow_look, s);
  kernels_.finish_ended(s);
  if (slow_look && now.monotonic_ns - retire_looked_ns_ >= retire_look_ns) {
    retire_looked_ns_ = now.monotonic_ns;
    records_.retire_passed_by(kernels_.newest_token_before(), kernels_.running(), s);
  }
  records_.pop_done();
  finished_.close_links(proxies_, now);
  s.forgive = false;
  if (s.moved) {
    ++movement_;
    moved_ns_ = now.monotonic_ns;
  }
}

InFlightMessage CommTracker::empty_message(const OperationRecords::Counts& counts, Instant now) const {
  InFlightMessage m;
  m.comm_uid = comm_uid_;
  m.rank = rank_;
  m.sample_monotonic_ns = now.monotonic_ns;
  report_counts(counts, m);
  m.completed_op_seq = completed_op_seq();
  m.moved_age_ms = age_ms(now, moved_ns_);
  m.movement = movement_;
  m.state = static_cast<uint32_t>(frame_.state());
  return m;
}

InFlightMessage CommTracker::in_flight_message(Instant now) const {
  InFlightMessage m = empty_message(records_.counts(), now);
  m.proxy_tick_age_ms = age_ms(now, proxies_.tick_ns());
  m.late = late(now);
  if (!in_flight()) return m;
  const InFlightReport report(frame_, records_, kernels_, proxies_, now);
  report.operations(m);
  report.calls(m);
  report.endpoints(m);
  report.proxies(m);
  return m;
}

InFlightMessage CommTracker::stopped_message(Instant now) const {
  InFlightMessage m = empty_message(records_.read_counts(), now);
  m.proxy_tick_age_ms = age_never;
  m.stopped = true;
  return m;
}

}  // namespace ccld::probe
