#include "decision/analysis/inits.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/detect/hang_view.h"
#include "decision/locate/endless_init.h"

namespace ccld::decision {

namespace {

constexpr size_t waiting_rows_max = 8;
// Once it is known.
constexpr Nanoseconds inits_every_ns = ns_per_s;

bool is_open(IncidentWriter& writer, uint64_t id) {
  const Incident* i = writer.book().find(id);
  return i && is_open(i->state);
}

void add_waiting(Finding& f, const std::vector<VictimComm>& waiting) {
  f.victim_comms = waiting;
  for (size_t i = 0; i < waiting.size(); ++i) {
    f.victims_elsewhere += static_cast<uint32_t>(waiting[i].rank_count);
    const std::string name =
        waiting[i].name.empty() ? absl::StrCat(absl::Hex(waiting[i].comm.value, absl::kZeroPad16)) : waiting[i].name;
    if (i < waiting_rows_max)
      add_evidence(f, {.kind = EvidenceKind::ranks_of_comm_wait,
                       .subject = name,
                       .value = static_cast<double>(waiting[i].rank_count)});
  }
}

// Of ranks that were never heard of: the processes that they would be.
void name_missing(Finding& f, const KnownInit& known) {
  for (Culprit& c : f.culprits)
    for (const InitWait::Member& m : known.wait.missing) {
      if (m.rank != c.rank || !c.host.empty()) continue;
      c.host = m.process->id.host;
      c.pid = m.process->id.pid;
      c.cuda_device = m.device;
      c.reason = "did not come to the initialization of the communicator";
    }
}

}  // namespace

void look_at_inits(InitBook& inits, const InitLinks& links, const Watches& watches, const ProcessTable& processes,
                   IncidentWriter& writer, const Settings& settings, Nanoseconds now_ns) {
  for (uint64_t id : inits.tidy(processes, now_ns)) writer.book().resolve(id, now_ns);
  std::optional<std::vector<KnownInit>> known;  // looked for once, and only if anything is found
  for (auto& [key, initialization] : inits.all()) {
    if (initialization.incident != 0 && now_ns - initialization.looked_ns < inits_every_ns) continue;
    initialization.looked_ns = now_ns;
    std::optional<Finding> f = find_endless_init(key, initialization, processes, settings, now_ns);
    const auto& ranks = initialization.ranks;
    if (std::none_of(ranks.begin(), ranks.end(),
                     [&](const auto& r) { return r.second.process && !has_left(*r.second.process, now_ns); }))
      f.reset();  // nobody waits any more
    if (const auto cause = links.victims.find(key); cause != links.victims.end() && is_open(writer, cause->second))
      f.reset();
    if (!f) {
      if (initialization.incident != 0) writer.book().resolve(std::exchange(initialization.incident, 0), now_ns);
      continue;
    }
    if (const auto waiting = links.waiting.find(key); waiting != links.waiting.end()) add_waiting(*f, waiting->second);
    if (!known) known = waiting_inits(inits, processes, watches, 0, now_ns);
    for (const KnownInit& k : *known)
      if (k.key == key) name_missing(*f, k);
    const auto describe = [&](Incident& i) {
      const Communicator nameless(CommUid{}, settings);
      writer.fill(i, nameless, *f, now_ns);
      i.job = key.job;
      i.rank_count = key.rank_count;
      i.comm_name = init_name(key);
    };
    if (Incident* i = writer.book().find(initialization.incident)) {
      const bool news = !same_culprits(i->culprits, f->culprits) || i->candidates != f->candidates;
      describe(*i);
      if (news) writer.book().changed(i->handle);
    } else {
      Incident fresh;
      fresh.onset_ns = initialization.entered_ns;
      fresh.suspected_ns = now_ns;
      describe(fresh);
      initialization.incident = writer.book().open(std::move(fresh)).handle;
    }
    writer.book().confirm(initialization.incident, now_ns);
  }
}

}  // namespace ccld::decision
