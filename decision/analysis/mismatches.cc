#include "decision/analysis/mismatches.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "decision/locate/mismatch.h"

namespace ccld::decision {
namespace {

// Only new mismatches by ranks that are known already: whoever was inconsistent before explains a tie, too.
bool is_follow_up(const Incident& known, const Finding& f) {
  const auto listed = [&](Rank r) {
    return std::any_of(known.culprits.begin(), known.culprits.end(), [&](const Culprit& c) { return c.rank == r; }) ||
           std::find(known.candidates.begin(), known.candidates.end(), r) != known.candidates.end();
  };
  if (f.culprits.empty()) return std::any_of(f.candidates.begin(), f.candidates.end(), listed);
  return std::all_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) { return listed(c.rank); });
}

// What was known of it before.
bool says_the_same(const Incident& known, const Finding& f) {
  return same_culprits(known.culprits, f.culprits) && known.candidates == f.candidates;
}

// Who is wrong could not be told, for want of a third rank. A later operation of which more is known tells it.
bool decides(const Incident& known, const Finding& f) { return known.culprits.empty() && !f.culprits.empty(); }

void decide(IncidentWriter& writer, const Watch& w, const Incident& known, Finding f, Nanoseconds now_ns) {
  f.op = known.op, f.signature = known.signature;  // where it began
  writer.update(known.handle, w.comm, f, now_ns);
}

// The hang that was suspected a moment ago has found its cause, or a new one.
void report(Watch& w, IncidentWriter& writer, const Finding& f, Nanoseconds now_ns) {
  if (w.hang.incident != 0) {
    writer.update(w.hang.incident, w.comm, f, now_ns);
    w.mismatch.incident = std::exchange(w.hang.incident, 0);
  } else {
    w.mismatch.incident = writer.open(w.comm, f, w.comm.moved_ns(), now_ns);
  }
  writer.book().confirm(w.mismatch.incident, now_ns);
}

void look_at_bytes(Watch& w, IncidentWriter& writer, Nanoseconds now_ns) {
  const std::optional<Finding> f = w.mismatch.bytes.next(w.comm, now_ns);
  if (!f) return;
  w.mismatch.seen_ns = now_ns;
  Incident* known = writer.book().find(w.mismatch.incident);
  if (known && is_open(known->state)) {
    // Operations that differ leave calls at different places too.
    if (!w.mismatch.by_bytes && is_follow_up(*known, *f)) return;
    if (w.mismatch.by_bytes) {
      if (!says_the_same(*known, *f)) writer.update(known->handle, w.comm, *f, now_ns);
      return;
    }
  }
  report(w, writer, *f, now_ns);
  w.mismatch.by_bytes = true;
}

}  // namespace

void look_for_mismatch(Watch& w, IncidentWriter& writer, const Settings& settings, Nanoseconds now_ns) {
  while (const std::optional<Finding> f = next_mismatch(w.comm, settings, now_ns)) {
    w.mismatch.seen_ns = now_ns;
    Incident* known = writer.book().find(w.mismatch.incident);
    if (known && is_open(known->state) && is_follow_up(*known, *f)) {
      if (decides(*known, *f)) decide(writer, w, *known, *f, now_ns);
      continue;
    }
    report(w, writer, *f, now_ns);
    w.mismatch.by_bytes = false;
  }
  look_at_bytes(w, writer, now_ns);
  if (w.mismatch.incident != 0 && !w.hang.stuck && now_ns - w.mismatch.seen_ns > seconds_to_ns(settings.mismatch_clean_s)) {
    writer.book().resolve(w.mismatch.incident, now_ns);
    w.mismatch.incident = 0;
  }
}

}  // namespace ccld::decision
