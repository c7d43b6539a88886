// What telemetry of hung operations looks like, as a few numbers that a real run and a simulated one must share.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "decision/model/events.h"

namespace ccld::sim {

struct Facts {
  uint64_t snapshots = 0, late_snapshots = 0, lanes = 0, data_waits = 0, credit_waits = 0, uncertain_waits = 0, proxies = 0;
  std::map<uint32_t, uint64_t> ahead;  // wanted minus current step of a wait
  int64_t counters_out_of_order = 0;   // of proxies: done <= transmitted <= received <= posted, sends done <= transmitted
  uint32_t poll_age_max_ms = 0;        // of a lane that waits
  uint32_t proxy_window_max = 0;       // posted minus done of a proxy
  std::vector<double> late_gaps_ms;    // between two late snapshots of one rank and communicator
  std::vector<double> idle_gaps_ms;    // and between two that are not late

  double median(std::vector<double> v) const {
    if (v.empty()) return 0;
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
  }

  void add(const decision::Batch& batch) {
    for (const decision::Payload& p : batch.payloads)
      if (const auto* m = std::get_if<decision::InFlight>(&p)) add(*m);
  }

 private:
  void add(const decision::InFlight& m) {
    ++snapshots;
    auto& last = last_[{m.comm.value, m.rank.value}];
    if (last.first != 0 && last.second == m.late)
      (m.late ? late_gaps_ms : idle_gaps_ms).push_back(static_cast<double>(m.sample_monotonic_ns - last.first) / 1e6);
    last = {m.sample_monotonic_ns, m.late};
    if (!m.late) return;
    ++late_snapshots;
    lanes += m.lanes.size();
    for (const decision::LaneState& l : m.lanes) {
      if (l.wait == abi::WaitKind::none) continue;
      ++(l.wait == abi::WaitKind::data ? data_waits : credit_waits);
      uncertain_waits += !l.wait_certain;
      ++ahead[l.want_step - l.current_step];
      if (l.poll_age_ms != decision::age_never) poll_age_max_ms = std::max(poll_age_max_ms, l.poll_age_ms);
    }
    for (const decision::ProxyState& p : m.proxies) {
      ++proxies;
      const bool sends = p.direction == abi::Direction::send;
      counters_out_of_order += sends ? p.done > p.transmitted
                                     : !(p.done <= p.transmitted && p.transmitted <= p.received && p.received <= p.posted);
      proxy_window_max = std::max(proxy_window_max, static_cast<uint32_t>(p.posted - p.done));
    }
  }
  std::map<std::pair<uint64_t, int32_t>, std::pair<uint64_t, bool>> last_;
};

}  // namespace ccld::sim
