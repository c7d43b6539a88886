#include "decision/analysis/incident_writer.h"

#include <algorithm>
#include <utility>

#include "decision/iteration/stage.h"
#include "schemas/abi/names.h"

namespace ccld::decision {
namespace {

constexpr size_t also_seen_max = 8;  // rows for each culprit

// What else was seen at a culprit's process, host, GPU and network.
void quote(Incident& i, const Communicator& comm, const Culprit& c, Nanoseconds now_ns) {
  const RankModel* r = comm.rank(c.rank);
  if (!r || !r->process) return;
  std::vector<AlsoSeen> seen;
  std::vector<std::string> net_names;
  for (const NetConnection& n : r->connections)
    if (std::find(net_names.begin(), net_names.end(), n.net_name) == net_names.end()) net_names.push_back(n.net_name);
  if (r->process->metrics) seen = also_seen(*r->process->metrics, c.gpu_bus_id, net_names, now_ns);
  for (AlsoSeen& row : also_seen(r->process->net_queues, now_ns - r->process->net_queues_ns))
    seen.push_back(std::move(row));
  size_t quoted = 0;
  for (AlsoSeen& row : seen) {
    if (quoted++ == also_seen_max) break;
    i.evidence.push_back({.kind = EvidenceKind::also_seen,
                          .rank = c.rank.value,
                          .subject = std::move(row.what),
                          .value = row.value,
                          .unit = std::move(row.unit),
                          .at_ns = row.at_ns});
  }
}

// A GPU of which nothing is told may be broken, and its process may have stopped because of it.
bool may_be_its_gpu(const Culprit& c) { return c.component == Component::gpu || c.component == Component::process; }

void say_unknown_gpus(Incident& i, const Communicator& comm) {
  Evidence unknown{.kind = EvidenceKind::not_measured, .subject = "GPU health (no NVML)"};
  for (const Culprit& c : i.culprits) {
    const RankModel* r = may_be_its_gpu(c) ? comm.rank(c.rank) : nullptr;
    if (!r || !r->process || (r->process->metrics && tells_of_gpus(*r->process->metrics))) continue;
    if (unknown.value == 0) unknown.rank = c.rank.value;
    ++unknown.value;
  }
  if (unknown.value > 1) unknown.rank = -1;
  if (unknown.value > 0) i.evidence.push_back(std::move(unknown));
}

}  // namespace

bool same_culprits(const std::vector<Culprit>& a, const std::vector<Culprit>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].rank != b[i].rank || a[i].peer != b[i].peer || a[i].component != b[i].component ||
        a[i].channel != b[i].channel || a[i].reason != b[i].reason)
      return false;
  return true;
}

void IncidentWriter::fill(Incident& i, const Communicator& comm, const Finding& f, Nanoseconds now_ns) const {
  i.fault = f.fault;
  i.rules = settings_.rules;
  i.job = comm.job();
  i.comm = comm.uid();
  i.comm_name = comm.name();
  i.rank_count = comm.rank_count();
  i.op = f.op;
  i.replay = f.replay;
  i.title = f.title;
  i.signature = f.signature;
  i.culprits = f.culprits;
  for (Culprit& c : i.culprits)
    if (const RankModel* peer = c.peer ? comm.rank(*c.peer) : nullptr) c.peer_host = peer->host;
  i.candidates = f.candidates;
  i.victim_count = static_cast<uint32_t>(f.victims.size()) + f.victims_elsewhere;
  i.victim_sample.assign(f.victims.begin(), f.victims.begin() + std::min<size_t>(f.victims.size(), victims_sampled));
  i.victim_comm_count = static_cast<uint32_t>(f.victim_comms.size());
  i.victim_comms.assign(f.victim_comms.begin(),
                        f.victim_comms.begin() + std::min(f.victim_comms.size(), victim_comms_max));
  i.waits = f.waits;
  i.cycle = f.cycle;
  i.confidence = f.confidence;
  i.evidence = f.evidence;
  for (size_t c = 0; c < f.culprits.size(); ++c) {
    const auto same_rank = [&](const Culprit& other) { return other.rank == f.culprits[c].rank; };
    if (std::none_of(f.culprits.begin(), f.culprits.begin() + c, same_rank)) quote(i, comm, f.culprits[c], now_ns);
  }
  say_unknown_gpus(i, comm);
  for (size_t h = 0; h < comm.hidden_ranks().size(); ++h) {
    if (comm.hidden_ranks()[h] == 0) continue;
    i.evidence.push_back({.kind = EvidenceKind::not_measured,
                          .subject = abi::explanation_of(abi::hidden_all[h]),
                          .value = static_cast<double>(comm.hidden_ranks()[h])});
  }
  i.next_step = f.next_step;
  i.gain = f.gain;
  i.stage.effect = effect_of(f.gain, settings_.whatif_gain_min);
  if (!i.culprits.empty() && i.located_ns == 0) i.located_ns = now_ns;
}

uint64_t IncidentWriter::open(const Communicator& comm, const Finding& f, Nanoseconds onset_ns, Nanoseconds now_ns) {
  Incident i;
  fill(i, comm, f, now_ns);
  i.onset_ns = onset_ns;
  i.suspected_ns = now_ns;
  return book_.open(std::move(i)).handle;
}

void IncidentWriter::update(uint64_t handle, const Communicator& comm, const Finding& f, Nanoseconds now_ns) {
  Incident* i = book_.find(handle);
  if (!i) return;
  fill(*i, comm, f, now_ns);
  book_.changed(handle);
}

}  // namespace ccld::decision
