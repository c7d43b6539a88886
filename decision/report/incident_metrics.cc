#include "decision/report/incident_metrics.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/report/headline.h"

namespace ccld::decision::report {
namespace {

constexpr FaultClass fault_classes[] = {FaultClass::h1_not_entered,        FaultClass::h2_inconsistent,
                                        FaultClass::h3_hardware,           FaultClass::s1_computation_slow,
                                        FaultClass::s2_communication_slow, FaultClass::s3_mixed_slow};
constexpr VerdictState open_states[] = {VerdictState::suspected, VerdictState::confirmed};

// Of series that last as long as the incident: nothing that changes with what is found out.
MetricLabels labels_of(const Incident& i) { return {{"incident", absl::StrCat(i.id)}, {"training_job", i.job}}; }

std::string optional_number(int64_t value) { return value < 0 ? std::string() : absl::StrCat(value); }

// The channel is a label of its own: an alert is about all channels.
std::string title_of(const Incident& i, const Culprit* c) {
  if (!c) return headline(i);
  Culprit whole = *c;
  whole.channel = -1;
  return headline(whole, i);
}

MetricLabels info_labels(const Incident& i, const Culprit* c) {
  MetricLabels labels = labels_of(i);
  labels.insert(labels.end(), {{"class", name(i.fault)},
                               {"title", title_of(i, c)},
                               {"state", name(i.state)},
                               {"communicator", absl::StrFormat("%016x", i.comm.value)},
                               {"comm_name", i.comm_name}});
  if (!c) return labels;
  labels.insert(labels.end(), {{"rank", optional_number(c->rank.value)},
                               {"job_rank", c->job_rank ? absl::StrCat(c->job_rank->value) : std::string()},
                               {"host", c->host},
                               {"pid", c->pid == 0 ? std::string() : absl::StrCat(c->pid)},
                               {"gpu", optional_number(c->cuda_device)},
                               {"bus_id", c->gpu_bus_id},
                               {"component", name(c->component)},
                               {"condition", c->condition == Condition::unknown ? "" : name(c->condition)},
                               {"channel", optional_number(c->channel)},
                               {"peer", c->peer ? absl::StrCat(c->peer->value) : std::string()},
                               {"peer_host", c->peer_host},
                               {"net", c->net_name}});
  return labels;
}

template <class Value>
void add_each(const std::vector<const Incident*>& shown, MetricFamilies& out, const char* metric, const char* help,
              Value value) {
  out.begin(metric, MetricKind::gauge, help);
  for (const Incident* i : shown) out.add(value(*i), labels_of(*i));
}

}  // namespace

void add_incident_metrics(const Snapshot& s, MetricFamilies& out) {
  std::vector<const Incident*> open;
  std::map<std::pair<FaultClass, VerdictState>, uint64_t> counts;
  uint64_t newest_id = s.history.last_id_before;
  for (const Incident& i : s.incidents) {
    newest_id = std::max(newest_id, i.id);
    if (!is_open(i.state)) continue;
    open.push_back(&i);
    ++counts[{i.fault, i.state}];
  }
  // A service that goes on with the verdict file of an earlier run goes on with its numbers.
  out.single("ccld_incidents_opened_total", MetricKind::counter, "Number of the newest incident; with a history they go on over restarts.",
             static_cast<double>(newest_id));
  out.begin("ccld_incidents_open", MetricKind::gauge, "Incidents that are open, by class and state.");
  for (const FaultClass fault : fault_classes)
    for (const VerdictState state : open_states)
      out.add(static_cast<double>(counts[{fault, state}]), {{"class", name(fault)}, {"state", name(state)}});

  std::sort(open.begin(), open.end(), [](const Incident* a, const Incident* b) {
    const auto key = [](const Incident& i) { return std::tuple(i.state != VerdictState::confirmed, i.id); };
    return key(*a) < key(*b);
  });
  std::vector<const Incident*> shown(open.begin(),
                                     open.begin() + static_cast<ptrdiff_t>(std::min(open.size(), incidents_shown_max)));
  size_t culprits = 0, culprits_shown = 0;
  for (const Incident* i : open) culprits += i->culprits.size();
  for (const Incident* i : shown) culprits_shown += std::min(i->culprits.size(), culprits_shown_max);
  out.single("ccld_incidents_open_not_shown", MetricKind::gauge, "Open incidents that have no series of their own.",
             static_cast<double>(open.size() - shown.size()));
  out.single("ccld_incident_culprits_not_shown", MetricKind::gauge,
             "Culprits of open incidents that have no series of their own.",
             static_cast<double>(culprits - culprits_shown));

  out.begin("ccld_incident_info", MetricKind::gauge,
            "1 for each culprit of an open incident; without rank, host and component while nobody is singled out.");
  for (const Incident* i : shown) {
    if (i->culprits.empty()) out.add(1, info_labels(*i, nullptr));
    for (size_t c = 0; c < std::min(i->culprits.size(), culprits_shown_max); ++c)
      out.add(1, info_labels(*i, &i->culprits[c]));
  }
  add_each(shown, out, "ccld_incident_onset_timestamp_seconds", "When all was well for the last time, as Unix time.",
           [&s](const Incident& i) { return seconds(i.onset_ns + s.clock.realtime_minus_clock_ns); });
  add_each(shown, out, "ccld_incident_confidence_ratio", "Confidence of the verdict, 0 to 1.",
           [](const Incident& i) { return i.confidence; });
  add_each(shown, out, "ccld_incident_victims", "Ranks that suffer.",
           [](const Incident& i) { return static_cast<double>(i.victim_count); });
  add_each(shown, out, "ccld_incident_acknowledged", "1 once somebody has acknowledged the incident (ccld ack), else 0.",
           [&s](const Incident& i) { return s.acknowledgements.contains(i.id) ? 1 : 0; });
  add_each(shown, out, "ccld_incident_silenced", "1 while a silence fits the incident (ccld silence), else 0.",
           [&s](const Incident& i) { return is_silenced(i, s) ? 1 : 0; });
  std::vector<const Incident*> with_gain;
  std::copy_if(shown.begin(), shown.end(), std::back_inserter(with_gain),
               [](const Incident* i) { return i->gain.known(); });
  add_each(with_gain, out, "ccld_incident_gain_ratio",
           "By how much the job's time would be less without the cause, 0 to 1.",
           [](const Incident& i) { return i.gain.share(); });
}

}  // namespace ccld::decision::report
