#include "decision/model/processes.h"

#include <algorithm>

namespace ccld::decision {

void ClockMap::observe(uint64_t remote_ns, Nanoseconds now_ns) {
  const Nanoseconds difference = now_ns - static_cast<Nanoseconds>(remote_ns);
  if (!known_ || now_ns - started_ns_ > generation_ns) {
    previous_ = current_;
    has_previous_ = known_;
    known_ = true;
    current_ = difference;
    started_ns_ = now_ns;
  }
  current_ = std::min(current_, difference);
}

Nanoseconds ClockMap::to_local(uint64_t remote_ns, Nanoseconds now_ns) const {
  if (!known_) return now_ns;
  const Nanoseconds offset = has_previous_ ? std::min(current_, previous_) : current_;
  return std::min(now_ns, static_cast<Nanoseconds>(remote_ns) + offset);
}

void KernelLog::add(CommUid comm, int device, uint64_t begin_ns, uint64_t end_ns) {
  kernels_.push_back({comm, device, begin_ns, end_ns});
  if (kernels_.size() > kept_max) kernels_.pop_front();
}

Nanoseconds KernelLog::busy_in_others_ns(CommUid comm, int device, uint64_t from_ns, uint64_t to_ns) const {
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  for (const Kernel& k : kernels_)
    if (k.comm != comm && k.device == device && k.end_ns > from_ns && k.begin_ns < to_ns)
      parts.emplace_back(std::max(k.begin_ns, from_ns), std::min(k.end_ns, to_ns));
  std::sort(parts.begin(), parts.end());
  uint64_t busy = 0, covered = from_ns;
  for (auto [begin, end] : parts) {
    begin = std::max(begin, covered);
    if (end > begin) busy += end - begin, covered = end;
  }
  return static_cast<Nanoseconds>(busy);
}

// A process may speak before it knows what its host is called: it stays one process.
ProcessTable::Processes::iterator ProcessTable::renamed(const ProcessId& id) {
  const auto known = by_pid_.find({id.boot_id, id.pid, id.pid_start_ticks});
  if (known == by_pid_.end()) return processes_.end();
  ProcessModel& p = *known->second;
  if (id.host.empty()) return processes_.find(p.id);
  if (!p.id.host.empty()) return processes_.end();  // two machines that look alike
  auto node = processes_.extract(p.id);
  if (--p.host->processes == 0) hosts_.erase({p.id.host, p.id.boot_id});
  node.key() = p.id = id;
  p.host = &hosts_[{id.host, id.boot_id}];
  ++p.host->processes;
  return processes_.insert(std::move(node)).position;
}

ProcessModel* ProcessTable::heard(const Batch& batch, Nanoseconds now_ns) {
  auto it = processes_.find(batch.process);
  if (it == processes_.end()) it = renamed(batch.process);
  if (it == processes_.end()) {
    if (processes_.size() >= settings_.processes_max) return nullptr;
    it = processes_.emplace(batch.process, std::make_unique<ProcessModel>()).first;
    it->second->id = batch.process;
    it->second->host = &hosts_[{batch.process.host, batch.process.boot_id}];
    ++it->second->host->processes;
    by_pid_[{batch.process.boot_id, batch.process.pid, batch.process.pid_start_ticks}] = it->second.get();
  }
  ProcessModel& p = *it->second;
  if (!batch.job.empty()) p.job = batch.job;
  p.heard_ns = std::max(p.heard_ns, now_ns);
  p.host->heard_ns = std::max(p.host->heard_ns, now_ns);
  newest_ns_ = std::max(newest_ns_, now_ns);
  p.clock.observe(batch.sent_monotonic_ns, now_ns);
  p.state = '?';
  p.may_have_left = false;
  ++p.batches;
  if (batch.batch_seq > p.batch_seq_max) {
    const uint64_t ahead = batch.batch_seq - p.batch_seq_max;
    p.recent_batches = ahead >= 64 ? 1 : (p.recent_batches << ahead) | 1;
    p.batch_seq_max = batch.batch_seq;
    ++p.distinct_batches;
  } else if (const uint64_t behind = p.batch_seq_max - batch.batch_seq;
             behind < 64 && !(p.recent_batches >> behind & 1)) {
    p.recent_batches |= uint64_t{1} << behind;
    ++p.distinct_batches;
  }
  return &p;
}

void ProcessTable::health(ProcessModel& reporter, const AgentHealth& health, Nanoseconds now_ns) {
  reporter.health = health;
  for (const Sibling& s : health.siblings) {
    auto it = by_pid_.find(Pid{reporter.id.boot_id, s.pid, s.pid_start_ticks});
    if (it == by_pid_.end() || it->second == &reporter) continue;
    ProcessModel& p = *it->second;
    if (p.gone()) continue;  // final
    const Nanoseconds since_ns = now_ns - static_cast<Nanoseconds>(s.state_age_ms) * ns_per_ms;
    const bool matters = s.state == 'T' || s.state == 't' || s.state == 'X' || s.state == 'Z';
    // It spoke after the moment the sibling speaks of, and just now: the report is outdated, or its last batch was
    // under way when it stopped. In the second case it stays quiet and the next report counts.
    if (matters && since_ns < p.heard_ns && now_ns - p.heard_ns < ns_per_s / 2) continue;
    if (matters && p.state != s.state) p.state_since_ns = since_ns;
    p.state = s.state;
  }
}

void ProcessTable::metrics(ProcessModel& reporter, const Metrics& m, Nanoseconds now_ns) {
  reporter.metrics = std::make_shared<const MetricTable>(merged(reporter.metrics.get(), m, now_ns));
}

void ProcessTable::net_queues(ProcessModel& reporter, const NetQueues& m, Nanoseconds now_ns) {
  reporter.net_queues = m.queues;
  if (reporter.net_queues.size() > abi::nets_max) reporter.net_queues.resize(abi::nets_max);
  reporter.net_queues_ns = now_ns;
}

void ProcessTable::control(ProcessModel& reporter, const ControlState& m) {
  reporter.control = m;
  reporter.probe_stopped = !m.running;
  reporter.may_have_left = true;
}

bool ProcessTable::silent(const ProcessModel& p) const {
  return newest_ns_ - p.heard_ns > seconds_to_ns(settings_.silent_s);
}

bool ProcessTable::host_silent(const ProcessModel& p) const {
  return newest_ns_ - p.host->heard_ns > seconds_to_ns(settings_.silent_s);
}

void ProcessTable::forget(Nanoseconds now_ns) {
  for (auto it = processes_.begin(); it != processes_.end();) {
    const ProcessModel& p = *it->second;
    const bool old = now_ns - p.heard_ns > seconds_to_ns(settings_.forget_s);
    if (old && p.memberships.empty()) {
      if (--p.host->processes == 0) hosts_.erase({p.id.host, p.id.boot_id});
      by_pid_.erase({p.id.boot_id, p.id.pid, p.id.pid_start_ticks});
      it = processes_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace ccld::decision
