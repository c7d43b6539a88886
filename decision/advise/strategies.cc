#include "decision/advise/strategies.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "decision/advise/compute_model.h"

namespace ccld::decision::advise {
namespace {

// Less than this part of an iteration is not worth acting for: a promise is off by more than that (model_error).
constexpr double gain_min = 0.01;

bool any(const Facts& f, Fault fault) {
  return std::any_of(f.suspects.begin(), f.suspects.end(), [fault](const Suspect& s) { return s.fault == fault; });
}
bool all(const Facts& f, const std::function<bool(const Suspect&)>& is) {
  return !f.suspects.empty() && std::all_of(f.suspects.begin(), f.suspects.end(), is);
}

// Widened by what the model itself may be off; never better than without the cause by more than that, never worse than
// now.
Range widened(const Facts& f, const Range& r) {
  const double low = std::min(r.low, r.expected) * (1 - model_error),
               high = std::max(r.high, r.expected) * (1 + model_error);
  return {low, r.expected, std::max(r.expected, std::min(high, f.now))};
}

// Why nothing that changes who computes what helps against such an incident.
std::string why_never(const Facts& f) {
  if (!f.goes_on) return "it hangs";
  if (f.kind == Facts::Kind::mismatch) return "wrong data is not slow";
  if (f.suspects.empty()) return "nobody is singled out";
  return "";
}

std::string layout_unknown(const Known& known, const Facts& f) {
  if (!known.layout.given()) return "layout not known (--layout)";
  for (const Suspect& s : f.suspects)
    if (s.process.has_value() && *s.process >= known.layout.processes())
      return "layout does not fit: the job has more processes than tensor x pipeline x data";
  return "";
}

std::string places_unknown(const Facts& f, Fault fault) {
  for (const Suspect& s : f.suspects)
    if (s.fault == fault && (!s.process.has_value() || (fault == Fault::link && !s.peer_process.has_value())))
      return "no communicator of all GPUs numbers the processes at fault";
  return "";
}

const char* const micro_batches_unknown = "number of micro-batches not known (advise_micro_batches)";

// ---- wait

Strategy waiting(const Facts& f) {
  Strategy s;
  s.action = Action::wait;
  if (!f.goes_on) {
    s.why_not = "no iteration ends while it hangs";
  } else if (f.kind == Facts::Kind::mismatch) {
    s.why_not = "it mends no data";
  } else {
    s.due_after = 0;
    if (f.now > 0) s.time = Range{f.now, f.now, f.now};
  }
  return s;
}

// ---- micro-batches

std::vector<Share> shares_of(const std::vector<uint64_t>& counts) {
  std::map<uint64_t, std::vector<uint64_t>, std::greater<>> by_count;
  for (size_t r = 0; r < counts.size(); ++r) by_count[counts[r]].push_back(r);
  std::vector<Share> shares;
  for (auto& [count, replicas] : by_count) shares.push_back({count, std::move(replicas)});
  return shares;
}

// How the time depends on what part of the iteration its micro-batches take, if nobody knows: as a maximum of straight
// lines it has its highest value at an end, and one valley.
template <class Time>
Range over_rest(double most, const Time& time) {
  double low = 0, high = most;
  constexpr int steps = 60;
  for (int i = 0; i < steps; ++i) {
    const double third = (high - low) / 3;
    if (time(low + third) > time(high - third))
      low += third;
    else
      high -= third;
  }
  return {time((low + high) / 2), time(0), std::max(time(0), time(most))};
}

std::string why_no_micro_batches(const Facts& f, const Known& known) {
  if (std::string why = why_never(f); !why.empty()) return why;
  if (!any(f, Fault::compute)) return "no slow GPU or host is the cause";
  if (!f.of_iteration) return "time of an iteration not known";
  if (std::string why = layout_unknown(known, f); !why.empty()) return why;
  if (known.layout.data < 2) return "there is one replica only";
  if (known.micro_batches == 0) return micro_batches_unknown;
  if (known.micro_batches < known.layout.data) return "there are fewer micro-batches than replicas";
  return places_unknown(f, Fault::compute);
}

Strategy other_micro_batches(const Facts& f, const Known& known) {
  Strategy s;
  s.action = Action::micro_batches;
  s.cost = known.costs.micro_batches;
  s.why_not = why_no_micro_batches(f, known);
  if (!s.possible()) return s;
  const Grid grid = grid_of(known.layout);
  // Where they do not divide evenly, the slow replica has the larger number.
  const double each = std::ceil(static_cast<double>(known.micro_batches) / static_cast<double>(grid.replicas));
  s.equal_share = static_cast<uint64_t>(each);
  const Troubles troubles = troubles_of(f, known.layout, each);
  const double rest = known.micro_batch_part > 0 ? (1 - known.micro_batch_part) * f.without : 0;
  const auto replicas = [&](double fixed) { return replicas_of(grid, troubles.cells, each, f.without, fixed); };
  const std::vector<uint64_t> counts = assign_micro_batches(replicas(rest), known.micro_batches);
  s.shares = shares_of(counts);
  const double of_others = loss_of(f) - compute_loss(f);  // causes that stay
  const auto time = [&](double fixed) { return longest(replicas(fixed), counts) + of_others; };
  constexpr double most = 0.999;  // micro-batches take something
  const Range range =
      known.micro_batch_part > 0 ? Range{time(rest), time(rest), time(rest)} : over_rest(f.without * most, time);
  if (f.now - range.expected < gain_min * f.now) {
    s.why_not = "no other numbers of micro-batches help";
    s.shares.clear();
    return s;
  }
  s.time = widened(f, range);
  if (std::any_of(f.suspects.begin(), f.suspects.end(), [](const Suspect& o) { return o.perhaps_program; }))
    s.only_if = "the time is lost with every micro-batch";
  return s;
}

// ---- placement

std::string why_no_placement(const Facts& f, const Known& known) {
  if (std::string why = why_never(f); !why.empty()) return why;
  if (!any(f, Fault::compute) && !any(f, Fault::link)) return "no slow GPU, host or link is the cause";
  if (f.now <= 0) return "what it costs is not known";
  if (std::string why = layout_unknown(known, f); !why.empty()) return why;
  if (!known.layout.order.starts_with("tp")) return "processes of a tensor group are not neighbours in this layout";
  if (known.layout.pipeline < 2 && any(f, Fault::link))
    return "without pipeline parallelism moving ranks changes no traffic";
  if (std::string why = places_unknown(f, Fault::link); any(f, Fault::link) && !why.empty()) return why;
  return any(f, Fault::link) ? "" : places_unknown(f, Fault::compute);
}

// The process of the layout at a place: the first of its tensor group.
uint64_t process_at(const Known& known, const Grid& grid, uint64_t place) {
  const Layout& l = known.layout;
  const uint64_t stage = place % grid.stages, replica = place / grid.stages;
  const bool data_first = l.order.find("dp") < l.order.find("pp");  // tensor groups come first of all
  return l.tensor * (data_first ? replica + stage * l.data : stage + replica * l.pipeline);
}

Strategy other_placement(const Facts& f, const Known& known) {
  Strategy s;
  s.action = Action::placement;
  s.cost = known.costs.placement;
  s.why_not = why_no_placement(f, known);
  if (!s.possible()) return s;
  const Grid grid = grid_of(known.layout);
  const bool counted = known.micro_batches >= known.layout.data;
  // Without their number only links are moved: what slow GPUs in several stages cost depends on it.
  const double each =
      counted ? std::ceil(static_cast<double>(known.micro_batches) / static_cast<double>(grid.replicas)) : 1;
  Troubles troubles = troubles_of(f, known.layout, each);
  if (!counted) troubles.cells.clear();
  if (troubles.cells.empty() && !troubles.links.empty() &&
      std::all_of(troubles.links.begin(), troubles.links.end(), [&](const SlowLink& l) {
        return l.place != l.other && traffic_between(grid, l.place, l.other) == Traffic::none;
      })) {
    s.why_not = "by the layout the two ends of the link send each other nothing: another communicator uses it";
    return s;
  }
  const Placement p = place_troubles(grid, troubles, each);
  if (p.exchanges.empty() || p.loss_before - p.loss_after < gain_min * f.now) {
    s.why_not =
        any(f, Fault::compute) && !counted && !any(f, Fault::link) ? micro_batches_unknown : "no other placement helps";
    return s;
  }
  for (const auto& [a, b] : p.exchanges)
    s.exchanges.emplace_back(process_at(known, grid, a), process_at(known, grid, b));
  const double time = f.now - (p.loss_before - p.loss_after);
  s.time = widened(f, {time, time, time});
  if (any(f, Fault::link)) s.only_if = "the path between the two hosts is slow, not all that one of them sends";
  return s;
}

// ---- checkpoint and restart

Strategy restart(const Facts& f, const Known& known) {
  Strategy s;
  s.action = Action::restart;
  s.cost = known.costs.restart + (f.kind == Facts::Kind::slow ? known.costs.checkpoint : known.costs.lost_work);
  s.cost_is_least = f.kind != Facts::Kind::slow && known.costs.lost_work == 0;
  if (f.suspects.empty()) return s.why_not = "nobody is singled out: not known which hosts to leave out", s;
  if (all(f, [](const Suspect& o) { return o.fault == Fault::program; })) {
    s.only_if = "the program is mended first: the same calls fail on other hosts, too";
  } else if (all(f, [](const Suspect& o) { return o.fault == Fault::process || o.fault == Fault::program; })) {
    // Nothing says that a host is bad.
  } else {
    std::set<std::string> seen;
    bool links_only = true;
    const auto leave_out = [&](const std::string& host) {
      if (!host.empty() && seen.insert(host).second) s.hosts.push_back(host);
    };
    for (const Suspect& o : f.suspects) {
      if (o.fault == Fault::process || o.fault == Fault::program) continue;
      leave_out(o.host);
      if (o.fault == Fault::link)
        leave_out(o.peer_host);
      else
        links_only = false;
    }
    s.either_host = links_only && s.hosts.size() == 2;
    if (s.hosts.empty()) return s.why_not = "hosts of who is at fault not known", s;
    if (std::any_of(f.suspects.begin(), f.suspects.end(), [](const Suspect& o) { return o.perhaps_program; }))
      s.only_if = "the host is why its process is late, not the program";
  }
  if (f.kind == Facts::Kind::slow) {
    if (f.now <= 0) return s.why_not = "what it costs is not known", s;
    // Of two estimates, by the model and by the past, the interval has both.
    const double past = f.usual > 0 ? f.usual : f.without;
    s.time = widened(f, {std::min(past, f.without), f.without, std::max(past, f.without)});
  }
  return s;
}

void set_due(const Facts& f, Advice& advice) {
  for (Strategy& s : advice.strategies) {
    // Nobody acts on a suspicion. What hangs, or spoils data, does not end by itself: act as soon as it is sure.
    if (s.action == Action::wait || !s.possible() || !f.confirmed) continue;
    if (f.kind != Facts::Kind::slow)
      s.due_after = f.confirmed_after;
    else if (advice.loss_share > 0)
      s.due_after = std::max(s.cost / advice.loss_share, f.confirmed_after);
  }
}

}  // namespace

const char* name(Action a) {
  constexpr const char* names[actions] = {"wait", "micro_batches", "placement", "restart"};
  return names[static_cast<size_t>(a)];
}

Advice advise(const Facts& f, const Known& known) {
  Advice advice;
  advice.loss_known = !f.goes_on || f.now > 0;
  advice.loss_share = !f.goes_on ? 1 : f.now > 0 ? loss_of(f) / f.now : 0;
  advice.strategies = {waiting(f), other_micro_batches(f, known), other_placement(f, known), restart(f, known)};
  std::stable_sort(advice.strategies.begin() + 1, advice.strategies.end(),
                   [](const Strategy& a, const Strategy& b) { return a.cost < b.cost; });
  set_due(f, advice);
  return advice;
}

}  // namespace ccld::decision::advise
