#include "decision/report/status_index.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"

namespace ccld::decision::report {
namespace {

constexpr std::array<const char*, trouble_count> trouble_names = {"confirmed", "suspected", "victim", "silent", "busy", "idle", "ended"};

// The worst that open incidents say of each communicator.
absl::flat_hash_map<CommUid, Trouble> named_by_incidents(const std::vector<Incident>& incidents) {
  absl::flat_hash_map<CommUid, Trouble> worst;
  const auto say = [&worst](CommUid comm, Trouble t) {
    const auto [it, fresh] = worst.emplace(comm, t);
    if (!fresh) it->second = std::min(it->second, t);
  };
  for (const Incident& i : incidents) {
    if (!is_open(i.state)) continue;
    say(i.comm, i.state == VerdictState::confirmed ? Trouble::confirmed : Trouble::suspected);
    for (const VictimComm& v : i.victim_comms) say(v.comm, Trouble::victim);
    for (const CycleStep& s : i.cycle) say(s.comm, Trouble::victim);
  }
  return worst;
}

Trouble by_itself(const CommStatus& c, Nanoseconds silent_ns) {
  if (c.telemetry_age_ns >= silent_ns) return Trouble::silent;
  return c.in_flight || c.p2p_in_flight > 0 ? Trouble::busy : Trouble::idle;
}

}  // namespace

const char* name(Trouble t) { return trouble_names[static_cast<size_t>(t)]; }

std::optional<Trouble> trouble_of(absl::string_view text) {
  for (size_t i = 0; i < trouble_names.size(); ++i)
    if (text == trouble_names[i]) return static_cast<Trouble>(i);
  return std::nullopt;
}

StatusIndex::StatusIndex(const Snapshot& s) {
  absl::flat_hash_map<absl::string_view, uint32_t> job_at;
  uint32_t last = 0;  // neighbours in the snapshot are of one job, as a rule
  const auto job_of = [&](const std::string& job) -> JobRow& {
    if (last < jobs_.size() && jobs_[last].job == job) return jobs_[last];
    const auto [it, fresh] = job_at.emplace(job, static_cast<uint32_t>(jobs_.size()));
    if (fresh) jobs_.push_back({.job = job});
    return jobs_[last = it->second];
  };

  for (const ProcessStatus& p : s.status.processes) {
    JobRow& job = job_of(p.job);
    ++job.processes;
    if (p.probe_stopped) ++job.probes_stopped, ++probes_stopped;
    const Presence presence = p.presence(s.silent_ns);
    if (presence == Presence::silent) ++job.silent, ++silent;
    if (presence == Presence::ended) ++job.ended, ++ended;
    undelivered += p.undelivered_batches;
    queues_in_flight += p.net.queues_in_flight;
    queues_stuck += p.net.queues_stuck;
    requests_in_flight += p.net.requests_in_flight;
  }
  for (const Incident& i : s.incidents) {
    if (!is_open(i.state)) continue;
    JobRow& job = job_of(i.job);
    ++job.incidents_open;
    if (i.state == VerdictState::confirmed) ++job.incidents_confirmed;
  }
  const auto incidents = named_by_incidents(s.incidents);
  const std::vector<CommStatus>& comms = s.status.communicators;
  states_.reserve(comms.size());
  communicators_.reserve(comms.size());
  for (uint32_t at = 0; at < comms.size(); ++at) {
    const CommStatus& c = comms[at];
    const auto named = incidents.find(c.comm);
    states_.push_back(named != incidents.end() ? named->second : by_itself(c, s.silent_ns));
    communicators_.push_back(at);
    ++by_state_[static_cast<size_t>(states_.back())];
  }
  std::sort(communicators_.begin(), communicators_.end(), [&](uint32_t a, uint32_t b) {
    return std::tuple(states_[a], comms[a].comm) < std::tuple(states_[b], comms[b].comm);
  });
  for (const uint32_t at : communicators_) {
    const CommStatus& c = comms[at];
    JobRow& job = job_of(c.job);
    job.communicators.push_back(at);
    if (c.in_flight || c.p2p_in_flight > 0) ++job.in_flight;
    if (c.in_flight) job.oldest_age_ns = std::max(job.oldest_age_ns, c.oldest_age_ns);
    if (c.p2p_in_flight > 0) job.oldest_age_ns = std::max(job.oldest_age_ns, c.p2p_age_ns);
  }
  for (JobRow& job : jobs_) {
    job.state = job.incidents_confirmed > 0 ? Trouble::confirmed
                : job.incidents_open > 0    ? Trouble::suspected
                : job.silent > 0            ? Trouble::silent
                : job.in_flight > 0         ? Trouble::busy
                : job.processes > job.ended ? Trouble::idle
                                            : Trouble::ended;
  }
  std::sort(jobs_.begin(), jobs_.end(),
            [](const JobRow& a, const JobRow& b) { return std::tie(a.state, a.job) < std::tie(b.state, b.job); });
}

const JobRow* StatusIndex::job(absl::string_view name) const {
  for (const JobRow& row : jobs_)
    if (row.job == name) return &row;
  return nullptr;
}

}  // namespace ccld::decision::report
