#include "decision/whatif/connection_steps.h"

#include <algorithm>
#include <utility>

#include "decision/measure/middle.h"
#include "decision/whatif/connections.h"

namespace ccld::decision::whatif {
namespace {

// Where usual proxies poll for less of the time than this, what is beyond them counts no more than here: chance would
// make some stand out.
constexpr double polled_part_least = 0.5;

std::map<int32_t, double> find_away_parts(const Connections& connections) {
  std::map<int32_t, double> parts;
  for (const auto& [ends, c] : connections) {
    if (!c.network) continue;
    parts[ends.first] = std::max(parts[ends.first], c.times.sender_away_part());
    parts[ends.second] = std::max(parts[ends.second], c.times.receiver_away_part());
  }
  std::vector<double> all;
  for (const auto& [rank, part] : parts) all.push_back(part);
  // Of two, one may be the slow one. On a busy machine no proxy polls all the time: what counts is the part of the time
  // in which a usual one does.
  const double usual_part = all.empty() ? 0 : lower_middle(std::move(all));
  for (auto& [rank, part] : parts) part = (part - usual_part) / std::max(polled_part_least, 1 - usual_part);
  return parts;
}

// Of the faster half in each part. `of`: what is known of a connection, by part.
template <class Of>
UsualStep usual_of(const Connections& connections, bool network, Of of, size_t& peers) {
  UsualStep usual;
  for (size_t part = 0; part < passage_parts; ++part) {
    std::vector<double> all_ns;
    for (const auto& [ends, c] : connections)
      if (c.network == network)
        if (const std::optional<double> ns = of(ends, c, part)) all_ns.push_back(*ns);
    if (all_ns.empty()) return usual;
    std::sort(all_ns.begin(), all_ns.end());
    peers = (all_ns.size() + 1) / 2;
    all_ns.resize(peers);
    usual.ns[part] = middle(all_ns);
    if (part != to_be_taken) usual.given_after_ns += usual.ns[part];
  }
  return usual;
}

// By how much longer a step takes, in the parts in which it does. `ns`: of a part.
template <class Of>
double longer_ns(Of ns, const UsualStep& usual) {
  double all_ns = 0;
  for (size_t part = 0; part < to_be_taken; ++part) all_ns += std::max(0.0, ns(part) - usual.ns[part]);
  return all_ns;
}

}  // namespace

// No more steps than there are slots are under way at a time. So it takes as long as a step or, if there are more steps
// than slots, as so many times longer.
double ConnectionSteps::lost_part(double longer_ns) const {
  return std::min(1.0, times.waiting(longer_ns) / std::min(times.steps_per_operation(), slots));
}

// All that waits may wait one after the other.
double ConnectionSteps::lost_most_part(double longer_ns) const { return std::min(1.0, times.waiting(longer_ns)); }

Connections add_up(const std::vector<OperationSteps>& operations, const Settings& settings) {
  Connections out;
  for (const OperationSteps& operation : operations)
    for (const auto& [ends, passage] : operation.passages) {
      out[ends].network |= passage.network;
      out[ends].times.add(passage, operation.transfer_ns);
    }
  std::erase_if(out, [&](const auto& entry) { return entry.second.times.operations() < settings.slow_rounds_min; });
  return out;
}

double beyond_ns(const StepTimes& now, const UsualStep& usual) {
  return longer_ns([&](size_t part) { return now.mean_ns(part); }, usual);
}

StepReference::StepReference(CommUid comm, size_t kind, const Connections& connections, const StepPast& past,
                             const Settings& settings)
    : comm_(comm), kind_(kind), past_(past), settings_(settings), away_parts_(find_away_parts(connections)) {
  for (bool network : {false, true}) {
    const auto now = [](const Ends&, const ConnectionSteps& c, size_t part) {
      return std::optional(c.times.most_ns(part));
    };
    const auto then = [&](const Ends& ends, const ConnectionSteps&, size_t part) -> std::optional<double> {
      const auto usual = before(ends);
      return usual ? std::optional(usual->ns[part]) : std::nullopt;
    };
    size_t known = 0;
    peers_[network] = usual_of(connections, network, now, peer_count_[network]);
    peers_before_[network] = usual_of(connections, network, then, known);
  }
}

std::optional<UsualStep> StepReference::before(const Ends& ends) const {
  return past_.usual({comm_, kind_, ends.first, ends.second});
}

std::optional<StepReference::Exceeded> StepReference::exceeded(const Ends& ends, const ConnectionSteps& c) const {
  const auto exceeds = [&](const UsualStep& usual, double times) {
    const double ns = beyond_ns(c.times, usual);
    return ns > 0 && ns >= (times - 1) * usual.given_after_ns &&
           ns >= settings_.whatif_deviations_min * std::max(c.times.given_after_error_ns(), usual.deviation_ns);
  };
  const double times = times_min(peer_count_[c.network], settings_);
  const auto past = before(ends);
  const bool by_past = past && exceeds(*past, settings_.whatif_transfer_times_min);
  // What is as before, and was not slower than its peers, is not slow: they are quicker than usual.
  const UsualStep& peers_before = peers_before_[c.network];
  const bool may_be_slow =
      !past || by_past ||
      longer_ns([&](size_t part) { return past->ns[part]; }, peers_before) >= (times - 1) * peers_before.given_after_ns;
  if (may_be_slow && exceeds(peers_[c.network], times)) return Exceeded{peers_[c.network]};
  if (by_past) return Exceeded{*past, true};
  return std::nullopt;
}

StepReference::Untaken StepReference::untaken(const Ends& ends, const ConnectionSteps& c) const {
  const auto past = before(ends);
  const UsualStep& usual = past ? *past : peers_[c.network];
  Untaken u;
  u.usual_ns = usual.ns[to_be_taken], u.by_past = past.has_value();
  const double now_ns = c.times.mean_ns(to_be_taken), longer_ns = now_ns - u.usual_ns,
               times = past ? settings_.whatif_transfer_times_min : times_min(peer_count_[c.network], settings_);
  if (now_ns > 0 && now_ns >= times * u.usual_ns &&
      longer_ns >= settings_.whatif_deviations_min * std::max(c.times.taken_error_ns(), usual.taken_deviation_ns))
    u.longer_ns = longer_ns;
  return u;
}

}  // namespace ccld::decision::whatif
