#include "decision/cli/frames_command.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include <nlohmann/json.hpp>

#include "decision/cli/exit_codes.h"
#include "schemas/abi/mapped_frame.h"
#include "schemas/abi/names.h"

namespace ccld::decision {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// ---- what one frame shows
// ----------------------------------------------------------------------------------------------

enum class ProcessState { running, stopped, gone, other_machine };

const char* name_of(ProcessState state) {
  switch (state) {
    case ProcessState::running: return "running";
    case ProcessState::stopped: return "stopped";
    case ProcessState::gone: return "gone";
    case ProcessState::other_machine: return "other boot";
  }
  return "?";
}

struct LaneReport {
  abi::LaneObservation observation;
  bool moves = false;
  // A wait that the lane announced last, without a sign that it still goes on: its process is stopped or gone, or its
  // GPU is silent.
  bool announced_only = false;
};

struct ChannelReport {
  uint32_t channel = 0;
  bool begun = false, ended = false;
  abi::StepCounts counts;
  std::vector<LaneReport> lanes;
};

struct ProxyReport {
  abi::ProxyRecord record{};
  bool moves = false;
  bool visited = false;
};

struct OperationReport {
  abi::OpRecord record{};
  std::optional<double> enter_age_s, launch_age_s;
};

struct FrameReport {
  std::string path;
  abi::FrameIdentity identity{};
  abi::CommState state = abi::CommState::none;
  ProcessState process = ProcessState::gone;
  uint64_t entered = 0, launched = 0, completed = 0;
  std::optional<double> agent_age_s;
  uint64_t operations_in_flight = 0;
  std::optional<OperationReport>
      operation;           // the one whose kernel runs, else the oldest in flight, else (all) the newest
  bool in_flight = false;  // `operation` is
  std::vector<ChannelReport> channels;
  std::vector<ProxyReport> proxies;
};

// One look at a frame; two of them tell what moves.
struct Look {
  uint64_t heartbeat_ns = 0;
  std::map<std::tuple<uint32_t, unsigned, uint32_t>, abi::Lane> lanes;  // channel, direction, index
  std::vector<std::array<uint32_t, abi::warps_max>> ticks;
  std::map<uint32_t, abi::ProxyRecord> proxies;
};

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

// ---- processes
// -----------------------------------------------------------------------------------------------------------

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

ProcessState process_state(const FramesOptions& options, const abi::FrameIdentity& id, const std::string& boot_id,
                           bool agent_alive) {
  if (abi::FrameView::text(id.boot_id) != boot_id) return ProcessState::other_machine;
  // A process of another pid namespace is not to be seen in /proc, but its agent writes.
  const ProcessState unseen = agent_alive ? ProcessState::running : ProcessState::gone;
  const std::string stat = first_line(fs::path(options.proc_dir) / std::to_string(id.pid) / "stat");
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos) return unseen;
  char state = '?';
  unsigned long long start_ticks = 0;
  if (std::sscanf(stat.c_str() + name_end + 2,
                  "%c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
                  &start_ticks) != 2)
    return unseen;
  if (start_ticks != id.pid_start_ticks) return unseen;
  if (state == 'T' || state == 't') return ProcessState::stopped;
  return state == 'Z' || state == 'X' ? ProcessState::gone : ProcessState::running;
}

// ---- operations and channels
// ---------------------------------------------------------------------------------------------

bool has_channel(uint64_t mask, uint32_t channel) { return (mask >> channel & 1) != 0; }

bool runs_on_gpu(const abi::OpRecord& r) {
  return r.plan != 0 && r.channel_mask != 0 && (r.flags & (abi::op_no_kernel | abi::op_captured)) == 0;
}

bool has_ended(const abi::FrameView& frame, const abi::OpRecord& r) {
  if ((r.flags & abi::op_captured) != 0) return true;
  if (!runs_on_gpu(r)) return (r.flags & (abi::op_no_kernel | abi::op_launched)) != 0;
  for (uint32_t c = 0; c < frame.channel_count(); ++c) {
    abi::RoundEdge edge;
    if (!has_channel(r.channel_mask, c)) continue;
    const abi::Found found = frame.read_end(c, r.plan, &edge);
    if (found != abi::Found::yes && found != abi::Found::later) return false;
  }
  return true;
}

uint64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

std::optional<double> age_s(const FrameReport& report, uint64_t since_ns) {
  const uint64_t now_ns = monotonic_ns();
  if (report.process == ProcessState::other_machine || since_ns == 0 || since_ns > now_ns) return std::nullopt;
  return static_cast<double>(now_ns - since_ns) / 1e9;
}

