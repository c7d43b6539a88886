#include "decision/analysis/common_causes.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace ccld::decision {
namespace {

// What is broken. Of a link: both ends, whichever way; of a device only who has it.
using Broken = std::tuple<const ProcessModel*, const ProcessModel*, Component, int>;

const ProcessModel* process_of(const Communicator& comm, Rank r) {
  const RankModel* m = comm.rank(r);
  return m ? m->process : nullptr;
}

std::optional<Broken> broken(const Communicator& comm, const Culprit& c) {
  const ProcessModel* process = process_of(comm, c.rank);
  if (!process) return std::nullopt;
  switch (c.component) {
    case Component::gpu: return Broken{process, nullptr, c.component, c.cuda_device};
    case Component::nic:
    case Component::proxy: return Broken{process, nullptr, c.component, -1};
    case Component::link: {
      const ProcessModel* peer = c.peer ? process_of(comm, *c.peer) : nullptr;
      if (!peer) return std::nullopt;
      return Broken{std::min(process, peer), std::max(process, peer), c.component, -1};
    }
    default: return std::nullopt;
  }
}

template <typename T>
void add_missing(std::vector<T>& to, const std::vector<T>& from) {
  for (const T& x : from)
    if (std::find(to.begin(), to.end(), x) == to.end()) to.push_back(x);
}

}  // namespace

void join_common_causes(std::vector<FoundCause>& found, const std::vector<Standing>& standing) {
  absl::flat_hash_map<Broken, Cause*> first;
  std::vector<FoundCause> kept;
  kept.reserve(found.size());
  absl::flat_hash_map<const Cause*, size_t> at;  // in `kept`
  for (FoundCause& f : found) {
    const Communicator& comm = *standing[f.cause->home].comm;
    Cause* known = nullptr;
    bool same = f.finding.fault == FaultClass::h3_hardware && !f.finding.culprits.empty();
    for (const Culprit& c : f.finding.culprits) {
      const std::optional<Broken> what = same ? broken(comm, c) : std::nullopt;
      const auto it = what ? first.find(*what) : first.end();
      same &= it != first.end() && (!known || known == it->second);
      if (same) known = it->second;
    }
    if (same) {
      add_missing(known->standing, f.cause->standing);
      add_missing(known->makings, f.cause->makings);
      kept[at.at(known)].shared = true;
      continue;
    }
    if (f.finding.fault == FaultClass::h3_hardware)
      for (const Culprit& c : f.finding.culprits)
        if (const std::optional<Broken> what = broken(comm, c)) first.try_emplace(*what, f.cause);
    at[f.cause] = kept.size();
    kept.push_back(std::move(f));
  }
  found = std::move(kept);
}

}  // namespace ccld::decision
