#include <algorithm>

#include "decision/cli/frames_report.h"
#include "decision/report/text_format.h"
#include "schemas/abi/cuda_versions.h"
#include "schemas/abi/names.h"

namespace ccld::decision::frames {
namespace {

using ull = unsigned long long;

std::string seconds(double s) { return s < 100 ? format("%.1f s", s) : format("%.0f s", s); }
std::string ago(const std::optional<double>& s) { return s ? seconds(*s) + " ago" : std::string("?"); }

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

std::string signature_text(const abi::OpRecord& r) {
  std::string out = abi::name_of(static_cast<abi::Function>(r.function));
  out += format(" %llu x %s", static_cast<ull>(r.count), abi::name_of(static_cast<abi::Datatype>(r.datatype)));
  if (static_cast<abi::Reduction>(r.reduction) != abi::Reduction::none)
    out += std::string(" ") + abi::name_of(static_cast<abi::Reduction>(r.reduction));
  if (r.root >= 0) out += format(" root %d", r.root);
  if (static_cast<abi::Algorithm>(r.algorithm) != abi::Algorithm::unknown)
    out += std::string(", ") + abi::name_of(static_cast<abi::Algorithm>(r.algorithm)) + " " +
           abi::name_of(static_cast<abi::Protocol>(r.protocol));
  if (r.channel_count != 0) out += format(", %u channel%s", r.channel_count, r.channel_count == 1 ? "" : "s");
  return out;
}

std::string operation_text(const FrameReport& report) {
  if (!report.operation)
    return report.p2p_in_flight == 0 ? "-" : format("%llu Send/Recv", static_cast<ull>(report.p2p_in_flight));
  const OperationReport& o = *report.operation;
  const bool launched = (o.record.flags & abi::op_launched) != 0, captured = (o.record.flags & abi::op_captured) != 0;
  std::string out = format("#%llu ", static_cast<ull>(o.record.commit)) + signature_text(o.record);
  if (o.record.plan_operations > 1) out += format(", one of %u in its kernel", o.record.plan_operations);
  if (o.replay != 0)
    out += format(", replay %u", o.replay);
  else if (captured)
    out += ", recorded into a graph";
  if (launched && !measures_anything(o.record.signals)) return out + ", not measured";
  if (!report.in_flight) return captured && o.replay == 0 ? out : out + ", finished";
  if (captured)
    return out + (report.operations_in_flight > 1
                      ? format(" (+%llu)", static_cast<ull>(report.operations_in_flight - 1))
                      : "");
  if (!launched)
    out +=
        o.enter_age_s ? ", entered " + seconds(*o.enter_age_s) + " ago, not launched" : std::string(", not launched");
  else if (o.launch_age_s)
    out += ", launched " + seconds(*o.launch_age_s) + " ago";
  if (report.operations_in_flight > 1) out += format(" (+%llu)", static_cast<ull>(report.operations_in_flight - 1));
  return out;
}

// "Send 7 to 3: 4096 bytes, launched 2.1 s ago, running"
std::string p2p_text(const P2pReport& p) {
  const abi::P2pRecord& r = p.record;
  const bool send = static_cast<abi::Direction>(r.direction) == abi::Direction::send;
  std::string out = format("%s %llu %s %d: %llu bytes", send ? "Send" : "Recv", static_cast<ull>(r.pair_seq),
                           send ? "to" : "from", r.peer, static_cast<ull>(r.bytes));
  if (p.replay != 0) return out + format(", replay %u, running", p.replay);
  if ((r.flags & abi::op_launched) == 0) return out + ", entered " + ago(p.enter_age_s) + ", not launched";
  return out + ", launched " + ago(p.launch_age_s) + (p.begun ? ", running" : ", not begun");
}

// "recv from 4: has 12, waits for data, wants 13, there is 12". Steps are those of this kernel.
std::string lane_text(const LaneReport& lane) {
  const abi::LaneObservation& o = lane.observation;
  const bool recv = o.direction == abi::Direction::recv;
  std::string out = format("%s %u", recv ? "recv from" : "send to", abi::lane_peer(o.lane.peer_and_warps));
  if (o.group() != 0) out += format(" (group %u)", o.group());
  out += format(": has %u", o.steps());
  if (o.wait != abi::WaitKind::none) {
    const uint32_t want = o.want_step - o.lane.base_step;
    out += format(", %s %s, wants %u",
                  lane.announced_only ? "last seen waiting for"
                  : o.certain         ? "waits for"
                                      : "may wait for",
                  abi::name_of(o.wait), want);
    if (o.certain || lane.announced_only)
      out += format(", there is %d", static_cast<int32_t>(o.seen_step - o.lane.base_step));
  } else if (lane.moves) {
    out += ", moves";
  }
  return out;
}

std::string proxy_text(const ProxyReport& proxy) {
  const abi::ProxyRecord& r = proxy.record;
  const bool send = static_cast<abi::Direction>(r.direction) == abi::Direction::send;
  const auto relative = [&r](uint64_t step) { return static_cast<long long>(step - r.base); };
  std::string out = format("proxy of channel %d %s %d", r.channel, send ? "send to" : "recv from", r.peer);
  if (r.net_device >= 0) out += format(" (net %d)", r.net_device);
  out += send ? format(": posted %lld, transmitted %lld, done %lld", relative(r.posted), relative(r.transmitted),
                       relative(r.done))
              : format(": posted %lld, received %lld, handed over %lld, done %lld", relative(r.posted),
                       relative(r.received), relative(r.transmitted), relative(r.done));
  out += format(" of %llu", static_cast<ull>(r.step_count));
  return out + (proxy.moves ? ", moves" : proxy.visited ? ", still" : ", not visited");
}

std::string init_text(const InitReport& init) {
  const abi::InitRecord& r = init.record;
  const auto stage = static_cast<abi::InitStage>(r.stage);
  std::string out =
      format("communicator %llu of this process, hash %016llx, rank %d of %d: %s %s", static_cast<ull>(r.commit),
             static_cast<ull>(r.comm_hash), r.rank, r.rank_count, abi::name_of(stage), ago(init.stage_age_s).c_str());
  if (stage == abi::InitStage::failed) return out + format(", ncclResult_t %d", r.result);
  return out + ", begun " + ago(init.enter_age_s);
}

std::string queue_text(const QueueReport& queue) {
  const abi::NetRecord& r = queue.record;
  std::string out = text(r.device_name);
  if (out.empty()) out = format("network device %d", r.device);
  out += r.number != 0 ? format(" queue pair %u", r.number) : std::string(" connection");
  out += format(": %llu sends in flight (%llu posted), %llu receives in flight, %llu bytes sent, %llu received",
                static_cast<ull>(r.send_posted - r.send_completed), static_cast<ull>(r.send_posted),
                static_cast<ull>(r.recv_posted - r.recv_completed), static_cast<ull>(r.send_bytes_completed),
                static_cast<ull>(r.recv_bytes_completed));
  out += ", last completion " + (r.complete_monotonic_ns == 0 ? std::string("never") : ago(queue.complete_age_s));
  if (r.errors != 0) out += format(", %llu failed", static_cast<ull>(r.errors));
  return out + (queue.moves ? ", moves" : "");
}

bool interesting(const InitReport& init) {
  const auto stage = static_cast<abi::InitStage>(init.record.stage);
  return stage != abi::InitStage::ready && stage != abi::InitStage::none;
}

}  // namespace

std::string to_text(const std::vector<FrameReport>& reports) {
  std::string out;
  const FrameReport* previous = nullptr;
  for (const FrameReport& r : reports) {
    if (previous == nullptr || previous->identity.comm_uid != r.identity.comm_uid) {
      if (previous != nullptr) out += "\n";
      const std::string name = text(r.identity.comm_name);
      out += format("communicator %016llx%s%s, %d ranks, job %s", static_cast<ull>(r.identity.comm_uid),
                    name.empty() ? "" : " ", name.c_str(), r.identity.rank_count, text(r.identity.job).c_str());
      if (r.identity.parent_uid != 0) out += format(", made from %016llx", static_cast<ull>(r.identity.parent_uid));
      out += format("\n  %4s %8s %-12s %3s %-10s %9s %9s %9s %8s  %s\n", "rank", "pid", "host", "gpu", "process",
                    "entered", "launched", "completed", "agent", "operation");
    }
    previous = &r;
    std::string process = name_of(r.process);
    if (r.state != abi::CommState::ready) process += std::string(",") + abi::name_of(r.state);
    out += format("  %4d %8u %-12s %3d %-10s %9llu %9llu %9llu %8s  ", r.identity.rank, r.identity.pid,
                  text(r.identity.host).c_str(), r.identity.cuda_device, process.c_str(), static_cast<ull>(r.entered),
                  static_cast<ull>(r.launched), static_cast<ull>(r.completed),
                  r.agent_age_s ? seconds(*r.agent_age_s).c_str() : "-") +
           operation_text(r) + "\n";
    if (r.operation && r.in_flight && (r.operation->record.flags & abi::op_launched) != 0 &&
        (r.operation->record.signals & (abi::signal_steps | abi::signal_waits)) !=
            (abi::signal_steps | abi::signal_waits)) {
      out += "         seen of it: " + joined(signal_names(r.operation->record.signals)) +
             "; what is not seen was not measured\n";
    }
    if (r.hidden != 0) out += "         not measured: " + joined(hidden_names(r.hidden)) + "\n";
    for (const ChannelReport& c : r.channels) {
      out += format("         channel %u: %s, SendCount %u, RecvCount %u%s", c.channel, channel_state(c).c_str(),
                    c.send_steps, c.recv_steps, c.overwritten ? " (overwritten)" : "");
      out += c.run == 0 ? "\n" : format(", run %u\n", c.run);
      for (const LaneReport& lane : c.lanes) out += "           " + lane_text(lane) + "\n";
    }
    for (const P2pReport& p : r.p2p) out += "         " + p2p_text(p) + "\n";
    if (r.p2p_in_flight > r.p2p.size())
      out += format("         and %llu more Send/Recv in flight\n", static_cast<ull>(r.p2p_in_flight - r.p2p.size()));
    for (const ProxyReport& proxy : r.proxies) out += "         " + proxy_text(proxy) + "\n";
    if (r.unseen_while_stopped != 0)
      out += format("         %llu calls were made while the probe was stopped\n",
                    static_cast<ull>(r.unseen_while_stopped));
  }
  return out;
}

namespace {

std::string cuda_text(uint32_t version) {
  return format("CUDA %u.%u", abi::cuda_major(version), abi::cuda_minor(version));
}

// Empty: an older library.
std::string driver_text(const abi::ProcessIdentityPart& id) {
  if (id.cuda_version == 0) return "";
  std::string out = "  libnccl was built with " + cuda_text(id.cuda_version);
  if (const char* needed = abi::driver_needed(id.cuda_version)) out += format(": needs driver %s or newer", needed);
  if (id.driver_cuda_version != 0) out += "; the driver here is for " + cuda_text(id.driver_cuda_version);
  if (abi::driver_too_old(id.cuda_version, id.driver_cuda_version)) out += " (too old)";
  return out + "\n";
}

// Empty: nothing is sent, or an older library.
std::string service_line(const ServiceReport& s) {
  if (s.state == abi::ServiceState::none) return "";
  return format("  service: %s%s; batches: %llu acknowledged, %llu not delivered, %llu waiting, %llu unconfirmed\n",
                service_text(s.state), s.age_s ? (", for " + seconds(*s.age_s)).c_str() : "",
                static_cast<ull>(s.acknowledged), static_cast<ull>(s.undelivered), static_cast<ull>(s.waiting),
                static_cast<ull>(s.unconfirmed));
}

}  // namespace

std::string to_text(const std::vector<ProcessReport>& reports) {
  std::string out;
  for (const ProcessReport& r : reports) {
    const abi::ControlStateLine& c = r.control;
    const std::string endpoint = text(c.endpoint);
    out +=
        format("process %u on %s, job %s, %s: probe %s, sample %u us (now %u), budget %u ppm, log %s, sends %s%s\n",
               r.identity.pid, text(r.identity.host).c_str(), text(r.identity.job).c_str(), name_of(r.process),
               c.running != 0 ? "running" : "stopped", c.sample_us, c.period_us, c.budget_ppm,
               abi::name_of(static_cast<abi::LogVerbosity>(c.log)),
               endpoint.empty() ? "nothing" : ("to " + endpoint).c_str(), r.control_pending ? ", a request waits" : "");
    if (r.build.build_id[0] != 0)
      out += format("  libnccl of ccld %s, build %s\n", text(r.build.release).c_str(), text(r.build.build_id).c_str());
    out += service_line(r.service);
    out += driver_text(r.identity);
    std::string counters;
    for (const auto& [name, value] : r.counters)
      counters += format("%s%s %llu", counters.empty() ? "" : ", ", name.c_str(), static_cast<ull>(value));
    if (!counters.empty()) out += "  " + counters + "\n";
    for (const InitReport& init : r.inits)
      if (interesting(init)) out += "  " + init_text(init) + "\n";
    for (const QueueReport& queue : r.queues) out += "  " + queue_text(queue) + "\n";
  }
  return out;
}

}  // namespace ccld::decision::frames
