#include "decision/cli/frames_report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <set>

#include "decision/cli/kernel_runs.h"
#include "schemas/abi/names.h"

namespace ccld::decision::frames {
namespace {

constexpr size_t p2p_shown_max = 16;

uint64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

std::optional<double> age_s(ProcessState process, uint64_t since_ns) {
  const uint64_t now_ns = monotonic_ns();
  if (process == ProcessState::other_machine || since_ns == 0 || since_ns > now_ns) return std::nullopt;
  return static_cast<double>(now_ns - since_ns) / 1e9;
}

void find_operation(const abi::FrameView& frame, const Runs& runs, bool all, FrameReport* report) {
  std::optional<OperationReport> oldest, running, newest;
  // Counted, not compared: in a file of whoever the newest may be the last number that there is.
  const uint64_t kept = std::min<uint64_t>(report->entered, abi::ops_max);
  // What was recorded into a graph may run again long after it was called; the agent may lag, or be gone: its word says
  // where the calls that are not completed start, the rows say the rest.
  const uint64_t completed = report->completed;
  for (uint64_t back = kept; back > 0; --back) {
    const uint64_t op_seq = report->entered - back + 1;
    OperationReport o;
    if (frame.read_operation(op_seq, &o.record) != abi::Found::yes) continue;
    const bool captured = (o.record.flags & abi::op_captured) != 0;
    if (op_seq <= completed && !captured) {
      if (all) newest = o;
      continue;
    }
    const Standing s = standing_of(frame, runs, o.record);
    o.replay = s.replay;
    o.enter_age_s = age_s(report->process, o.record.enter_monotonic_ns);
    o.launch_age_s = age_s(report->process, o.record.launch_monotonic_ns);
    newest = o;
    if (!s.in_flight) {
      if (!oldest && op_seq == report->completed + 1) report->completed = op_seq;
      continue;
    }
    ++report->operations_in_flight;
    if (!oldest) oldest = o;
    if (s.running && (!running || abi::distance(running->record.plan, o.record.plan) < 0)) running = o;
  }
  report->in_flight = oldest.has_value();
  report->operation = running ? running : oldest;
  if (!report->operation && all) report->operation = newest;
}

void find_p2p(const abi::FrameView& frame, const Runs& runs, FrameReport* report) {
  for (uint64_t back = std::min<uint64_t>(report->entered_p2p, abi::p2ps_max); back > 0; --back) {
    const uint64_t call = report->entered_p2p - back + 1;
    P2pReport p;
    if (frame.read_p2p(call, &p.record) != abi::Found::yes) continue;
    const Standing s = standing_of(frame, runs, p.record);
    if (!s.in_flight) continue;
    if (report->p2p_in_flight++ >= p2p_shown_max) continue;
    p.replay = s.replay;
    p.begun = s.running;
    p.enter_age_s = age_s(report->process, p.record.enter_monotonic_ns);
    p.launch_age_s = age_s(report->process, p.record.launch_monotonic_ns);
    report->p2p.push_back(p);
  }
}

ChannelReport report_channel(const abi::FrameView& frame, uint32_t c, const Run* run, abi::Protocol protocol,
                             const Look& first, const Look& second) {
  ChannelReport report;
  report.channel = c;
  if (run == nullptr) return report;
  report.run = run->run;
  report.begun = true;
  report.ended = run->ended;
  abi::RoundCounts counts;
  if (report.ended && frame.read_counts(c, run->run, &counts) == abi::Found::yes) {
    report.send_steps = counts.send_steps;
    report.recv_steps = counts.recv_steps;
  } else {
    const abi::LaneCounts lanes = frame.count_lanes(c, run->run);
    report.send_steps = lanes.send;
    report.recv_steps = lanes.recv;
    report.overwritten = lanes.overwritten;
  }
  std::vector<abi::LaneObservation> observations;
  for (const auto& [key, lane] : second.lanes) {
    const auto& [channel, direction, index] = key;
    if (channel != c || lane.run != run->run) continue;
    abi::LaneObservation o;
    o.lane = lane;
    o.direction = static_cast<abi::Direction>(direction);
    o.index = static_cast<uint8_t>(index);
    const auto before = first.lanes.find(key);
    o.lane_polls = !report.ended && before != first.lanes.end() && before->second.poll_tick != lane.poll_tick;
    const uint32_t begin = abi::lane_first_warp(lane.peer_and_warps);
    const uint32_t end = std::min(begin + abi::lane_warp_count(lane.peer_and_warps), abi::warps_max);
    for (uint32_t w = begin; w < end && !report.ended; ++w) o.warps_poll |= first.ticks[c][w] != second.ticks[c][w];
    observations.push_back(o);
  }
  abi::derive_waits(observations.data(), observations.size(), protocol == abi::Protocol::simple);
  for (const abi::LaneObservation& o : observations) {
    LaneReport lane;
    lane.observation = o;
    const auto before = first.lanes.find({c, static_cast<unsigned>(o.direction), o.index});
    lane.moves = before == first.lanes.end() || before->second.run != o.lane.run ||
                 before->second.current_step != o.lane.current_step;
    const auto kind = static_cast<abi::WaitKind>(o.lane.wait_kind);
    if (!report.ended && o.wait == abi::WaitKind::none && !o.warps_poll && !lane.moves &&
        (kind == abi::WaitKind::data || kind == abi::WaitKind::credit) &&
        abi::distance(o.lane.current_step, o.lane.want_step) > 0) {
      lane.announced_only = true;
      lane.observation.wait = kind;
      lane.observation.want_step = o.lane.want_step;
      lane.observation.seen_step = o.lane.seen_step;
    }
    report.lanes.push_back(lane);
  }
  return report;
}

ServiceReport report_service(ProcessState process_state, const abi::ProcessView& process) {
  ServiceReport report;
  const uint64_t state = process.metric(abi::MetricId::agent_service_state);
  report.state = static_cast<abi::ServiceState>(std::min<uint64_t>(state, UINT32_MAX));
  report.age_s = age_s(process_state, process.metric(abi::MetricId::agent_service_monotonic_ns));
  report.acknowledged = process.metric(abi::MetricId::agent_acknowledged_batches);
  report.undelivered = process.metric(abi::MetricId::agent_undelivered_batches);
  report.waiting = process.metric(abi::MetricId::agent_waiting_batches);
  report.unconfirmed = process.metric(abi::MetricId::agent_unconfirmed_batches);
  return report;
}

}  // namespace

Look look_at(const abi::FrameView& frame) {
  Look look;
  look.heartbeat_ns = frame.heartbeat_monotonic_ns();
  look.ticks.resize(frame.channel_count());
  for (uint32_t c = 0; c < frame.channel_count(); ++c) {
    for (uint32_t w = 0; w < abi::warps_max; ++w) look.ticks[c][w] = frame.warp_poll_tick(c, w);
    for (unsigned d = 0; d < abi::directions; ++d) {
      for (uint32_t i = 0; i < abi::lanes_per_direction; ++i) {
        abi::Lane lane;
        if (frame.read_lane(c, static_cast<abi::Direction>(d), i, &lane)) look.lanes[{c, d, i}] = lane;
      }
    }
  }
  for (uint32_t i = 0; i < frame.proxy_count(); ++i) {
    abi::ProxyRecord record;
    if (frame.read_proxy(i, &record)) look.proxies[i] = record;
  }
  return look;
}

ProcessLook look_at(const abi::ProcessView& process) {
  ProcessLook look;
  look.samples = process.metric(abi::MetricId::agent_samples);
  for (unsigned i = 0; i < abi::nets_max; ++i) {
    abi::NetRecord record;
    if (process.read_net(i, &record)) look.queues[i] = record;
  }
  return look;
}

FrameReport report_frame(const LocalProcesses& processes, const std::string& path, const abi::FrameView& frame,
                         const Look& first, bool all) {
  const Look second = look_at(frame);
  const Runs runs(frame);
  FrameReport report;
  report.path = path;
  report.identity = frame.identity();
  report.state = frame.state();
  report.hidden = frame.hidden();
  const abi::FrameIdentity& id = report.identity;
  report.process = processes.state(abi::FrameView::text(id.boot_id), {id.pid, id.pid_namespace}, id.pid_start_ticks,
                                   first.heartbeat_ns != second.heartbeat_ns);
  report.completed = frame.completed_op_seq();
  report.launched = frame.launched_op_seq();
  report.entered = frame.entered_op_seq();
  report.entered_p2p = frame.entered_p2p();
  report.launched_p2p = frame.launched_p2p();
  report.captured_plans = frame.captured_plans();
  report.unseen_while_stopped = frame.unseen_while_stopped();
  report.lapped_rounds = frame.lapped_rounds();
  report.summed_kernels = frame.summed_kernels();
  report.summed_busy_ns = frame.summed_busy_ns();
  report.summed_send_steps = frame.summed_send_steps();
  report.summed_recv_steps = frame.summed_recv_steps();
  report.agent_samples = frame.agent_samples();
  report.agent_age_s = age_s(report.process, second.heartbeat_ns);
  find_operation(frame, runs, all, &report);
  find_p2p(frame, runs, &report);

  uint32_t token = 0;
  uint64_t mask = 0;
  abi::Protocol protocol = abi::Protocol::unknown;
  const auto running_call =
      std::find_if(report.p2p.begin(), report.p2p.end(), [](const P2pReport& p) { return p.begun; });
  const bool operation_runs = report.operation && report.in_flight &&
                              runs.kernel(report.operation->record.plan, report.operation->record.channel_mask).begun;
  if (running_call != report.p2p.end() && !operation_runs) {
    token = running_call->record.plan;
    mask = running_call->record.channel_mask;
  } else if (report.operation) {
    token = report.operation->record.plan;
    mask = report.operation->record.channel_mask;
    protocol = static_cast<abi::Protocol>(report.operation->record.protocol);
  }
  for (uint32_t c = 0; token != 0 && c < frame.channel_count(); ++c)
    if (has_channel(mask, c))
      report.channels.push_back(report_channel(frame, c, runs.find(c, token), protocol, first, second));
  if (!report.in_flight && report.p2p_in_flight == 0 && !all) return report;
  for (const auto& [index, record] : second.proxies) {
    ProxyReport proxy;
    proxy.record = record;
    const auto before = first.proxies.find(index);
    if (before == first.proxies.end()) {
      proxy.moves = proxy.visited = true;
    } else {
      const abi::ProxyRecord& b = before->second;
      proxy.visited = b.ticks != record.ticks;
      proxy.moves = b.posted != record.posted || b.received != record.received || b.transmitted != record.transmitted ||
                    b.done != record.done;
    }
    report.proxies.push_back(proxy);
  }
  return report;
}

ProcessReport report_process(const LocalProcesses& processes, const std::string& path, const abi::ProcessView& process,
                             const ProcessLook& first, bool all) {
  const ProcessLook second = look_at(process);
  ProcessReport report;
  report.path = path;
  report.identity = process.identity();
  report.build = process.build();
  const abi::ProcessIdentityPart& id = report.identity;
  report.process = processes.state(abi::ProcessView::text(id.boot_id), {id.pid, id.pid_namespace}, id.pid_start_ticks,
                                   first.samples != second.samples);
  report.control = process.control_state();
  abi::ControlLine wish;
  report.control_pending = !process.read_control(&wish) || wish.sequence > report.control.applied_sequence;
  for (unsigned i = 1; i < abi::metrics_max; ++i) {
    const auto metric = static_cast<abi::MetricId>(i);
    const uint64_t value = process.metric(metric);
    const std::string name = abi::name_of(metric);
    if (metric == abi::MetricId::agent_service_state || metric == abi::MetricId::agent_service_monotonic_ns ||
        metric == abi::MetricId::agent_service_keys)
      continue;
    if (value != 0) report.counters.emplace_back(name == "?" ? "metric_" + std::to_string(i) : name, value);
  }
  report.service = report_service(report.process, process);
  for (unsigned slot = 0; slot < abi::inits_max; ++slot) {
    InitReport init;
    if (!process.read_init(slot, &init.record)) continue;
    init.enter_age_s = age_s(report.process, init.record.enter_monotonic_ns);
    init.stage_age_s = age_s(report.process, init.record.stage_monotonic_ns);
    report.inits.push_back(init);
  }
  std::sort(report.inits.begin(), report.inits.end(),
            [](const InitReport& a, const InitReport& b) { return a.record.commit < b.record.commit; });
  for (const auto& [slot, record] : second.queues) {
    QueueReport queue;
    queue.record = record;
    const auto before = first.queues.find(slot);
    queue.moves = before == first.queues.end() || before->second.send_completed != record.send_completed ||
                  before->second.recv_completed != record.recv_completed ||
                  before->second.send_posted != record.send_posted;
    queue.post_age_s = age_s(report.process, record.post_monotonic_ns);
    queue.complete_age_s = age_s(report.process, record.complete_monotonic_ns);
    const bool busy = record.send_posted != record.send_completed || record.recv_posted != record.recv_completed ||
                      record.errors != 0;
    if (busy || all) report.queues.push_back(queue);
  }
  return report;
}

std::string format(const char* pattern, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(buffer, sizeof buffer, pattern, arguments);
  va_end(arguments);
  return buffer;
}

std::string channel_state(const ChannelReport& c) { return c.ended ? "ended" : c.begun ? "running" : "not begun"; }

std::vector<std::string> signal_names(uint8_t signals) {
  std::vector<std::string> names;
  const std::pair<uint8_t, const char*> all[] = {{abi::signal_times, "times"},
                                                 {abi::signal_steps, "steps"},
                                                 {abi::signal_waits, "waits"},
                                                 {abi::signal_proxy, "proxy"},
                                                 {abi::signal_stream, "stream"}};
  for (const auto& [bit, name] : all)
    if ((signals & bit) != 0) names.emplace_back(name);
  return names;
}

std::vector<std::string> hidden_names(uint32_t hidden) {
  std::vector<std::string> names;
  for (const abi::Hidden each : abi::hidden_all)
    if ((hidden & each) != 0) names.emplace_back(abi::name_of(each));
  return names;
}

const char* service_text(abi::ServiceState state) {
  switch (state) {
    case abi::ServiceState::none: return "not told";
    case abi::ServiceState::connecting: return "no connection yet";
    case abi::ServiceState::connected: return "connected, no answer yet";
    case abi::ServiceState::reached: return "takes what is sent";
    case abi::ServiceState::unusable: return "the endpoint, a key or libzmq cannot be used, nothing is sent";
    case abi::ServiceState::unresolved: return "its name has no address";
    case abi::ServiceState::refused: return "nothing listens there, or there is no route";
    case abi::ServiceState::unanswered: return "nobody answers at that address";
    case abi::ServiceState::mute: return "what listens there does not answer as ZeroMQ does";
    case abi::ServiceState::deaf: return "connected, and has never acknowledged a batch";
    case abi::ServiceState::stalled: return "connected, and acknowledges no batches any more";
    case abi::ServiceState::rejected: return "does not accept the key of this process";
    case abi::ServiceState::one_sided: return "one side demands keys, the other uses none";
    case abi::ServiceState::other_key: return "ends the handshake: its key is not NCCL_PROBE_SERVER_KEY, or it uses none";
  }
  return "something newer than this reader";
}

bool measures_anything(uint8_t signals) {
  return (signals & (abi::signal_times | abi::signal_stream | abi::signal_steps)) != 0;
}

}  // namespace ccld::decision::frames
