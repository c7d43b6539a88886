#include <nlohmann/json.hpp>

#include "decision/cli/frames_report.h"
#include "decision/report/text_format.h"
#include "schemas/abi/cuda_versions.h"
#include "schemas/abi/names.h"

namespace ccld::decision::frames {
namespace {

using Json = nlohmann::ordered_json;

Json optional(const std::optional<double>& value) { return value ? Json(*value) : Json(); }
std::string hex(uint64_t value) { return format("%016llx", static_cast<unsigned long long>(value)); }

Json to_json(const LaneReport& lane) {
  const abi::LaneObservation& o = lane.observation;
  Json json = {{"direction", abi::name_of(o.direction)},
               {"peer", abi::lane_peer(o.lane.peer_and_warps)},
               {"group", o.group()},
               {"peer_index", o.peer_index()},
               {"run", o.lane.run},
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

Json to_json(const P2pReport& p) {
  const abi::P2pRecord& r = p.record;
  return {{"call", r.commit},
          {"direction", abi::name_of(static_cast<abi::Direction>(r.direction))},
          {"peer", r.peer},
          {"pair_seq", r.pair_seq},
          {"bytes", r.bytes},
          {"replay", p.replay},
          {"launched", (r.flags & abi::op_launched) != 0},
          {"begun", p.begun},
          {"signals", signal_names(r.signals)},
          {"enter_age_s", optional(p.enter_age_s)},
          {"launch_age_s", optional(p.launch_age_s)}};
}

Json operation_json(const FrameReport& report) {
  const OperationReport& operation = *report.operation;
  const abi::OpRecord& o = operation.record;
  return {{"op_seq", o.commit},
          {"in_flight", report.in_flight},
          {"function", abi::name_of(static_cast<abi::Function>(o.function))},
          {"count", o.count},
          {"datatype", abi::name_of(static_cast<abi::Datatype>(o.datatype))},
          {"reduction", abi::name_of(static_cast<abi::Reduction>(o.reduction))},
          {"root", o.root},
          {"algorithm", abi::name_of(static_cast<abi::Algorithm>(o.algorithm))},
          {"protocol", abi::name_of(static_cast<abi::Protocol>(o.protocol))},
          {"channels", o.channel_count},
          {"launched", (o.flags & abi::op_launched) != 0},
          {"captured", (o.flags & abi::op_captured) != 0},
          {"replay", operation.replay},
          {"kernel_operations", o.plan_operations},
          {"signals", signal_names(o.signals)},
          {"enter_age_s", optional(operation.enter_age_s)},
          {"launch_age_s", optional(operation.launch_age_s)}};
}

Json to_json(const FrameReport& r) {
  const abi::FrameIdentity& id = r.identity;
  Json json = {{"path", r.path},
               {"comm_uid", hex(id.comm_uid)},
               {"parent_uid", id.parent_uid == 0 ? Json() : Json(hex(id.parent_uid))},
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
               {"pid_namespace", id.pid_namespace},
               {"process", name_of(r.process)},
               {"entered_op_seq", r.entered},
               {"launched_op_seq", r.launched},
               {"completed_op_seq", r.completed},
               {"operations_in_flight", r.operations_in_flight},
               {"entered_p2p", r.entered_p2p},
               {"launched_p2p", r.launched_p2p},
               {"p2p_in_flight", r.p2p_in_flight},
               {"captured_plans", r.captured_plans},
               {"unseen_while_stopped", r.unseen_while_stopped},
               {"lapped_rounds", r.lapped_rounds},
               {"not_measured", hidden_names(r.hidden)},
               {"summed_kernels", r.summed_kernels},
               {"summed_busy_ns", r.summed_busy_ns},
               {"summed_send_count", r.summed_send_steps},
               {"summed_recv_count", r.summed_recv_steps},
               {"agent_samples", r.agent_samples},
               {"agent_age_s", optional(r.agent_age_s)}};
  if (r.operation) json["operation"] = operation_json(r);
  json["channels"] = Json::array();
  for (const ChannelReport& c : r.channels) {
    Json channel = {{"channel", c.channel},       {"run", c.run},
                    {"state", channel_state(c)},  {"send_count", c.send_steps},
                    {"recv_count", c.recv_steps}, {"overwritten", c.overwritten},
                    {"lanes", Json::array()}};
    for (const LaneReport& lane : c.lanes) channel["lanes"].push_back(to_json(lane));
    json["channels"].push_back(channel);
  }
  json["p2p"] = Json::array();
  for (const P2pReport& p : r.p2p) json["p2p"].push_back(to_json(p));
  json["proxies"] = Json::array();
  for (const ProxyReport& proxy : r.proxies) json["proxies"].push_back(to_json(proxy));
  return json;
}

Json to_json(const InitReport& init) {
  const abi::InitRecord& r = init.record;
  const auto stage = static_cast<abi::InitStage>(r.stage);
  return {{"number", r.commit},
          {"comm_hash", hex(r.comm_hash)},
          {"comm_number", r.comm_number == 0 ? Json() : Json(r.comm_number)},
          {"rank", r.rank},
          {"rank_count", r.rank_count},
          {"cuda_device", r.cuda_device},
          {"stage", abi::name_of(stage)},
          {"result", stage == abi::InitStage::failed ? Json(r.result) : Json()},
          {"stage_age_s", optional(init.stage_age_s)},
          {"enter_age_s", optional(init.enter_age_s)}};
}

Json to_json(const QueueReport& queue) {
  const abi::NetRecord& r = queue.record;
  return {{"device", r.device},
          {"device_name", text(r.device_name)},
          {"kind", abi::name_of(static_cast<abi::NetKind>(r.kind))},
          {"number", r.number},
          {"send_posted", r.send_posted},
          {"send_completed", r.send_completed},
          {"send_bytes_posted", r.send_bytes_posted},
          {"send_bytes_completed", r.send_bytes_completed},
          {"recv_posted", r.recv_posted},
          {"recv_completed", r.recv_completed},
          {"recv_bytes_completed", r.recv_bytes_completed},
          {"errors", r.errors},
          {"moves", queue.moves},
          {"post_age_s", optional(queue.post_age_s)},
          {"complete_age_s", optional(queue.complete_age_s)}};
}

Json to_json(const ProcessReport& r) {
  const abi::ProcessIdentityPart& id = r.identity;
  const abi::ControlStateLine& c = r.control;
  const char* const needed = abi::driver_needed(id.cuda_version);
  Json json = {{"path", r.path},
               {"pid", id.pid},
               {"pid_namespace", id.pid_namespace},
               {"host", text(id.host)},
               {"job", text(id.job)},
               {"process", name_of(r.process)},
               {"release", r.build.release[0] == 0 ? Json() : Json(text(r.build.release))},
               {"build_id", r.build.build_id[0] == 0 ? Json() : Json(text(r.build.build_id))},
               {"nccl_version", id.nccl_version},
               {"cuda_version", id.cuda_version},
               {"driver_needed", needed != nullptr ? Json(needed) : Json(nullptr)},
               {"driver_cuda_version", id.driver_cuda_version},
               {"probe",
                {{"running", c.running != 0},
                 {"sample_us", c.sample_us},
                 {"period_us", c.period_us},
                 {"budget_ppm", c.budget_ppm},
                 {"log", abi::name_of(static_cast<abi::LogVerbosity>(c.log))},
                 {"endpoint", text(c.endpoint)},
                 {"request_waits", r.control_pending}}},
               {"service",
                {{"state", abi::name_of(r.service.state)},
                 {"age_s", optional(r.service.age_s)},
                 {"acknowledged_batches", r.service.acknowledged},
                 {"undelivered_batches", r.service.undelivered},
                 {"waiting_batches", r.service.waiting},
                 {"unconfirmed_batches", r.service.unconfirmed}}},
               {"counters", Json::object()},
               {"initializations", Json::array()},
               {"net_queues", Json::array()}};
  for (const auto& [name, value] : r.counters) json["counters"][name] = value;
  for (const InitReport& init : r.inits) json["initializations"].push_back(to_json(init));
  for (const QueueReport& queue : r.queues) json["net_queues"].push_back(to_json(queue));
  return json;
}

}  // namespace

std::string to_json(const std::vector<FrameReport>& frames, const std::vector<ProcessReport>& processes, bool compact) {
  Json json = {{"frames", Json::array()}, {"processes", Json::array()}};
  for (const FrameReport& r : frames) json["frames"].push_back(to_json(r));
  for (const ProcessReport& r : processes) json["processes"].push_back(to_json(r));
  return json.dump(compact ? -1 : 2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ccld::decision::frames
