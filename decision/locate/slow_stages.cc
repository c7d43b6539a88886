#include "decision/locate/slow_stages.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "decision/locate/links.h"

namespace ccld::decision {
namespace {

// A stage explains a loss if, on average, at least half a step sat in it during the lost time. Steps that go up a tree
// one at a time, and down again, are on any one of its links for half of the time at most.
constexpr double waiting_steps_min = 0.5, waiting_steps_min_tree = 0.3;
// A network device that is slow takes what it is given; in front of a proxy that is slow the queue is so much longer.
constexpr double proxy_factor = 1.1;
// Buffers of the network take at least so many steps, as a part of those that wait in front of it, before a slow wire
// makes any wait there. (Less on all wires of a circle together is what healthy ones add up to.)
constexpr double proven_part_min = 0.5;
// Behind the slow stage of an edge less waits than this part of the longest queue.
constexpr double behind_part_max = 0.25;
// The network explains the queues in front of GPUs if at least this part of the longest of them waits in it.
constexpr double network_part_min = 0.5;
// A stage is sure if late starts leave at least this part of its queue unexplained.
constexpr double sure_part_min = 0.5;
// Of several links, those in which at least this part of the longest queue waits: less is a consequence.
constexpr double queue_part_min = 0.45;
// Of several wires of which none is sure, those that are nearly as slow as the slowest: by how much each of them only
// seems to be slow is not known.
constexpr double unsure_queue_part_min = 0.8;
// Around a ring in which all GPUs wait alike no queue is so many times the next.
constexpr double step_down_min = 2;
// A step down is the end of queues if it is so many times any other.
constexpr double step_down_clear = 1.5;
// A step that finds the window closed waits until acknowledgements have passed the slow wire the other way: on average
// half of what a step waits there.
constexpr double acknowledged_part_max = 0.5;
// What waits in front of a rank because it cannot pass on is less than what waits behind it.
constexpr double blocked_part_max = 0.8;

double steps_min(const SlowWindow& w) {
  return w.signature.algorithm == abi::Algorithm::tree ? waiting_steps_min_tree : waiting_steps_min;
}

std::optional<SlowStage> last_grown(const Edge& edge, const EdgeLoss& loss, const SlowWindow& w, bool network_only) {
  const double least_steps = steps_min(w);
  const auto steps_in = [&](Stage s) { return w.standing(loss, s); };
  SlowStage out;
  out.edge = edge;
  const auto at = [&](Stage s) {
    out.stage = s;
    out.waiting_steps = steps_in(s);
    if (s == Stage::wire && steps_in(s) - loss.unsure_wire_ns / w.slow_ns(loss) < sure_part_min * steps_in(s))
      out.sure = false;
    out.step_ns = loss.steps > 0 ? loss.waited_ns[static_cast<size_t>(s)] / loss.steps : 0;
    return out;
  };
  double most = 0;
  for (Stage s : {Stage::sender_proxy, Stage::sender_nic, Stage::wire, Stage::receiver_proxy}) {
    out.network_steps += steps_in(s);
    most = std::max(most, steps_in(s));
  }
  for (Stage s : {Stage::gpu_to_gpu, Stage::receiver_gpu}) {
    // Its slots are full, and fuller than the network before it, if a GPU does not take what it is given.
    if (steps_in(s) < std::max(least_steps, out.network_steps)) continue;
    if (!network_only) return at(s);
    out.sure = false;  // a late rank keeps the GPU from taking more, and then the network too
  }
  for (Stage s : {Stage::receiver_proxy, Stage::wire, Stage::sender_nic, Stage::sender_proxy}) {
    if (steps_in(s) < std::max(least_steps, behind_part_max * most)) continue;
    // It is the proxy that hands over, says "sent" and so on, in bursts if it seldom runs: but most waits for it to
    // hand on. What clocks prove to have been on the wire had left the proxy.
    const bool proven = s == Stage::wire && out.sure && loss.sent_ns >= loss.waited_ns[static_cast<size_t>(s)] &&
                        steps_in(s) >= proven_part_min * steps_in(Stage::sender_proxy);
    if ((s == Stage::sender_nic || s == Stage::wire) && !proven &&
        steps_in(Stage::sender_proxy) >= proxy_factor * steps_in(s))
      return at(Stage::sender_proxy);
    return at(s);
  }
  return std::nullopt;
}

// A GPU serves all its channels: the queues that wait for it count together, by their mean. Where those of one channel
// step down may be chance. The longest first.
std::vector<SlowStage> together(const std::vector<SlowStage>& of_channels) {
  std::vector<SlowStage> out;
  for (SlowStage s : of_channels) {
    if (!in_receiving_gpu(s.stage)) {
      out.push_back(s);
      continue;
    }
    s.waiting_steps /= s.channels_known;
    s.network_steps /= s.channels_known;
    const auto known = std::find_if(out.begin(), out.end(), [&](const SlowStage& o) {
      return o.edge.sender == s.edge.sender && o.edge.receiver == s.edge.receiver && in_receiving_gpu(o.stage);
    });
    if (known == out.end()) {
      out.push_back(s);
      continue;
    }
    known->channels |= s.channels;
    known->waiting_steps += s.waiting_steps;
    known->network_steps += s.network_steps;
    known->sure |= s.sure;
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const SlowStage& a, const SlowStage& b) { return a.waiting_steps > b.waiting_steps; });
  return out;
}

// What a GPU in front of which steps wait waits for itself: it cannot pass on, or what it needs from another rank is
// late.
const SlowStage* awaited_by(const std::vector<SlowStage>& grown, const SlowStage& at) {
  const auto next = std::find_if(grown.begin(), grown.end(), [&](const SlowStage& s) {
    if ((s.channels & at.channels) == 0) return false;
    if (s.edge.receiver == at.edge.receiver) return s.edge.sender != at.edge.sender && !in_receiving_gpu(s.stage);
    return s.edge.sender == at.edge.receiver && s.edge.receiver != at.edge.sender;
  });
  return next == grown.end() ? nullptr : &*next;
}

// From a GPU that waits to what it waits for. Behind a GPU that cannot pass on the queue is as full as in front of it,
// so of queues in front of GPUs only, the cause is where they end: at the greatest step down. (A little is left behind
// it, and that goes around a ring.) None: the queues are alike all around, or end in two places.
std::optional<SlowStage> follow(const std::vector<SlowStage>& grown, SlowStage at) {
  std::set<int32_t> visited;
  std::optional<SlowStage> end;
  double most = 0, second = 0;
  while (in_receiving_gpu(at.stage)) {
    if (!visited.insert(at.edge.receiver).second) {
      if (most < step_down_min) return std::nullopt;
      break;
    }
    const SlowStage* next = awaited_by(grown, at);
    const double down = at.waiting_steps / (next ? next->waiting_steps : waiting_steps_min);
    second = std::max(second, std::min(most, down));
    if (down > most) most = down, end = at;
    if (!next) break;
    at = *next;
  }
  if (!in_receiving_gpu(at.stage)) return at;
  return most >= step_down_clear * second ? end : std::nullopt;
}

}  // namespace

