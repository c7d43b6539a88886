#include "decision/trace/rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/model/names.h"
#include "decision/trace/calls.h"

namespace ccld::decision::trace {
namespace {

// Viewers keep the number 0 of a group for themselves.
constexpr uint32_t marks_group = 1, first_rank_group = 2;
// Calls that wait for their other ends: some seconds of a job with thousands of operations a second.
constexpr size_t open_arrows_max = 1 << 17;
// Calls of one kernel that are listed by name.
constexpr size_t listed_calls_max = 16;

constexpr uint8_t untimed = round_no_kernel | round_lapped | round_not_measured | round_aborted;

bool is_timed(uint8_t flags, uint64_t begin_ns, uint64_t end_ns) {
  return (flags & untimed) == 0 && begin_ns != 0 && end_ns >= begin_ns;
}

const char* direction_text(abi::Direction d) { return d == abi::Direction::send ? "Send to " : "Recv from "; }

// CLOCK_MONOTONIC of the host, `age_ms` before a snapshot.
uint64_t before(uint64_t sample_ns, uint32_t age_ms) {
  const uint64_t age_ns = static_cast<uint64_t>(age_ms) * static_cast<uint64_t>(ns_per_ms);
  return age_ns < sample_ns ? sample_ns - age_ns : 1;
}

std::string us_text(double ns) { return absl::StrFormat("%.0f us", ns / 1e3); }

// What is known of a GPU's clock, by the middle one of its windows.
std::string clock_text(const GpuClock& clock) {
  std::vector<std::pair<double, double>> known;
  for (const Knot& k : clock.knots())
    if (std::isfinite(k.earlier_ns) && std::isfinite(k.later_ns)) known.emplace_back(k.earlier_ns, k.later_ns);
  if (known.empty()) return "clock: by its host only";
  std::sort(known.begin(), known.end(), [](const auto& a, const auto& b) { return a.first + a.second < b.first + b.second; });
  const auto& [earlier_ns, later_ns] = known[known.size() / 2];
  return absl::StrCat("clock: -", us_text(earlier_ns), ", +", us_text(later_ns));
}

}  // namespace

Rows::Rows(const Directory& directory, const GpuClocks& clocks, const std::vector<int>& gpus, Range range, Nanoseconds zero_ns, Writer& writer)
    : directory_(directory), clocks_(clocks), range_(range), zero_ns_(zero_ns), writer_(writer), place_(directory.gpus().size(), nobody) {
  marks_.group = marks_group;
  writer_.group({.id = marks_group, .name = "incidents", .labels = "", .order = 0});
  for (const int index : gpus) {
    const DirectoryGpu& of = directory.gpus()[static_cast<size_t>(index)];
    place_[static_cast<size_t>(index)] = static_cast<int>(gpus_.size());
    Gpu& g = gpus_.emplace_back();
    g.index = index;
    g.group = first_rank_group + static_cast<uint32_t>(of.number);
    writer_.group({.id = g.group,
                   .name = absl::StrCat("rank ", of.number, " on ", of.host),
                   .labels = absl::StrCat(of.host, ", GPU ", of.cuda_device, of.bus_id.empty() ? "" : " at ", of.bus_id, ", pid ", of.pid, ", ",
                                          clock_text(clocks.of(index))),
                   .order = static_cast<int32_t>(gpus_.size())});
  }
}

Rows::~Rows() = default;

Rows::Gpu* Rows::gpu(CommUid comm, Rank rank) {
  const int index = directory_.gpu(comm, rank);
  const int place = index == nobody ? nobody : place_[static_cast<size_t>(index)];
  return place == nobody ? nullptr : &gpus_[static_cast<size_t>(place)];
}

size_t Rows::shown_members(CommUid uid) {
  const auto [it, added] = members_.try_emplace(uid, 0);
  const DirectoryComm* const comm = directory_.comm(uid);
  if (added && comm)
    it->second = static_cast<size_t>(
        std::count_if(comm->gpus.begin(), comm->gpus.end(), [&](const auto& member) { return place_[static_cast<size_t>(member.second)] != nobody; }));
  return it->second;
}

// The rank that its communicator calls so, and its number in the trace if that is another one.
std::string Rows::peer_text(CommUid comm, Rank peer) const {
  const int index = directory_.gpu(comm, peer);
  const int32_t number = index == nobody ? peer.value : directory_.gpus()[static_cast<size_t>(index)].number;
  return number == peer.value ? absl::StrCat(number) : absl::StrCat(number, " (", peer.value, " there)");
}

const Row& Rows::new_row(Gpu& g, Kind kind, CommUid comm, int32_t link, std::string name, bool counter) {
  auto& place = g.rows[{kind, comm, link}];
  if (!place) {
    // By kind; within one in the order in which they were first needed.
    const int32_t order = static_cast<int32_t>(kind) * 1000 + std::min<int32_t>(999, static_cast<int32_t>(g.rows.size()));
    place = std::make_unique<Row>(Row{.id = ++rows_, .group = g.group, .name = std::move(name), .order = order, .counter = counter});
    writer_.row(*place);
  }
  return *place;
}

const Row& Rows::row(Gpu& g, Kind kind, CommUid comm, int32_t link) {
  if (const auto it = g.rows.find({kind, comm, link}); it != g.rows.end()) return *it->second;
  const DirectoryComm* const known = directory_.comm(comm);
  const std::string label = known ? known->label(comm) : "";
  std::string name;
  switch (kind) {
    case Kind::operations: name = "kernels: " + label; break;
    case Kind::send_recv: name = "kernels, Send and Recv: " + label; break;
    case Kind::waits: name = "launched, not begun: " + label; break;
    case Kind::calls: name = "host calls: " + label; break;
    case Kind::gaps: name = "computing (between operations)"; break;
    case Kind::links: {
      const bool sends = link >= 0;
      name = absl::StrCat(sends ? "link to " : "link from ", peer_text(comm, Rank{sends ? link : -1 - link}), ": ", label);
      break;
    }
    case Kind::clock_earlier: return new_row(g, kind, comm, link, "clock: maybe earlier by (us)", true);
    case Kind::clock_later: return new_row(g, kind, comm, link, "clock: maybe later by (us)", true);
    case Kind::marks: name = "incidents"; break;
  }
  return new_row(g, kind, comm, link, std::move(name));
}

bool Rows::take(Nanoseconds begin_ns, Nanoseconds end_ns) {
  if (!range_.touches(begin_ns, end_ns)) return false;
  if (counts_.events >= events_max) return ++counts_.beyond, false;
  return ++counts_.events, true;
}

std::optional<ArrowPoint> Rows::slice(const Row& row, Nanoseconds begin_ns, Nanoseconds end_ns, std::string name, const char* category, Args args,
                                      std::vector<uint64_t> arrows) {
  end_ns = std::max(begin_ns, end_ns);
  if (ended_.size() <= row.id) ended_.resize(row.id + size_t{1});
  Ends& ended = ended_[row.id];
  for (const Nanoseconds ns : ended.ns)
    if (ns < end_ns) begin_ns = std::max(begin_ns, ns);
  ended.ns[ended.oldest++ % ended.ns.size()] = end_ns;
  if (!take(begin_ns, end_ns)) return std::nullopt;
  writer_.slice({&row, shown(begin_ns), shown(end_ns), std::move(name), category, std::move(args), std::move(arrows)});
  return ArrowPoint{&row, shown(begin_ns)};
}

bool Rows::instant(const Row& row, Nanoseconds at_ns, std::string name, const char* category, Args args, std::vector<uint64_t> arrows) {
  if (!take(at_ns, at_ns)) return false;
  writer_.instant({&row, shown(at_ns), std::move(name), category, std::move(args), std::move(arrows)});
  return true;
}

namespace {

void write(Writer& writer, uint64_t id, std::vector<ArrowPoint>& points) {
  std::stable_sort(points.begin(), points.end(), [](const ArrowPoint& a, const ArrowPoint& b) { return a.at_ns < b.at_ns; });
  if (points.size() > 1) writer.arrow(id, points);
}

}  // namespace

void Rows::arrow(uint64_t id, ArrowPoint point, size_t expected) {
  if (expected < 2) return;
  if (arrows_.size() >= open_arrows_max) flush_arrows();
  Arrow& a = arrows_[id];
  a.points.push_back(point);
  if (a.points.size() < expected) return;
  write(writer_, id, a.points);
  arrows_.erase(id);
}

void Rows::flush_arrows() {
  std::vector<uint64_t> ids;  // in an order that is the same in every run
  for (const auto& [id, a] : arrows_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (const uint64_t id : ids) write(writer_, id, arrows_[id].points);
  arrows_.clear();
}

std::vector<uint64_t> Rows::host_part(Gpu& g, CommUid comm, const HostTimes& t, const std::string& name, const Args& args, uint64_t id) {
  std::vector<uint64_t> arrows;
  if (t.enter_ns == 0) return arrows;
  const GpuClock& clock = clocks_.of(g.index);
  const Nanoseconds enter_ns = std::min(clock.of_host(t.enter_ns), t.begin_ns);
  const bool launched = t.launch_ns >= t.enter_ns;
  const Nanoseconds launch_ns = launched ? std::min(clock.of_host(t.launch_ns), t.begin_ns) : enter_ns;
  Args all = args;
  if (launched) {
    all.push_back({"enter_to_launch_ns", static_cast<int64_t>(t.launch_ns - t.enter_ns)});
    if (t.begun) all.push_back({"launch_to_begin_ns", static_cast<int64_t>(t.begin_ns - launch_ns)});
  }
  const Row& calls = row(g, Kind::calls, comm);
  const auto at = slice(calls, enter_ns, launch_ns, name, "host", std::move(all), t.begun ? std::vector<uint64_t>{id} : std::vector<uint64_t>{});
  if (at && t.begun) {
    arrows.push_back(id);
    arrow(id, *at, 2);
  }
  if (!launched || !t.begun) return arrows;
  // Of all that lies in a stream only the first waits for the GPU.
  const auto newest = g.begun_ns.find(comm);
  const Nanoseconds first_ns = newest == g.begun_ns.end() ? launch_ns : std::max(launch_ns, newest->second);
  if (first_ns < t.begin_ns) slice(row(g, Kind::waits, comm), first_ns, t.begin_ns, name, "wait", args);
  return arrows;
}

void Rows::begun(Gpu& g, CommUid comm, Nanoseconds begin_ns, Nanoseconds end_ns) {
  const auto [it, added] = g.begun_ns.try_emplace(comm, begin_ns);
  it->second = std::max(it->second, begin_ns);
  if (range_.touches(begin_ns, end_ns) && counts_.events < events_max) g.kernels.push_back({begin_ns, end_ns});
}

Rows::Gpu* Rows::gpu_for(CommUid comm, Rank rank, size_t operations) {
  Gpu* const g = gpu(comm, rank);
  if (!g) (directory_.gpu(comm, rank) == nobody ? counts_.undescribed : counts_.of_other_ranks) += operations;
  return g;
}

void Rows::take_rounds(const Rounds& m) {
  Gpu* const g = gpu_for(m.comm, m.rank, m.rounds.size());
  if (!g) return;
  const GpuClock& clock = clocks_.of(g->index);
  auto& pending = g->pending[m.comm];
  for (const Round& r : m.rounds) {
    const uint64_t id = launch_arrow(m.comm, m.rank, r.key());
    std::erase_if(pending, [&](const Pending& p) { return p.id == id; });
    if (r.replay == 0) g->newest[m.comm] = std::max(g->newest[m.comm], r.op);
    const std::string function = name(r.signature.function);
    Args args{{"operation", r.op.value}, {"communicator", directory_.comm(m.comm)->label(m.comm)}, {"rank there", static_cast<int64_t>(m.rank.value)}};
    if (r.replay != 0) args.push_back({"replay", static_cast<uint64_t>(r.replay)});
    for (Arg& a : args_of(r.signature)) args.push_back(std::move(a));
    if (const std::string flags = flags_text(r.flags); !flags.empty()) args.push_back({"note", flags});
    const bool timed = r.has_device_times() && is_timed(r.flags, r.begin_device_ns, r.end_device_ns) && !clock.knots().empty();
    HostTimes host;
    if (r.replay == 0) host.enter_ns = r.enter_monotonic_ns, host.launch_ns = r.launch_monotonic_ns;
    if (!timed) {
      ++counts_.untimed;
      host_part(*g, m.comm, host, function + " (no times)", args, id);
      continue;
    }
    host.begun = true;
    host.begin_ns = clock.of_device(r.begin_device_ns);
    const Nanoseconds end_ns = clock.of_device(r.end_device_ns);
    std::vector<uint64_t> arrows = host_part(*g, m.comm, host, function, args, id);
    const bool launch_shown = !arrows.empty();
    const uint64_t call = collective_arrow(m.comm, r.key());
    arrows.push_back(call);
    args.push_back({"duration_ns", static_cast<int64_t>(r.duration_ns())});
    begun(*g, m.comm, host.begin_ns, end_ns);
    const Row& kernels = row(*g, Kind::operations, m.comm);
    const auto at = slice(kernels, host.begin_ns, end_ns, function, "kernel", std::move(args), std::move(arrows));
    if (!at) continue;
    if (launch_shown) arrow(id, *at, 2);
    arrow(call, *at, shown_members(m.comm));
  }
}

void Rows::take_calls(const P2pRounds& m) {
  Gpu* const g = gpu_for(m.comm, m.rank, m.rounds.size());
  if (!g) return;
  const GpuClock& clock = clocks_.of(g->index);
  auto& pending = g->pending[m.comm];
  for (size_t first = 0, end = 0; first < m.rounds.size(); first = end) {
    const P2pRound& r = m.rounds[first];
    while (end < m.rounds.size() && m.rounds[end].begin_device_ns == r.begin_device_ns && m.rounds[end].plan == r.plan && m.rounds[end].replay == r.replay) ++end;
    const bool timed = is_timed(r.flags, r.begin_device_ns, r.end_device_ns) && !clock.knots().empty();
    HostTimes host;
    host.begun = timed;
    if (timed) host.begin_ns = clock.of_device(r.begin_device_ns);
    const Nanoseconds end_ns = timed ? clock.of_device(r.end_device_ns) : 0;
    std::vector<uint64_t> arrows, ends_here, launches;
    std::vector<std::pair<uint64_t, size_t>> sends;
    std::string listed;
    uint64_t bytes = 0;
    for (size_t i = first; i < end; ++i) {
      const P2pRound& c = m.rounds[i];
      const bool is_send = c.direction == abi::Direction::send;
      const uint64_t id = launch_arrow(m.comm, m.rank, c.peer, c.direction, c.pair_seq);
      std::erase_if(pending, [&](const Pending& p) { return p.id == id; });
      const std::string call = direction_text(c.direction) + peer_text(m.comm, c.peer);
      if (i - first < listed_calls_max) absl::StrAppend(&listed, listed.empty() ? "" : "; ", call, ", ", c.bytes, " bytes");
      bytes += c.bytes;
      if (c.replay == 0) host.enter_ns = c.enter_monotonic_ns, host.launch_ns = c.launch_monotonic_ns;
      Args args{{"communicator", directory_.comm(m.comm)->label(m.comm)}, {"number of the pair", c.pair_seq}, {"bytes", c.bytes}};
      if (!timed) {
        ++counts_.untimed;
        host_part(*g, m.comm, host, call + " (no times)", args, id);
        continue;
      }
      for (const uint64_t a : host_part(*g, m.comm, host, call, args, id)) arrows.push_back(a), launches.push_back(a);
      const uint64_t transfer = is_send ? transfer_arrow(m.comm, m.rank, c.peer, c.pair_seq, c.replay) : transfer_arrow(m.comm, c.peer, m.rank, c.pair_seq, c.replay);
      const size_t shown_ends = gpu(m.comm, c.peer) ? 2 : 1;
      if (is_send) arrows.push_back(transfer), sends.emplace_back(transfer, shown_ends);
      if (is_send || shown_ends < 2) continue;
      // The arrow of a Send ends where the Recv does: a Recv may begin before its Send.
      const Nanoseconds received_ns = std::max(host.begin_ns, end_ns - 1);
      const Row& kernels = row(*g, Kind::send_recv, m.comm);
      if (instant(kernels, received_ns, "received from " + peer_text(m.comm, c.peer), "kernel", std::move(args), {transfer}))
        arrow(transfer, {&kernels, shown(received_ns)}, shown_ends);
    }
    if (!timed) continue;
    const size_t calls = end - first;
    Args args{{"communicator", directory_.comm(m.comm)->label(m.comm)}, {"rank there", static_cast<int64_t>(m.rank.value)}, {"bytes", bytes},
              {"calls", calls > listed_calls_max ? absl::StrCat(listed, "; and ", calls - listed_calls_max, " more") : listed},
              {"duration_ns", static_cast<int64_t>(r.end_device_ns - r.begin_device_ns)}};
    if (r.replay != 0) args.push_back({"replay", static_cast<uint64_t>(r.replay)});
    begun(*g, m.comm, host.begin_ns, end_ns);
    const Row& kernels = row(*g, Kind::send_recv, m.comm);
    const std::string title = calls == 1 ? direction_text(r.direction) + peer_text(m.comm, r.peer) : absl::StrCat("Send and Recv, ", calls, " calls");
    const auto at = slice(kernels, host.begin_ns, end_ns, title, "kernel", std::move(args), std::move(arrows));
    if (!at) continue;
    for (const uint64_t id : launches) arrow(id, *at, 2);
    for (const auto& [id, expected] : sends) arrow(id, *at, expected);
  }
}

void Rows::take_in_flight(const InFlight& m) {
  Gpu* const g = gpu(m.comm, m.rank);
  if (!g) return;
  std::vector<Pending> now;
  for (const InFlightOp& op : m.operations) {
    if (op.only_captured()) continue;
    Pending p;
    p.op = op.op, p.replay = op.replay, p.id = launch_arrow(m.comm, m.rank, op.key()), p.arrow = collective_arrow(m.comm, op.key());
    p.name = name(op.signature.function);
    p.args = {{"operation", op.op.value}, {"communicator", directory_.comm(m.comm)->label(m.comm)}, {"rank there", static_cast<int64_t>(m.rank.value)}};
    for (Arg& a : args_of(op.signature)) p.args.push_back(std::move(a));
    p.sample_ns = m.sample_monotonic_ns;
    if (op.replay == 0) p.enter_ns = before(m.sample_monotonic_ns, op.enter_age_ms);
    if (op.launched && op.replay == 0) p.launch_ns = before(m.sample_monotonic_ns, op.launch_age_ms);
    uint32_t running_ms = 0;
    for (const ChannelState& c : op.channels)
      if (c.begun) running_ms = std::max(running_ms, c.running_age_ms);
    // Without its channels a kernel that has begun did so at its launch, at the earliest.
    if (op.begun) p.begin_ns = !op.channels.empty() || p.launch_ns == 0 ? before(m.sample_monotonic_ns, running_ms) : p.launch_ns;
    now.push_back(std::move(p));
  }
  for (const P2pCall& c : m.p2p) {
    if (c.only_captured()) continue;
    Pending p;
    p.kind = Kind::send_recv;
    p.replay = c.replay, p.id = launch_arrow(m.comm, m.rank, c.peer, c.direction, c.pair_seq);
    const bool is_send = c.direction == abi::Direction::send;
    p.arrow = is_send ? transfer_arrow(m.comm, m.rank, c.peer, c.pair_seq, c.replay) : transfer_arrow(m.comm, c.peer, m.rank, c.pair_seq, c.replay);
    p.name = direction_text(c.direction) + peer_text(m.comm, c.peer);
    p.args = {{"communicator", directory_.comm(m.comm)->label(m.comm)}, {"number of the pair", c.pair_seq}, {"bytes", c.bytes}};
    p.sample_ns = m.sample_monotonic_ns;
    if (c.replay == 0) p.enter_ns = before(m.sample_monotonic_ns, c.enter_age_ms);
    if (c.launched && c.replay == 0) p.launch_ns = before(m.sample_monotonic_ns, c.launch_age_ms);
    if (c.begun) p.begin_ns = p.launch_ns != 0 ? p.launch_ns : m.sample_monotonic_ns;
    now.push_back(std::move(p));
  }
  g->pending[m.comm] = std::move(now);
}

void Rows::show_pending(Gpu& g) {
  const GpuClock& clock = clocks_.of(g.index);
  for (auto& [comm, list] : g.pending) {
    for (Pending& p : list) {
      // Its report was lost: a later one has ended.
      if (p.kind == Kind::operations && p.replay == 0 && p.op <= g.newest[comm]) continue;
      ++counts_.unended;
      const std::string title = p.name + " (not ended)";
      const Nanoseconds sample_ns = clock.of_host(p.sample_ns);
      p.args.push_back({"note", std::string("had not ended when it was last reported")});
      if (p.begin_ns == 0) {
        HostTimes host{.enter_ns = p.enter_ns, .launch_ns = p.launch_ns, .begin_ns = sample_ns};
        if (p.launch_ns == 0) host.launch_ns = p.sample_ns;
        host_part(g, comm, host, title, p.args, p.id);
        if (p.launch_ns != 0) slice(row(g, Kind::waits, comm), std::min(clock.of_host(p.launch_ns), sample_ns), sample_ns, title, "wait", p.args);
        continue;
      }
      HostTimes host{.enter_ns = p.enter_ns, .launch_ns = p.launch_ns, .begin_ns = std::min(clock.of_host(p.begin_ns), sample_ns), .begun = true};
      std::vector<uint64_t> arrows = host_part(g, comm, host, title, p.args, p.id);
      const bool launch_shown = !arrows.empty();
      // An arrow of a Send that has not ended leads nowhere yet.
      if (p.kind == Kind::operations) arrows.push_back(p.arrow);
      begun(g, comm, host.begin_ns, sample_ns);
      const Row& kernels = row(g, p.kind, comm);
      const auto at = slice(kernels, host.begin_ns, sample_ns, title, "kernel", p.args, std::move(arrows));
      if (!at) continue;
      if (launch_shown) arrow(p.id, *at, 2);
      if (p.kind == Kind::operations) arrow(p.arrow, *at, shown_members(comm));
    }
  }
}

void Rows::take_links(CommUid comm, Rank rank, const std::vector<LinkStages>& links, const Batch& batch, const char* number) {
  Gpu* const g = gpu(comm, rank);
  if (!g || links.empty()) return;
  // Of all channels together, weighted by their steps.
  struct Mean {
    double gpu = 0, ready = 0, wire = 0, done = 0;
    uint64_t steps = 0, channels = 0, away_us = 0;
    int64_t device = -1;
    bool gpu_known = true, ready_known = true, wire_known = true, done_known = true;
  };
  std::map<std::tuple<abi::Direction, int32_t, OpSeq>, Mean> means;
  const int64_t origin_ns = batch.sent_realtime_ns;  // keeps sums of realtime precise
  for (const LinkStages& l : links) {
    if (l.steps == 0 || l.peer < 0 || l.net_device < 0) continue;
    Mean& m = means[{l.direction, l.peer, l.op}];
    m.steps += l.steps;
    const auto mix = [&](double& mean, bool& known, int64_t value) {
      known &= value != 0;
      mean += (static_cast<double>(value - origin_ns) - mean) * l.steps / static_cast<double>(m.steps);
    };
    mix(m.gpu, m.gpu_known, l.gpu_mean_realtime_ns);
    mix(m.ready, m.ready_known, l.ready_mean_realtime_ns);
    mix(m.wire, m.wire_known, l.wire_mean_realtime_ns);
    mix(m.done, m.done_known, l.done_mean_realtime_ns);
    ++m.channels;
    m.away_us = std::max<uint64_t>(m.away_us, l.proxy_away_us);
    m.device = l.net_device;
  }
  const GpuClock& clock = clocks_.of(g->index);
  const auto instant_ns = [&](double mean) {
    return clock.of_host(batch.sent_monotonic_ns + static_cast<uint64_t>(std::llround(mean)));
  };
  for (const auto& [key, m] : means) {
    const auto& [direction, peer, op] = key;
    const bool sends = direction == abi::Direction::send;
    const Row& link = row(*g, Kind::links, comm, sends ? peer : -1 - peer);
    const auto stage = [&](const char* title, double from, bool from_known, double to, bool to_known) {
      if (!from_known || !to_known || to < from) return;
      slice(link, instant_ns(from), instant_ns(to), title, "link",
            {{number, op.value}, {"mean_of_step_ns", static_cast<int64_t>(to - from)}, {"steps", m.steps}, {"channels", m.channels},
             {"net device", m.device}, {"proxy_away_us", m.away_us}});
    };
    if (sends) {
      stage("step: sender's proxy, or no receive posted", m.gpu, m.gpu_known, m.wire, m.wire_known);
      stage("step: network", m.wire, m.wire_known, m.done, m.done_known);
    } else {
      stage("step: awaited from the sender", m.ready, m.ready_known, m.wire, m.wire_known);
      stage("step: receiver's proxy", m.wire, m.wire_known, m.done, m.done_known);
      stage("step: receiver's GPU", m.done, m.done_known, m.gpu, m.gpu_known);
    }
  }
}

void Rows::add(const Batch& batch) {
  for (const Payload& payload : batch.payloads) {
    if (const auto* m = std::get_if<Rounds>(&payload)) {
      take_rounds(*m);
      take_links(m->comm, m->rank, m->links, batch, "operation");
    }
    if (const auto* m = std::get_if<P2pRounds>(&payload)) {
      take_calls(*m);
      take_links(m->comm, m->rank, m->links, batch, "number of the pair");
    }
    if (const auto* m = std::get_if<InFlight>(&payload)) take_in_flight(*m);
  }
  const size_t process = directory_.process(batch);
  for (Gpu& g : gpus_)
    if (directory_.gpus()[static_cast<size_t>(g.index)].process == process)
      g.heard_ns = std::max(g.heard_ns, clocks_.of(g.index).of_host(batch.sent_monotonic_ns));
}

void Rows::show_gaps(Gpu& g) {
  std::sort(g.kernels.begin(), g.kernels.end(), [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  if (g.kernels.empty()) return;
  const Row& gaps = row(g, Kind::gaps);
  Nanoseconds ended_ns = g.kernels.front().begin_ns;
  for (const Span& k : g.kernels) {
    if (k.begin_ns > ended_ns) slice(gaps, ended_ns, k.begin_ns, "computing (between operations)", "gap", {});
    ended_ns = std::max(ended_ns, k.end_ns);
  }
  // No rank of this GPU has come to its next operation.
  if (g.heard_ns > ended_ns)
    slice(gaps, ended_ns, g.heard_ns, "after its last operation", "gap", {{"note", std::string("up to its last telemetry")}});
  g.kernels = {};
}

void Rows::show_clock(Gpu& g) {
  const GpuClock& clock = clocks_.of(g.index);
  const auto show = [&](Kind kind, Nanoseconds at_ns, double ns) {
    if (std::isfinite(ns) && take(at_ns, at_ns)) writer_.counter(row(g, kind), shown(at_ns), ns / 1e3);
  };
  for (const Knot& k : clock.knots()) {
    const Nanoseconds at_ns = clock.of_device(k.device_ns);
    show(Kind::clock_earlier, at_ns, k.earlier_ns);
    show(Kind::clock_later, at_ns, k.later_ns);
  }
}

void Rows::incident(const Incident& i, const std::string& advice) {
  std::string who;
  for (const Culprit& c : i.culprits) {
    absl::StrAppend(&who, who.empty() ? "" : "; ", "rank ", c.rank.value);
    if (c.peer) absl::StrAppend(&who, " -> rank ", c.peer->value);
    absl::StrAppend(&who, " ", name(c.component), c.reason.empty() ? "" : ": ", c.reason);
  }
  if (who.empty()) who = "culprit not singled out";
  const DirectoryComm* const comm = directory_.comm(i.comm);
  Args args{{"incident", i.id}, {"class", std::string(name(i.fault))}, {"title", i.title.empty() ? std::string(title(i.fault)) : i.title},
                  {"state", std::string(name(i.state))}, {"culprit", who},
                  {"communicator", comm ? comm->label(i.comm) : absl::StrFormat("%016x", i.comm.value)}, {"operation", i.op.value},
                  {"confidence", i.confidence}, {"next step", i.next_step}};
  if (!advice.empty()) args.push_back({"advice", advice});
  const std::string begin = absl::StrCat(name(i.fault), " #", i.id, " ");
  const Row& all = row(marks_, Kind::marks);
  const std::pair<Nanoseconds, const char*> moments[] = {{i.onset_ns, "onset"}, {i.suspected_ns, "suspected"}, {i.located_ns, "located"},
                                                         {i.confirmed_ns, "confirmed"}, {i.resolved_ns, is_open(i.state) ? "resolved" : name(i.state)}};
  for (const auto& [at_ns, what] : moments)
    if (at_ns != 0) instant(all, at_ns, absl::StrCat(begin, what, ": ", i.title.empty() ? who : i.title), "incident", args);
  if (!advice.empty()) instant(all, std::max(i.suspected_ns, i.located_ns), absl::StrCat(begin, "advice: ", advice), "incident", args);
  const Nanoseconds since_ns = i.onset_ns != 0 ? i.onset_ns : i.suspected_ns;
  for (const Culprit& c : i.culprits) {
    Gpu* const g = gpu(i.comm, c.rank);
    if (g && since_ns != 0) instant(row(*g, Kind::marks), since_ns, absl::StrCat(begin, "culprit: ", name(c.component)), "incident", args);
  }
}

void Rows::mark(const Mark& m) {
  if (m.cuda_device < 0) {
    instant(row(marks_, Kind::marks), m.at_ns, m.name, "mark", m.args);
    return;
  }
  for (Gpu& g : gpus_) {
    const DirectoryGpu& of = directory_.gpus()[static_cast<size_t>(g.index)];
    if (of.host == m.host && of.cuda_device == m.cuda_device) instant(row(g, Kind::marks), m.at_ns, m.name, "mark", m.args);
  }
}

void Rows::finish() {
  for (Gpu& g : gpus_) {
    show_pending(g);
    show_gaps(g);
    show_clock(g);
  }
  flush_arrows();
  writer_.finish();
}

}  // namespace ccld::decision::trace
