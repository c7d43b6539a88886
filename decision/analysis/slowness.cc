#include "decision/analysis/slowness.h"

#include "decision/locate/slow.h"

namespace ccld::decision {

void look_for_slow(Watch& w, IncidentWriter& writer, Nanoseconds now_ns) {
  for (const RoundEntry& e : w.comm.history().take_complete()) w.slow.add(w.comm, e, now_ns);
  for (const RoundEntry& e : w.comm.replays().take_complete()) w.slow.add(w.comm, e, now_ns);
  const SlowReport report = w.slow.advance(w.comm, w.slow_incident != 0, now_ns);
  switch (report.event) {
    case SlowEvent::none: return;
    case SlowEvent::resolve:
      writer.book().resolve(w.slow_incident, now_ns);
      w.slow_incident = 0;
      return;
    case SlowEvent::suspect:
    case SlowEvent::confirm: break;
  }
  Incident* known = writer.book().find(w.slow_incident);
  if (known && !known->culprits.empty() && !same_cause(known->culprits, report.finding.culprits)) {
    if (report.finding.culprits.empty()) return;
    writer.book().resolve(w.slow_incident, now_ns);
    w.slow_incident = 0;
  }
  if (w.slow_incident == 0)
    w.slow_incident = writer.open(w.comm, report.finding, report.onset_ns, now_ns);
  else
    writer.update(w.slow_incident, w.comm, report.finding, now_ns);
  if (report.event == SlowEvent::confirm) writer.book().confirm(w.slow_incident, now_ns);
}

}  // namespace ccld::decision