void find_operation(const abi::FrameView& frame, bool all, FrameReport* report) {
  std::optional<abi::OpRecord> oldest, running, newest;
  const uint64_t oldest_kept = report->entered >= abi::ops_max ? report->entered - abi::ops_max + 1 : 1;
  // The agent may lag, or be gone: it says where to start, the rows say the rest.
  for (uint64_t op_seq = std::max(report->completed + 1, oldest_kept); op_seq <= report->entered; ++op_seq) {
    abi::OpRecord record;
    if (frame.read_operation(op_seq, &record) != abi::Found::yes) continue;
    newest = record;
    if (has_ended(frame, record)) {
      if (!oldest) report->completed = op_seq;
      continue;
    }
    ++report->operations_in_flight;
    if (!oldest) oldest = record;
    if (runs_on_gpu(record) && (!running || abi::distance(running->plan, record.plan) < 0)) running = record;
  }
  report->in_flight = oldest.has_value();
  std::optional<abi::OpRecord> shown = running ? running : oldest;
  if (!shown && all) {
    abi::OpRecord record;
    if (newest)
      shown = newest;
    else if (report->entered != 0 && frame.read_operation(report->entered, &record) == abi::Found::yes)
      shown = record;
  }
  if (!shown) return;
  report->operation =
      OperationReport{*shown, age_s(*report, shown->enter_monotonic_ns), age_s(*report, shown->launch_monotonic_ns)};
}

