#include "decision/model/processes.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "decision/model/small_numbers.h"

namespace ccld::decision {

bool ClockMap::observe(uint64_t remote_ns, Nanoseconds now_ns) {
  const Nanoseconds difference = now_ns - static_cast<Nanoseconds>(remote_ns);
  if (known_ && difference < current_ - jump_ns_max) {
    jumps_ = jumps_ > 0 && std::abs(difference - jumped_to_) <= jump_ns_max ? jumps_ + 1 : 1;
    jumped_to_ = difference;
    if (jumps_ < believed_after) return false;
    has_previous_ = false;
    current_ = difference;
    started_ns_ = now_ns;
  }
  jumps_ = 0;
  if (!known_ || now_ns - started_ns_ > generation_ns) {
    previous_ = current_;
    has_previous_ = known_;
    known_ = true;
    current_ = difference;
    started_ns_ = now_ns;
  }
  current_ = std::min(current_, difference);
  return true;
}

Nanoseconds ClockMap::to_local(uint64_t remote_ns, Nanoseconds now_ns) const {
  if (!known_) return now_ns;
  const Nanoseconds offset = has_previous_ ? std::min(current_, previous_) : current_;
  return std::min(now_ns, static_cast<Nanoseconds>(remote_ns) + offset);
}

void KernelLog::add(CommUid comm, int device, uint64_t begin_ns) {
  const Place place{comm, device};
  auto known = std::find(places_.begin(), places_.end(), place);
  if (known == places_.end()) {
    if (places_.size() == places_max) {
      places_.clear();
      kernels_.clear();
      oldest_ = 0;
    }
    places_.push_back(place);
    known = places_.end() - 1;
  }
  const uint64_t begin = begin_ns >> unit_bits;
  newest_begin_ = std::max(newest_begin_, begin);
  Kernel kernel{{}, static_cast<uint8_t>(known - places_.begin())};
  const auto low = static_cast<uint32_t>(begin);
  std::memcpy(kernel.begin, &low, sizeof low);
  if (kernels_.size() < kept_max) {
    if (kernels_.size() == few) kernels_.reserve(kept_max);
    kernels_.push_back(kernel);
    return;
  }
  kernels_[oldest_] = kernel;
  oldest_ = (oldest_ + 1) % kept_max;
}

uint64_t KernelLog::begin(const Kernel& k) const {
  uint32_t low = 0;
  std::memcpy(&low, k.begin, sizeof low);
  return newest_begin_ - (static_cast<uint32_t>(newest_begin_) - low);
}

std::vector<CommUid> KernelLog::order(int device) const {
  std::vector<std::pair<uint64_t, CommUid>> kernels;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    const Kernel& k = kernels_[(oldest_ + i) % kernels_.size()];
    if (places_[k.place].device == device) kernels.emplace_back(begin(k), places_[k.place].comm);
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<CommUid> out;
  for (const auto& [begin, comm] : kernels) out.push_back(comm);
  return out;
}

void NetQueueList::assign(const std::vector<NetQueue>& queues) {
  bytes_.clear();
  names_.clear();
  std::vector<std::string_view> names;
  for (size_t i = 0; i < std::min<size_t>(queues.size(), abi::nets_max); ++i) {
    const NetQueue& q = queues[i];
    const auto name = std::find(names.begin(), names.end(), q.device_name);
    for (uint64_t n :
         {q.queue, q.in_flight, q.send_posted, q.send_posted - q.send_completed, q.window_bytes, q.recv_in_flight,
          q.errors, folded(q.device), uint64_t{q.number}, uint64_t{q.window_ms}, uint64_t{q.post_age_ms},
          uint64_t{q.complete_age_ms}, static_cast<uint64_t>(q.kind), static_cast<uint64_t>(name - names.begin())})
      write_number(bytes_, n);
    if (name != names.end()) continue;
    names.push_back(q.device_name);
    names_ += q.device_name;
    names_ += '\n';
  }
  bytes_.shrink_to_fit();
  names_.shrink_to_fit();
}

NetQueueList::operator std::vector<NetQueue>() const {
  std::vector<std::string> names;
  for (size_t at = 0; at < names_.size();) {
    const size_t end = names_.find('\n', at);
    names.push_back(names_.substr(at, end - at));
    at = end + 1;
  }
  std::vector<NetQueue> queues;
  size_t at = 0;
  const auto next = [&] { return read_number(bytes_, at); };
  const auto next32 = [&] { return static_cast<uint32_t>(read_number(bytes_, at)); };
  while (at < bytes_.size()) {
    NetQueue& q = queues.emplace_back();
    q.queue = next();
    q.in_flight = next();
    q.send_posted = next();
    q.send_completed = q.send_posted - next();
    q.window_bytes = next();
    q.recv_in_flight = next();
    q.errors = next();
    q.device = static_cast<int>(unfolded(next()));
    q.number = next32();
    q.window_ms = next32();
    q.post_age_ms = next32();
    q.complete_age_ms = next32();
    q.kind = static_cast<abi::NetKind>(next());
    if (const size_t name = next(); name < names.size()) q.device_name = names[name];
  }
  return queues;
}

void ProcessTable::join(ProcessModel& p) {
  p.host = &hosts_[machine_of(p.id)];
  ++p.host->processes;
  p.host->members.push_back(&p);
}

void ProcessTable::leave(ProcessModel& p) {
  std::erase(p.host->members, &p);
  if (--p.host->processes == 0) hosts_.erase(machine_of(p.id));
}

// A process may speak before it knows what its host is called: it stays one process.
ProcessModel* ProcessTable::renamed(ProcessModel& p, const ProcessId& id) {
  if (id.host.empty()) return &p;
  if (!p.id.host.empty()) return nullptr;  // two machines that look alike
  auto node = processes_.extract(p.id);
  leave(p);
  node.key() = p.id = id;
  join(p);
  processes_.insert(std::move(node));
  return &p;
}

ProcessModel* ProcessTable::known(const ProcessId& id) {
  const auto like = by_pid_.find(Pid(id));
  if (like == by_pid_.end()) return nullptr;
  if ((*like)->id.host == id.host) return *like;
  const auto it = processes_.find(id);
  return it != processes_.end() ? it->second.get() : renamed(**like, id);
}

ProcessModel* ProcessTable::make(const ProcessId& id) {
  if (!admits_new_ || processes_.size() >= settings_.processes_max) return ++refused_, nullptr;
  ProcessModel& p = *processes_.emplace(id, std::make_unique<ProcessModel>()).first->second;
  p.id = id;
  join(p);
  by_pid_.erase(Pid(p.id));
  by_pid_.insert(&p);
  return &p;
}

ProcessModel* ProcessTable::sender(const Batch& batch) {
  ProcessModel* const heard_before = known(batch.process);
  return heard_before ? heard_before : make(batch.process);
}

ProcessModel* ProcessTable::heard(const Batch& batch, Nanoseconds now_ns) {
  ProcessModel* const p = sender(batch);
  if (p) heard(*p, batch, now_ns);
  return p;
}

void ProcessTable::heard(ProcessModel& p, const Batch& batch, Nanoseconds now_ns) {
  if (!batch.job.empty() && p.job != batch.job) p.job = batch.job;
  p.heard_ns = std::max(p.heard_ns, now_ns);
  p.host->heard_ns = std::max(p.host->heard_ns, now_ns);
  newest_ns_ = std::max(newest_ns_, now_ns);
  p.clock_is_doubtful = !p.clock.observe(batch.sent_monotonic_ns, now_ns);
  if (batch.sent_realtime_ns > 0)
    p.host->realtime_less_monotonic_ns = batch.sent_realtime_ns - static_cast<int64_t>(batch.sent_monotonic_ns);
  p.sent_monotonic_ns = batch.sent_monotonic_ns;
  p.state = '?';
  p.may_have_left = false;
  ++p.batches;
  const uint64_t seq_before = p.newest.seq;
  const Image image = p.newest.take(batch.batch_seq, batch.sent_monotonic_ns);
  if (image == Image::before) return;
  if (image == Image::next) p.distinct_batches = p.recent_batches = 0;
  if (image == Image::next || batch.batch_seq > seq_before) {
    const uint64_t ahead = batch.batch_seq - (image == Image::next ? 0 : seq_before);
    p.recent_batches = ahead >= 64 ? 1 : (p.recent_batches << ahead) | 1;
    ++p.distinct_batches;
  } else if (const uint64_t behind = seq_before - batch.batch_seq;
             behind < 64 && !(p.recent_batches >> behind & 1)) {
    p.recent_batches |= uint64_t{1} << behind;
    ++p.distinct_batches;
  }
}

namespace {

Nanoseconds state_since_ns(const Sibling& s, Nanoseconds now_ns) {
  return now_ns - static_cast<Nanoseconds>(s.state_age_ms) * ns_per_ms;
}

}  // namespace

void ProcessTable::health(ProcessModel& reporter, const AgentHealth& health, Nanoseconds now_ns) {
  reporter.health = health;
  std::vector<Sibling>().swap(reporter.health.siblings);
  for (const Sibling& s : health.siblings) {
    const auto it = by_pid_.find(Pid(reporter.id, s));
    if (it == by_pid_.end() || *it == &reporter) continue;
    ProcessModel& p = **it;
    if (p.gone()) continue;  // final
    const Nanoseconds since_ns = state_since_ns(s, now_ns);
    const bool matters = is_stopped(s.state) || is_gone(s.state);
    // It spoke after the moment the sibling speaks of, and just now: the report is outdated, or its last batch was
    // under way when it stopped. In the second case it stays quiet and the next report counts.
    if (matters && since_ns < p.heard_ns && now_ns - p.heard_ns < ns_per_s / 2) continue;
    if (matters && p.state != s.state) p.state_since_ns = since_ns;
    p.state = s.state;
    if (p.gone()) departures_.lost(p);
  }
}

ProcessModel* ProcessTable::lost_sibling(const ProcessModel& reporter, const Sibling& s) const {
  const auto it = by_pid_.find(Pid(reporter.id, s));
  if (it == by_pid_.end() || *it == &reporter) return nullptr;
  return (*it)->stopped() || (*it)->gone() ? *it : nullptr;
}

ProcessModel* ProcessTable::take_in_lost(const ProcessModel& reporter, const Sibling& s, Nanoseconds now_ns) {
  if (!(is_stopped(s.state) || is_gone(s.state)) || by_pid_.contains(Pid(reporter.id, s))) return nullptr;
  ProcessId id = reporter.id;
  id.pid = s.pid;
  id.pid_start_ticks = s.pid_start_ticks;
  ProcessModel* const p = make(id);
  if (p == nullptr) return nullptr;
  p->job = reporter.job;
  p->heard_ns = now_ns;
  p->state = s.state;
  p->state_since_ns = state_since_ns(s, now_ns);
  return p;
}

std::optional<Owner> ProcessTable::owner_of(const Pid& pid) const {
  const auto it = by_pid_.find(pid);
  if (it == by_pid_.end()) return std::nullopt;
  return Owner{(*it)->job, (*it)->id.host};
}

std::optional<Owner> ProcessTable::owner_of(const ProcessId& id) const {
  if (const auto it = processes_.find(id); it != processes_.end()) return Owner{it->second->job, id.host};
  return owner_of(Pid(id));
}

std::optional<Owner> ProcessTable::owner_of(const ProcessId& reporter, const Sibling& s) const {
  return owner_of(Pid(reporter, s));
}

namespace {

void note_run_delays(ProcessModel& p, const Metrics& m, Nanoseconds now_ns) {
  RunDelay delay;
  bool known = false;
  int64_t turns = 0;
  Nanoseconds turn_waits_ns = 0;
  Nanoseconds read_ns = now_ns;
  const auto us_to_ns = [](int64_t us) { return static_cast<Nanoseconds>(1000 * static_cast<uint64_t>(us)); };
  for (const Metric& v : m.metrics) {
    switch (v.id) {
      case abi::MetricId::process_main_run_delay_ns: known = true, delay.main_ns = v.value; break;
      case abi::MetricId::process_proxy_run_delay_ns: delay.proxies_ns = v.value; break;
      case abi::MetricId::cgroup_throttled_us: delay.throttled_ns = us_to_ns(v.value); break;
      case abi::MetricId::process_starved_ns: delay.starved_ns = v.value; break;
      case abi::MetricId::process_gpu_starved_ns: delay.gpu_starved_ns = v.value; break;
      case abi::MetricId::process_main_run_ns: delay.main_ran_ns = v.value; break;
      case abi::MetricId::process_proxy_run_ns: delay.proxies_ran_ns = v.value; break;
      case abi::MetricId::process_turns: turns = v.value; break;
      case abi::MetricId::process_turn_waits_ns: turn_waits_ns = v.value; break;
      // When they were read: seldom, on a busy machine, and told again and again.
      case abi::MetricId::process_run_read_monotonic_ns:
        if (const auto at = static_cast<uint64_t>(v.value); at <= p.sent_monotonic_ns)
          read_ns = p.clock.to_local(at, now_ns);
        break;
      case abi::MetricId::agent_period_us:
        p.sampled_every_us = static_cast<uint32_t>(std::clamp<int64_t>(v.value, 0, UINT32_MAX));
        break;
      case abi::MetricId::proxy_away_ns: p.proxies_away.add({v.value}, now_ns); break;
      case abi::MetricId::pressure_cpu_some_us: delay.pressure_ns = us_to_ns(v.value); break;
      default: break;
    }
  }
  if (known) p.run_delays.add(delay, read_ns);
  if (turns > 0) p.turns.add(turns, turn_waits_ns, read_ns);
}

}  // namespace

void ProcessTable::metrics(ProcessModel& reporter, const Metrics& m, Nanoseconds now_ns) {
  reporter.metrics = std::make_shared<const MetricTable>(merged(reporter.metrics.get(), m, now_ns));
  for (const Metric& v : m.metrics)
    if (v.id == abi::MetricId::agent_undelivered_batches)
      reporter.undelivered_batches = v.value > 0 ? static_cast<uint64_t>(v.value) : 0;
  const bool stopped = std::any_of(m.metrics.begin(), m.metrics.end(), [](const Metric& v) {
    return v.id == abi::MetricId::process_threads_stopped && v.value > 0;
  });
  if (stopped) reporter.threads_stopped_ns = now_ns;
  note_run_delays(reporter, m, now_ns);
}

void ProcessTable::net_queues(ProcessModel& reporter, const NetQueues& m, Nanoseconds now_ns) {
  reporter.net_queues.assign(m.queues);
  reporter.net_queues_ns = now_ns;
}

void ProcessTable::control(ProcessModel& reporter, const ControlState& m) {
  reporter.control = std::make_unique<ControlState>(m);
  reporter.probe_stopped = !m.running;
  reporter.may_have_left = true;
}

bool ProcessTable::silent(const ProcessModel& p) const {
  return newest_ns_ - p.heard_ns > seconds_to_ns(settings_.silent_s);
}

bool ProcessTable::host_silent(const ProcessModel& p) const {
  return newest_ns_ - p.host->heard_ns > seconds_to_ns(settings_.silent_s);
}

ProcessTable::Processes::iterator ProcessTable::erase(Processes::iterator it) {
  ProcessModel& p = *it->second;
  leave(p);
  if (const auto own = by_pid_.find(Pid(p.id)); own != by_pid_.end() && *own == &p) by_pid_.erase(own);
  return processes_.erase(it);
}

size_t ProcessTable::let_go(Nanoseconds silent_since_ns, const absl::flat_hash_set<const ProcessModel*>& needed) {
  size_t gone = 0;
  for (auto it = processes_.begin(); it != processes_.end();) {
    const ProcessModel& p = *it->second;
    const bool unused = p.memberships.empty() && p.heard_ns <= silent_since_ns && !needed.contains(&p);
    it = unused ? (++gone, erase(it)) : std::next(it);
  }
  return gone;
}

size_t ProcessTable::memberships_of_machine(const ProcessId& id) const {
  constexpr size_t looked_at_max = 100;
  const auto host = hosts_.find(machine_of(id));
  if (host == hosts_.end()) return 0;
  const std::vector<const ProcessModel*>& members = host->second.members;
  size_t sum = 0;
  for (size_t i = 0; i < std::min(members.size(), looked_at_max); ++i) sum += members[i]->memberships.size();
  return sum;
}

size_t ProcessTable::let_go_of_the_least_missed(size_t count, const absl::flat_hash_set<const ProcessModel*>& needed) {
  std::vector<Processes::iterator> unused;
  for (auto it = processes_.begin(); it != processes_.end(); ++it)
    if (it->second->memberships.empty() && !needed.contains(it->second.get())) unused.push_back(it);
  count = std::min(count, unused.size());
  std::partial_sort(unused.begin(), unused.begin() + static_cast<std::ptrdiff_t>(count), unused.end(),
                    [](const auto& a, const auto& b) {
                      const ProcessModel &p = *a->second, &q = *b->second;
                      if (p.host->processes != q.host->processes) return p.host->processes > q.host->processes;
                      return p.heard_ns < q.heard_ns;
                    });
  for (size_t i = 0; i < count; ++i) erase(unused[i]);
  return count;
}

void ProcessTable::forget(Nanoseconds now_ns) {
  if (now_ns - heard_since_ns_ <= seconds_to_ns(settings_.forget_s)) return;
  heard_since_ns_ = now_ns;
  for (auto it = processes_.begin(); it != processes_.end();) {
    const ProcessModel& p = *it->second;
    const bool old = now_ns - p.heard_ns > seconds_to_ns(settings_.forget_s);
    if (old && p.memberships.empty()) {
      it = erase(it);
    } else {
      heard_since_ns_ = std::min(heard_since_ns_, p.heard_ns);
      ++it;
    }
  }
}

}  // namespace ccld::decision
