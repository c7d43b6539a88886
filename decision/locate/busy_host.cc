#include "decision/locate/busy_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/locate/slow_finding.h"

namespace ccld::decision {
namespace {

// Waits are read once a second and told with the next message.
constexpr Nanoseconds told_late_ns = ns_per_s;
constexpr int told_late_steps = 2;
constexpr Nanoseconds past_min_ns = 3 * ns_per_s;  // a few samples
constexpr Nanoseconds past_parts_max = 4;
constexpr Nanoseconds starved_min_ns = 2 * ns_per_s;  // two samples
constexpr size_t neighbours_max = 64;  // a median of so many processes of a host is enough

Nanoseconds RunDelay::*wait_of(Worker which) {
  switch (which) {
    case Worker::main: return &RunDelay::main_ns;
    case Worker::proxies: return &RunDelay::proxies_ns;
    case Worker::starved_proxies: return &RunDelay::starved_ns;
    case Worker::starved_gpu: break;
  }
  return &RunDelay::gpu_starved_ns;
}

Nanoseconds ran(const RunDelay& d, Worker which) {
  return which == Worker::main ? d.main_ran_ns : which == Worker::proxies ? d.proxies_ran_ns : 0;
}

// What is told of the window, or of as long a one a little later, in which `most` is the most.
std::optional<RunDelay> told_of(const ProcessModel& process, const TimeWindow& w, Nanoseconds RunDelay::*most) {
  std::optional<RunDelay> told;
  for (int late = 0; late <= told_late_steps; ++late) {
    const Nanoseconds by_ns = late * told_late_ns;
    const auto delay = process.run_delays.between(w.from_ns + by_ns, w.to_ns + by_ns);
    if (delay && (!told || (*told).*most < (*delay).*most)) told = delay;
  }
  return told;
}

// A thread wants a processor for as long as it runs, or waits for one. Where it is not known how long it ran: always.
struct Use {
  Nanoseconds waited_ns = 0, wanted_ns = 0;
  double waited_part() const {
    return static_cast<double>(waited_ns) / static_cast<double>(std::max<Nanoseconds>(1, wanted_ns));
  }
};

Use use_of(const ProcessModel& process, Worker which, const RunDelay& delay, const TimeWindow& w) {
  const Nanoseconds waited_ns = delay.*wait_of(which);
  return {waited_ns, process.run_delays.tells_runs() ? waited_ns + ran(delay, which) : w.to_ns - w.from_ns};
}

std::optional<Use> use_of(const ProcessModel& process, Worker which, const TimeWindow& w) {
  const auto delay = told_of(process, w, wait_of(which));
  return delay ? std::optional(use_of(process, which, *delay, w)) : std::nullopt;
}

template <class Value>
std::optional<Value> median_of(std::vector<Value> all) {
  if (all.empty()) return std::nullopt;
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

const ProcessModel* process_of(const Communicator& comm, Rank r) {
  const RankModel* m = comm.rank(r);
  return m ? m->process : nullptr;
}

std::vector<const HostModel*> hosts_of(const Communicator& comm) {
  std::vector<const HostModel*> hosts;
  comm.visit_ranks([&](const RankModel& r) {
    if (r.process && r.process->host) hosts.push_back(r.process->host);
  });
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return hosts;
}

bool alike(double other, double own, const Settings& settings) {
  return other >= settings.processor_wait_part_min * own;
}
bool alike(Nanoseconds other_ns, Nanoseconds own_ns, const Settings& settings) {
  return alike(static_cast<double>(other_ns), static_cast<double>(own_ns), settings);
}

// For which part of the time for which they want a processor the processes of a host wait for it: the median of those
// that want one as much as `own`. Who sleeps does not show whether there are processors enough. nullopt: there is none.
std::optional<double> waited_part_of(const HostModel& host, Worker which, const TimeWindow& w, const Use& own,
                                     const Settings& settings, const ProcessModel* but = nullptr) {
  std::vector<double> all;
  size_t looked = 0;
  for (const ProcessModel* p : host.members) {
    if (p == but || looked++ == neighbours_max) continue;
    if (which == Worker::proxies && !p->run_delays.has_proxies()) continue;
    if (const auto use = use_of(*p, which, w); use && alike(use->wanted_ns, own.wanted_ns, settings))
      all.push_back(use->waited_part());
  }
  return median_of(std::move(all));
}

bool enough(Nanoseconds waited_ns, Nanoseconds missing_ns, const Settings& settings) {
  return waited_ns > 0 &&
         static_cast<double>(waited_ns) >= settings.processor_wait_part_min * static_cast<double>(missing_ns);
}

// A quota explains its wait.
bool throttled(const ProcessModel& process, Nanoseconds waited_ns, const TimeWindow& w, const Settings& settings) {
  const std::optional<RunDelay> delay = process.run_delays.between(w.from_ns, w.to_ns);
  return delay && alike(delay->throttled_ns, waited_ns, settings);
}

}  // namespace

std::optional<Nanoseconds> waited_for_processor(const ProcessModel& process, Worker which, const TimeWindow& w) {
  const auto use = use_of(process, which, w);
  return use ? std::optional(use->waited_ns) : std::nullopt;
}

std::optional<Nanoseconds> usually_waits_for_processor(const ProcessModel& process, Worker which, const TimeWindow& w) {
  const Nanoseconds oldest_ns = process.run_delays.oldest_ns(), past_ns = w.from_ns - oldest_ns;
  const auto now = use_of(process, which, w);
  if (!now || past_ns < past_min_ns) return std::nullopt;
  // The best part of it: what is slow for minutes becomes part of the past.
  const Nanoseconds parts = std::clamp<Nanoseconds>(past_ns / past_min_ns, 1, past_parts_max),
                    part_ns = past_ns / parts;
  std::optional<double> least;
  for (Nanoseconds i = 0; i < parts; ++i) {
    const TimeWindow part{oldest_ns + i * part_ns, oldest_ns + (i + 1) * part_ns};
    const auto delay = process.run_delays.between(part.from_ns, part.to_ns);
    if (!delay) continue;
    const double waited_part = use_of(process, which, *delay, part).waited_part();
    least = std::min(least.value_or(waited_part), waited_part);
  }
  if (!least) return std::nullopt;
  return static_cast<Nanoseconds>(*least * static_cast<double>(now->wanted_ns));
}

std::optional<Nanoseconds> host_waited_for_processor(const HostModel& host, Worker which, const TimeWindow& w,
                                                     const ProcessModel* but) {
  std::vector<Nanoseconds> all;
  for (const ProcessModel* p : host.members) {
    if (p == but || all.size() == neighbours_max) continue;
    if (which == Worker::proxies && !p->run_delays.has_proxies()) continue;
    if (const auto waited_ns = waited_for_processor(*p, which, w)) all.push_back(*waited_ns);
  }
  return median_of(std::move(all));
}

Shortage shortage_of(const Communicator& comm, const ProcessModel& process, Worker which, const TimeWindow& w,
                     const Settings& settings) {
  const Use own = use_of(process, which, w).value_or(Use{});
  if (throttled(process, own.waited_ns, w, settings)) return Shortage::own;
  const auto neighbours = waited_part_of(*process.host, which, w, own, settings, &process);
  if (neighbours && !alike(*neighbours, own.waited_part(), settings)) return Shortage::own;
  const double host_part = waited_part_of(*process.host, which, w, own, settings).value_or(own.waited_part());
  std::vector<double> elsewhere;
  for (const HostModel* host : hosts_of(comm))
    if (host != process.host)
      if (const auto part = waited_part_of(*host, which, w, own, settings)) elsewhere.push_back(*part);
  const auto others = median_of(std::move(elsewhere));
  if (others) return alike(*others, host_part, settings) ? Shortage::everywhere : Shortage::host;
  // Of the only process on the only host it is not known who keeps it from running.
  return neighbours ? Shortage::everywhere : Shortage::own;
}

bool explains_proxy(const Communicator& comm, Rank r, Nanoseconds missing_ns, const TimeWindow& w,
                    const Settings& settings) {
  const ProcessModel* process = process_of(comm, r);
  // Threads that somebody stops are not kept by others that run.
  if (process && process->threads_stopped_ns > 0 && process->threads_stopped_ns >= w.from_ns) return false;
  return process && enough(waited_for_processor(*process, Worker::proxies, w).value_or(0), missing_ns, settings);
}

std::optional<Culprit> starved(const Communicator& comm, Rank r, Mover mover, Nanoseconds quiet_ns, Nanoseconds now_ns,
                               const Settings& settings) {
  const ProcessModel* process = process_of(comm, r);
  const TimeWindow w{now_ns - std::max(quiet_ns, starved_min_ns), now_ns};
  if (!process || (process->threads_stopped_ns > 0 && process->threads_stopped_ns >= w.from_ns)) return std::nullopt;
  const Worker which = mover == Mover::gpu ? Worker::starved_gpu : Worker::starved_proxies;
  auto waited_ns = waited_for_processor(*process, which, w);
  if (!waited_ns && process->host) waited_ns = host_waited_for_processor(*process->host, which, w);
  if (!enough(waited_ns.value_or(0), w.to_ns - w.from_ns, settings)) return std::nullopt;
  const bool alone = !process->host || shortage_of(comm, *process, Worker::proxies, w, settings) == Shortage::own;
  return make_culprit(comm, r, alone ? Component::process : Component::host, Condition::processors_short,
                      alone ? "its threads that move steps are ready and get no processor"
                            : "its host is short of processors: its threads that move steps are ready and get none");
}

std::optional<Culprit> starved(const Communicator& comm, Rank r, Mover mover, Nanoseconds quiet_ns, Nanoseconds now_ns,
                               const Settings& settings, Finding& f) {
  std::optional<Culprit> who = starved(comm, r, mover, quiet_ns, now_ns, settings);
  if (who)
    add_evidence(
        f, {.kind = EvidenceKind::processor_missing, .rank = r.value, .value = static_cast<double>(quiet_ns) / 1e6});
  return who;
}

bool starved_is_known(const Communicator& comm, Rank r, Nanoseconds quiet_ns, Nanoseconds now_ns) {
  const ProcessModel* process = process_of(comm, r);
  return !process || process->run_delays.empty() || process->run_delays.tells_since(now_ns - quiet_ns, now_ns);
}

void weigh_starved(Finding& f) {
  // It is seen that threads get no processor, not who takes it: as sure as of a kernel that has not begun.
  constexpr double confidence_max = 0.7;
  const auto lacks = [](const Culprit& c) { return c.condition == Condition::processors_short; };
  if (std::none_of(f.culprits.begin(), f.culprits.end(), lacks)) return;
  f.hard = false;
  f.confidence = std::min(f.confidence, confidence_max);
  f.next_step =
      "Look at what else runs on the named host, and at quotas and pinning of the process. When its threads run and "
      "still nothing moves, this verdict will name what stands.";
}

bool explains_late_host(const Communicator& comm, Rank r, Nanoseconds missing_ns, const TimeWindow& w,
                        const Settings& settings) {
  const ProcessModel* process = process_of(comm, r);
  const auto own_ns = process ? waited_for_processor(*process, Worker::main, w) : std::nullopt;
  if (!own_ns) return false;
  std::vector<Nanoseconds> near, far;
  comm.visit_ranks([&](const RankModel& other) {
    if (!other.process || other.process == process) return;
    if (const auto waited_ns = waited_for_processor(*other.process, Worker::main, w))
      (other.process->host == process->host ? near : far).push_back(*waited_ns);
  });
  const auto peers_ns = median_of(std::move(far.empty() ? near : far));
  return peers_ns && enough(*own_ns - *peers_ns, missing_ns, settings);
}

bool explains_growth(const Communicator& comm, Rank r, Worker which, Nanoseconds missing_ns, const TimeWindow& w,
                     const Settings& settings) {
  const ProcessModel* process = process_of(comm, r);
  if (!process) return false;
  const auto waited_ns = waited_for_processor(*process, which, w),
             usual_ns = usually_waits_for_processor(*process, which, w);
  return waited_ns && usual_ns && enough(*waited_ns - *usual_ns, missing_ns, settings);
}

namespace {

// What the wait of a thread explains.
struct Explained {
  const ProcessModel* process;
  Worker which;
};

std::optional<Explained> explained(const Communicator& comm, const Culprit& c, double lost_ns, const TimeWindow& w,
                                   const Settings& settings) {
  const auto missing_ns = static_cast<Nanoseconds>(c.lost_time_share * lost_ns);
  const auto found = [&](Rank r, Worker which) { return Explained{process_of(comm, r), which}; };
  switch (c.component) {
    case Component::process:
      if (explains_late_host(comm, c.rank, missing_ns, w, settings)) return found(c.rank, Worker::main);
      break;
    case Component::proxy:
      if (explains_proxy(comm, c.rank, missing_ns, w, settings)) return found(c.rank, Worker::proxies);
      break;
    case Component::link:
    case Component::nic:
      // Between processes of one host nothing is slow but who moves the data; who lacks a processor moves none.
      for (const Rank end : {c.rank, c.peer.value_or(c.rank)})
        if (explains_growth(comm, end, Worker::proxies, missing_ns, w, settings) ||
            (c.peer && same_node(comm, c.rank, *c.peer) && explains_proxy(comm, end, missing_ns, w, settings)))
          return found(end, Worker::proxies);
      break;
    case Component::gpu:
      // It takes no more than its proxies send on.
      if (c.condition == Condition::gpu_takes_slowly && explains_proxy(comm, c.rank, missing_ns, w, settings))
        return found(c.rank, Worker::proxies);
      break;
    default: break;
  }
  return std::nullopt;
}

double percent(Nanoseconds ns, const TimeWindow& w) {
  return 100 * static_cast<double>(ns) / static_cast<double>(std::max<Nanoseconds>(1, w.to_ns - w.from_ns));
}

void add_waits(Finding& f, int32_t rank, const char* whose, Worker which, std::optional<Nanoseconds> waited_ns,
               const TimeWindow& w) {
  if (waited_ns)
    add_evidence(f,
                 {.kind = which == Worker::main ? EvidenceKind::main_thread_waited : EvidenceKind::proxy_threads_waited,
                  .rank = rank,
                  .subject = whose,
                  .value = percent(*waited_ns, w)});
}

// Some task of the host waited, by its own account (PSI).
std::optional<Nanoseconds> pressure(const HostModel& host, const TimeWindow& w) {
  Nanoseconds most_ns = 0;
  for (const ProcessModel* p : host.members)
    if (const auto delay = p->run_delays.between(w.from_ns, w.to_ns)) most_ns = std::max(most_ns, delay->pressure_ns);
  return most_ns > 0 ? std::optional(most_ns) : std::nullopt;
}

// All ranks of the communicator on the host, which share what its lack of processors costs.
void name_host(const Communicator& comm, const HostModel& host, double share, Worker which, const TimeWindow& w,
               Finding& f) {
  std::vector<Rank> ranks;
  comm.visit_ranks([&](const RankModel& r) {
    if (r.process && r.process->host == &host && ranks.size() < culprits_max) ranks.push_back(r.rank);
  });
  if (ranks.empty()) return;
  const int cause = next_cause(f);
  for (const Rank r : ranks) {
    Culprit c = make_culprit(comm, r, Component::host, Condition::processors_short, "its host is short of processors");
    c.basis = Basis::processors, c.cause = cause;
    c.lost_time_share = share / static_cast<double>(ranks.size());
    if (f.culprits.size() < culprits_max) f.culprits.push_back(std::move(c));
  }
  const std::string& name = f.culprits.back().host;
  f.title = f.title.empty() ? absl::StrCat("host ", name, " is short of processors")
                            : absl::StrCat(f.title, ", host ", name, " too");
  add_waits(f, ranks[0].value, "processes of this host", which, host_waited_for_processor(host, which, w), w);
  for (const HostModel* other : hosts_of(comm)) {
    if (other == &host) continue;
    add_waits(f, -1, "processes of another host", which, host_waited_for_processor(*other, which, w), w);
    break;
  }
  if (const auto psi_ns = pressure(host, w))
    add_evidence(f, {.kind = EvidenceKind::host_pressure, .rank = ranks[0].value, .value = percent(*psi_ns, w)});
}

}  // namespace

std::optional<Finding> weigh_processors(const Communicator& comm, Finding f, double lost_ns, const TimeWindow& w,
                                        const Settings& settings, bool compared) {
  struct Short {
    const HostModel* host;
    Worker which;
    double share;
  };
  std::vector<Short> hosts;
  std::vector<Culprit> left;
  bool dropped = false;
  for (Culprit& c : f.culprits) {
    const auto why = explained(comm, c, lost_ns, w, settings);
    const Shortage shortage = why ? shortage_of(comm, *why->process, why->which, w, settings) : Shortage::own;
    const bool wire = compared && (c.component == Component::link || c.component == Component::nic);
    if (shortage == Shortage::own || (wire && shortage == Shortage::everywhere)) {
      if (why && shortage == Shortage::own)
        add_waits(f, c.rank.value, "this process alone", why->which, waited_for_processor(*why->process, why->which, w),
                  w);
      left.push_back(std::move(c));
      continue;
    }
    dropped = true;
    if (shortage == Shortage::everywhere) continue;
    const auto known =
        std::find_if(hosts.begin(), hosts.end(), [&](const Short& s) { return s.host == why->process->host; });
    if (known == hosts.end())
      hosts.push_back({why->process->host, why->which, c.lost_time_share});
    else
      known->share += c.lost_time_share;
  }
  f.culprits = std::move(left);
  if (!dropped) return f;
  // What is left has the class of its kind.
  const bool late = std::any_of(f.culprits.begin(), f.culprits.end(), [](const Culprit& c) {
    return !c.peer && (c.component == Component::process || c.component == Component::gpu);
  });
  if (hosts.empty() && f.culprits.empty()) return std::nullopt;
  const bool network = std::any_of(f.culprits.begin(), f.culprits.end(), [](const Culprit& c) {
    return c.peer || (c.component != Component::process && c.component != Component::gpu);
  });
  if (f.fault == FaultClass::s3_mixed_slow && hosts.empty() && late != network) {
    f.fault = late ? FaultClass::s1_computation_slow : FaultClass::s2_communication_slow;
    f.next_step = slow_next_step(f);
  }
  for (const Short& s : hosts) name_host(comm, *s.host, s.share, s.which, w, f);
  if (!hosts.empty())
    f.next_step =
        "Look at what else runs on the named host: other jobs, data loaders, more processes than processors; compare "
        "with the other hosts.";
  f.victims.clear();
  collect_victims(comm, f);
  return f;
}

}  // namespace ccld::decision