ChannelReport report_channel(const abi::FrameView& frame, uint32_t c, const abi::OpRecord& operation, const Look& first,
                             const Look& second) {
  const uint32_t token = operation.plan;
  ChannelReport report;
  report.channel = c;
  abi::RoundEdge edge;
  report.begun = frame.read_begin(c, token, &edge) == abi::Found::yes;
  report.ended = frame.read_end(c, token, &edge) == abi::Found::yes;
  report.counts = frame.read_counts(c, token);
  std::vector<abi::LaneObservation> observations;
  for (const auto& [key, lane] : second.lanes) {
    const auto& [channel, direction, index] = key;
    if (channel != c || lane.token != token) continue;
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
  abi::derive_waits(observations.data(), observations.size(),
                    static_cast<abi::Protocol>(operation.protocol) == abi::Protocol::simple);
  for (const abi::LaneObservation& o : observations) {
    LaneReport lane;
    lane.observation = o;
    const auto before = first.lanes.find({c, static_cast<unsigned>(o.direction), o.index});
    lane.moves = before == first.lanes.end() || before->second.token != token ||
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

FrameReport report_frame(const FramesOptions& options, const std::string& path, const abi::FrameView& frame,
                         const std::string& boot_id, const Look& first) {
  const Look second = look_at(frame);
  FrameReport report;
  report.path = path;
  report.identity = frame.identity();
  report.state = frame.state();
  report.process = process_state(options, report.identity, boot_id, first.heartbeat_ns != second.heartbeat_ns);
  report.completed = frame.completed_op_seq();
  report.launched = frame.launched_op_seq();
  report.entered = frame.entered_op_seq();
  report.agent_age_s = age_s(report, second.heartbeat_ns);
  find_operation(frame, options.all, &report);
  if (report.operation && (report.in_flight || options.all)) {
    const abi::OpRecord& r = report.operation->record;
    for (uint32_t c = 0; c < frame.channel_count(); ++c)
      if (r.plan != 0 && has_channel(r.channel_mask, c))
        report.channels.push_back(report_channel(frame, c, r, first, second));
    for (const auto& [index, record] : second.proxies) {
      ProxyReport proxy;
      proxy.record = record;
      const auto before = first.proxies.find(index);
      if (before == first.proxies.end()) {
        proxy.moves = proxy.visited = true;
      } else {
        const abi::ProxyRecord& b = before->second;
        proxy.visited = b.ticks != record.ticks;
        proxy.moves = b.posted != record.posted || b.received != record.received ||
                      b.transmitted != record.transmitted || b.done != record.done;
      }
      report.proxies.push_back(proxy);
    }
  }
  return report;
}

// ---- text
// ----------------------------------------------------------------------------------------------------------------

__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(buffer, sizeof buffer, pattern, arguments);
  va_end(arguments);
  return buffer;
}

std::string seconds(double s) { return s < 100 ? format("%.1f s", s) : format("%.0f s", s); }

std::string signature_text(const abi::OpRecord& r) {
  std::string text = abi::name_of(static_cast<abi::Function>(r.function));
  text += format(" %llu x %s", static_cast<unsigned long long>(r.count),
                 abi::name_of(static_cast<abi::Datatype>(r.datatype)));
  if (static_cast<abi::Reduction>(r.reduction) != abi::Reduction::none)
    text += std::string(" ") + abi::name_of(static_cast<abi::Reduction>(r.reduction));
  if (r.root >= 0) text += format(" root %d", r.root);
  if (static_cast<abi::Algorithm>(r.algorithm) != abi::Algorithm::unknown)
    text += std::string(", ") + abi::name_of(static_cast<abi::Algorithm>(r.algorithm)) + " " +
            abi::name_of(static_cast<abi::Protocol>(r.protocol));
  if (r.channel_count != 0) text += format(", %u channel%s", r.channel_count, r.channel_count == 1 ? "" : "s");
  return text;
}

std::string operation_text(const FrameReport& report) {
  if (!report.operation) return "-";
  const OperationReport& o = *report.operation;
  std::string text = format("#%llu ", static_cast<unsigned long long>(o.record.commit)) + signature_text(o.record);
  if (!report.in_flight) return text + ", finished";
  if ((o.record.flags & abi::op_launched) == 0)
    text +=
        o.enter_age_s ? ", entered " + seconds(*o.enter_age_s) + " ago, not launched" : std::string(", not launched");
  else if (o.launch_age_s)
    text += ", launched " + seconds(*o.launch_age_s) + " ago";
  if (report.operations_in_flight > 1)
    text += format(" (+%llu)", static_cast<unsigned long long>(report.operations_in_flight - 1));
  return text;
}

// "recv from 4: has 12, waits for data 13 (4 has sent 12)". Steps are those of this kernel.
std::string lane_text(const LaneReport& lane) {
  const abi::LaneObservation& o = lane.observation;
  const bool recv = o.direction == abi::Direction::recv;
  std::string text = format("%s %u", recv ? "recv from" : "send to", abi::lane_peer(o.lane.peer_and_warps));
  if (o.group() != 0) text += format(" (group %u)", o.group());
  text += format(": has %u", o.steps());
  if (o.wait != abi::WaitKind::none) {
    const uint32_t want = o.want_step - o.lane.base_step;
    text += format(", %s %s, wants %u",
                   lane.announced_only ? "last seen waiting for"
                   : o.certain         ? "waits for"
                                       : "may wait for",
                   abi::name_of(o.wait), want);
    if (o.certain || lane.announced_only)
      text += format(", there is %d", static_cast<int32_t>(o.seen_step - o.lane.base_step));
  } else if (lane.moves) {
    text += ", moves";
  }
  return text;
}

std::string proxy_text(const ProxyReport& proxy) {
  const abi::ProxyRecord& r = proxy.record;
  const bool send = static_cast<abi::Direction>(r.direction) == abi::Direction::send;
  const auto relative = [&r](uint64_t step) { return static_cast<long long>(step - r.base); };
  std::string text = format("proxy of channel %d %s %d", r.channel, send ? "send to" : "recv from", r.peer);
  if (r.net_device >= 0) text += format(" (net %d)", r.net_device);
  text += send ? format(": posted %lld, transmitted %lld, done %lld", relative(r.posted), relative(r.transmitted),
                        relative(r.done))
               : format(": posted %lld, received %lld, handed over %lld, done %lld", relative(r.posted),
                        relative(r.received), relative(r.transmitted), relative(r.done));
  text += format(" of %llu", static_cast<unsigned long long>(r.step_count));
  return text + (proxy.moves ? ", moves" : proxy.visited ? ", still" : ", not visited");
}

std::string channel_state(const ChannelReport& c) { return c.ended ? "ended" : c.begun ? "running" : "not begun"; }

std::string to_text(const FramesOptions& options, const std::vector<FrameReport>& reports) {
  if (reports.empty()) return "no frames in " + options.dir + "\n";
  std::string text;
  const FrameReport* previous = nullptr;
  for (const FrameReport& r : reports) {
    if (previous == nullptr || previous->identity.comm_uid != r.identity.comm_uid) {
      if (previous != nullptr) text += "\n";
      const std::string name = abi::FrameView::text(r.identity.comm_name);
      text += format("communicator %016llx%s%s, %d ranks, job %s\n",
                     static_cast<unsigned long long>(r.identity.comm_uid), name.empty() ? "" : " ", name.c_str(),
                     r.identity.rank_count, abi::FrameView::text(r.identity.job).c_str());
      text += format("  %4s %8s %-12s %3s %-10s %9s %9s %9s %8s  %s\n", "rank", "pid", "host", "gpu", "process",
                     "entered", "launched", "completed", "agent", "operation");
    }
    previous = &r;
    std::string process = name_of(r.process);
    if (r.state != abi::CommState::ready) process += std::string(",") + abi::name_of(r.state);
    text +=
        format("  %4d %8u %-12s %3d %-10s %9llu %9llu %9llu %8s  ", r.identity.rank, r.identity.pid,
               abi::FrameView::text(r.identity.host).c_str(), r.identity.cuda_device, process.c_str(),
               static_cast<unsigned long long>(r.entered), static_cast<unsigned long long>(r.launched),
               static_cast<unsigned long long>(r.completed), r.agent_age_s ? seconds(*r.agent_age_s).c_str() : "-") +
        operation_text(r) + "\n";
    for (const ChannelReport& c : r.channels) {
      text += format("         channel %u: %s, SendCount %u, RecvCount %u%s\n", c.channel, channel_state(c).c_str(),
                     c.counts.send, c.counts.recv, c.counts.overwritten ? " (overwritten)" : "");
      for (const LaneReport& lane : c.lanes) text += "           " + lane_text(lane) + "\n";
    }
    for (const ProxyReport& proxy : r.proxies) text += "         " + proxy_text(proxy) + "\n";
  }
  return text;
}

// ---- JSON
// ----------------------------------------------------------------------------------------------------------------

Json to_json(const LaneReport& lane) {
  const abi::LaneObservation& o = lane.observation;
  Json json = {{"direction", abi::name_of(o.direction)},
               {"peer", abi::lane_peer(o.lane.peer_and_warps)},
               {"group", o.group()},
               {"peer_index", o.peer_index()},
               {"steps", o.steps()},
               {"current_step", o.lane.current_step},
               {"base_step", o.lane.base_step},
               {"moves", lane.moves},
               {"wait", abi::name_of(o.wait)}};
  if (o.wait != abi::WaitKind::none) {
    json["want_step"] = o.want_step;
    json["seen_step"] = o.seen_step;
    json["certain"] = o.certain;
    json["polls"] = !lane.announced_only;
  }
  return json;
}

Json to_json(const ProxyReport& proxy) {
  const abi::ProxyRecord& r = proxy.record;
  return {{"channel", r.channel},   {"direction", abi::name_of(static_cast<abi::Direction>(r.direction))},
          {"peer", r.peer},         {"net_device", r.net_device},
          {"base", r.base},         {"posted", r.posted},
          {"received", r.received}, {"transmitted", r.transmitted},
          {"done", r.done},         {"step_count", r.step_count},
          {"moves", proxy.moves},   {"visited", proxy.visited}};
}

Json to_json(const FrameReport& r) {
  const abi::FrameIdentity& id = r.identity;
  const auto text = [](const auto& field) { return abi::FrameView::text(field); };
  Json json = {{"path", r.path},
               {"comm_uid", format("%016llx", static_cast<unsigned long long>(id.comm_uid))},
               {"comm_name", text(id.comm_name)},
               {"comm_number", id.comm_number},
               {"comm_state", abi::name_of(r.state)},
               {"job", text(id.job)},
               {"host", text(id.host)},
               {"rank", id.rank},
               {"rank_count", id.rank_count},
               {"node", id.node},
               {"local_rank", id.local_rank},
               {"gpu_bus_id", text(id.gpu_bus_id)},
               {"cuda_device", id.cuda_device},
               {"pid", id.pid},
               {"process", name_of(r.process)},
               {"entered_op_seq", r.entered},
               {"launched_op_seq", r.launched},
               {"completed_op_seq", r.completed},
               {"operations_in_flight", r.operations_in_flight}};
  json["agent_age_s"] = r.agent_age_s ? Json(*r.agent_age_s) : Json();
  if (r.operation) {
    const abi::OpRecord& o = r.operation->record;
    json["operation"] = {{"op_seq", o.commit},
                         {"in_flight", r.in_flight},
                         {"function", abi::name_of(static_cast<abi::Function>(o.function))},
                         {"count", o.count},
                         {"datatype", abi::name_of(static_cast<abi::Datatype>(o.datatype))},
                         {"reduction", abi::name_of(static_cast<abi::Reduction>(o.reduction))},
                         {"root", o.root},
                         {"algorithm", abi::name_of(static_cast<abi::Algorithm>(o.algorithm))},
                         {"protocol", abi::name_of(static_cast<abi::Protocol>(o.protocol))},
                         {"channels", o.channel_count},
                         {"launched", (o.flags & abi::op_launched) != 0},
                         {"enter_age_s", r.operation->enter_age_s ? Json(*r.operation->enter_age_s) : Json()},
                         {"launch_age_s", r.operation->launch_age_s ? Json(*r.operation->launch_age_s) : Json()}};
  }
  json["channels"] = Json::array();
  for (const ChannelReport& c : r.channels) {
    Json channel = {{"channel", c.channel},        {"state", channel_state(c)},           {"send_count", c.counts.send},
                    {"recv_count", c.counts.recv}, {"overwritten", c.counts.overwritten}, {"lanes", Json::array()}};
    for (const LaneReport& lane : c.lanes) channel["lanes"].push_back(to_json(lane));
    json["channels"].push_back(channel);
  }
  json["proxies"] = Json::array();
  for (const ProxyReport& proxy : r.proxies) json["proxies"].push_back(to_json(proxy));
  return json;
}

// "ccld-<pid>-<number>.frame"; 0 if it is not such a name.
uint32_t pid_of(const std::string& name) {
  unsigned pid = 0, number = 0;
  int length = 0;
  if (std::sscanf(name.c_str(), "ccld-%u-%u.frame%n", &pid, &number, &length) != 2) return 0;
  return static_cast<size_t>(length) == name.size() ? pid : 0;
}

}  // namespace

FramesOutput show_frames(const FramesOptions& options) {
  FramesOutput output;
  std::error_code error;
  std::vector<std::string> paths;
  for (fs::directory_iterator it(options.dir, error), end; !error && it != end; it.increment(error)) {
    const uint32_t pid = pid_of(it->path().filename().string());
    const bool wanted =
        options.pids.empty() || std::find(options.pids.begin(), options.pids.end(), pid) != options.pids.end();
    if (pid != 0 && wanted) paths.push_back(it->path().string());
  }
  if (error) {
    output.errors.push_back(options.dir + ": " + error.message());
    output.failed = true;
    return output;
  }
  std::sort(paths.begin(), paths.end());

  struct Opened {
    std::string path;
    abi::MappedFrame frame;
    Look look;
  };
  std::vector<Opened> frames;
  for (const std::string& path : paths) {
    std::string reason;
    std::optional<abi::MappedFrame> frame = abi::MappedFrame::open(path, &reason);
    if (!frame) {
      output.errors.push_back(path + ": " + reason);
      continue;
    }
    Look look = look_at(frame->view());
    frames.push_back({path, std::move(*frame), std::move(look)});
  }
  if (!frames.empty()) options.pause();
  const std::string boot_id = first_line(fs::path(options.proc_dir) / "sys/kernel/random/boot_id");
  std::vector<FrameReport> reports;
  for (const Opened& opened : frames) {
    reports.push_back(report_frame(options, opened.path, opened.frame.view(), boot_id, opened.look));
    if (options.clean && reports.back().process == ProcessState::gone && !fs::remove(opened.path, error) && error)
      output.errors.push_back(opened.path + ": cannot remove it: " + error.message());
  }
  std::stable_sort(reports.begin(), reports.end(), [](const FrameReport& a, const FrameReport& b) {
    return std::tuple(a.identity.comm_uid, a.identity.rank, a.identity.pid) <
           std::tuple(b.identity.comm_uid, b.identity.rank, b.identity.pid);
  });
  if (options.json) {
    Json json = Json::array();
    for (const FrameReport& r : reports) json.push_back(to_json(r));
    output.text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  } else {
    output.text = to_text(options, reports);
  }
  return output;
}

void add_frames_command(CLI::App& app) {
  auto options = std::make_shared<FramesOptions>();
  CLI::App* command = app.add_subcommand(
      "frames", "Print the probing frames of the processes on this host, also of a stopped or killed one");
  command->add_option("--dir", options->dir, "Folder of the frames (NCCL_PROBE_FRAMES_DIR)")
      ->envname("NCCL_PROBE_FRAMES_DIR")
      ->capture_default_str();
  command->add_option("--pid", options->pids, "Only of these processes");
  command->add_flag("--all", options->all, "Channels, lanes and proxies also where nothing is in flight");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--clean", options->clean, "Remove the frames of processes that are gone, after printing them");
  command->callback([options] {
    const FramesOutput output = show_frames(*options);
    std::fputs(output.text.c_str(), stdout);
    for (const std::string& line : output.errors) std::fprintf(stderr, "ccld frames: %s\n", line.c_str());
    if (output.failed) throw CLI::RuntimeError(exit_failed);
  });
}

}  // namespace ccld::decision