std::vector<SlowStage> grown_stages(const SlowWindow& w, bool network_only) {
  std::vector<SlowStage> grown;
  std::map<std::pair<int32_t, int32_t>, int> channels;
  for (const auto& [edge, loss] : w.edges) ++channels[{edge.sender, edge.receiver}];
  for (const auto& [edge, loss] : w.edges)
    if (std::optional<SlowStage> s = last_grown(edge, loss, w, network_only)) {
      s->channels = 1ULL << (edge.channel & 63);
      s->channels_known = channels[{edge.sender, edge.receiver}];
      grown.push_back(*s);
    }
  std::sort(grown.begin(), grown.end(), [](const SlowStage& a, const SlowStage& b) {
    return a.waiting_steps != b.waiting_steps ? a.waiting_steps > b.waiting_steps : a.edge < b.edge;
  });
  return grown;
}

std::vector<SlowStage> slow_stages(const Communicator& comm, const std::vector<SlowStage>& grown_channels) {
  const std::vector<SlowStage> grown = together(grown_channels);
  std::vector<SlowStage> network, found;
  double network_most = 0, sure_most = 0, gpu_most = 0;
  for (const SlowStage& s : grown) {
    if (in_receiving_gpu(s.stage)) {
      gpu_most = std::max(gpu_most, s.waiting_steps);
      continue;
    }
    network_most = std::max(network_most, s.network_steps);
    if (s.sure) sure_most = std::max(sure_most, s.waiting_steps);
    network.push_back(s);
  }
  if (sure_most > 0 && sure_most >= queue_part_min * network[0].waiting_steps)
    std::erase_if(network, [](const SlowStage& s) { return !s.sure; });
  // What waits in front of a GPU that waits itself says nothing: a rank of a tree has several children, and while one
  // of them is late the slots of the others fill up. Where the waits end the queue is the cause's.
  if (!grown.empty() && in_receiving_gpu(grown[0].stage))
    if (const std::optional<SlowStage> end = follow(grown, grown[0]); end && in_receiving_gpu(end->stage))
      gpu_most = end->waiting_steps;
  const bool by_network = !network.empty() && network_most >= network_part_min * gpu_most;
  const std::vector<SlowStage>& from = by_network ? network : grown;
  for (const SlowStage& s : from) {
    if (s.waiting_steps < queue_part_min * from[0].waiting_steps) break;
    if (s.stage == Stage::wire && !s.sure && s.waiting_steps < unsure_queue_part_min * from[0].waiting_steps) continue;
    const std::optional<SlowStage> followed = follow(grown, s);
    if (!followed) continue;
    const SlowStage& end = *followed;
    // A sender that seems to wait for a rank which itself cannot get rid of more may wait for no more than that.
    const auto blocks = [&](const SlowStage& f) {
      return f.edge.sender == end.edge.receiver && in_sender(f.stage) &&
             end.waiting_steps < blocked_part_max * f.waiting_steps;
    };
    if (in_sender(end.stage) && std::any_of(found.begin(), found.end(), blocks)) continue;
    // The acknowledgements of a direction go the way of the other one. (What waits for a proxy was not sent:
    // acknowledgements do not explain it.)
    const auto acknowledges = [&](const SlowStage& f) {
      return f.stage == Stage::wire && end.step_ns <= acknowledged_part_max * f.step_ns &&
             same_node(comm, Rank{f.edge.sender}, Rank{end.edge.receiver}) &&
             same_node(comm, Rank{f.edge.receiver}, Rank{end.edge.sender});
    };
    const bool under_way = end.stage == Stage::sender_nic || end.stage == Stage::wire;
    if (under_way && std::any_of(found.begin(), found.end(), acknowledges)) continue;
    // A queue in front of a GPU is the consequence of what is slow behind it, unless nothing else is.
    if (!found.empty() && (in_receiving_gpu(end.stage) || end.waiting_steps < queue_part_min * found[0].waiting_steps))
      continue;
    if (std::none_of(found.begin(), found.end(), [&](const SlowStage& f) { return f.edge == end.edge; }))
      found.push_back(end);
  }
  return found;
}

}  // namespace ccld::decision
