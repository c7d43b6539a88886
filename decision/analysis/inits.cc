#include "decision/analysis/inits.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ccld::decision {

void look_at_inits(InitBook& inits, const ProcessTable& processes, IncidentWriter& writer, const Settings& settings, Nanoseconds now_ns) {
  for (uint64_t id : inits.tidy(processes, now_ns)) writer.book().resolve(id, now_ns);
  if (settings.rules == RuleSet::paper) return;
  for (auto& [key, making] : inits.all()) {
    const std::optional<Finding> f = find_endless_init(key, making, processes, settings, now_ns);
    if (!f) {
      if (making.incident != 0) writer.book().resolve(std::exchange(making.incident, 0), now_ns);
      continue;
    }
    Incident* i = writer.book().find(making.incident);
    const bool news = !i || !same_culprits(i->culprits, f->culprits) || i->candidates != f->candidates;
    if (!i) {
      Incident fresh;
      fresh.onset_ns = making.entered_ns;
      fresh.suspected_ns = now_ns;
      i = &writer.book().open(std::move(fresh));
      making.incident = i->id;
    }
    const Communicator nameless(CommUid{}, settings);
    writer.fill(*i, nameless, *f, now_ns);
    i->job = key.job;
    i->rank_count = key.rank_count;
    i->comm_name = absl::StrCat("in the making, hash ", absl::Hex(key.comm_hash, absl::kZeroPad16));
    if (news) writer.book().changed(i->id);
    writer.book().confirm(i->id, now_ns);
  }
}

}  // namespace ccld::decision
