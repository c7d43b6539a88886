#include "decision/server/tune.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/ingest/limits.h"
#include "decision/report/find_communicator.h"
#include "decision/server/host_port.h"
#include "decision/server/request_fields.h"
#include "schemas/wire/control_generated.h"

namespace ccld::decision::server {
namespace {

using report::Json;

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status refuse(const std::string& text) { return absl::InvalidArgumentError(text); }

}  // namespace

absl::StatusOr<TuneRequest> parse_tune_request(const std::string& body) {
  const auto json = parse_request(body);
  if (!json.ok()) return json.status();
  TuneRequest request;
  for (const auto& [name, value] : json->items()) {
    if (name == "job" || name == "host") {
      if (!value.is_string()) return refuse(absl::StrCat(name, " is not a text"));
      (name == "job" ? request.job : request.host) = value.get<std::string>();
    } else if (name == "pid") {
      if (!value.is_number_unsigned() || value.get<uint64_t>() == 0 || value.get<uint64_t>() > INT32_MAX) {
        return refuse(absl::StrCat("pid is not valid: ", text_of(value)));
      }
      request.pid = value.get<uint32_t>();
    } else if (absl::Status s = set_wish(request.wishes, name, text_of(value)); !s.ok()) {
      return s;
    }
  }
  if (!json->contains("job")) return refuse("job is missing");
  if (request.wishes.fields == 0)
    return refuse("nothing is asked for: running, sample_us, log, budget_ppm or endpoint is expected");
  return request;
}

absl::StatusOr<TuneRequest> parse_validate_request(const std::string& body) {
  const auto json = parse_request(body);
  if (!json.ok()) return json.status();
  TuneRequest request;
  ValidationWish& wish = request.validation.emplace();
  for (const auto& [name, value] : json->items()) {
    if (name == "hold_s") {
      if (!value.is_number() || !(value.get<double>() >= hold_s_least && value.get<double>() <= hold_s_max))
        return refuse(absl::StrCat("hold_s is not from ", hold_s_least, " to ", hold_s_max, ": ", text_of(value)));
      wish.hold_ms = static_cast<uint32_t>(value.get<double>() * 1000);
      continue;
    }
    if (name != "job" && name != "communicator" && name != "meet")
      return refuse(absl::StrCat("there is no field '", name, "'"));
    if (!value.is_string()) return refuse(absl::StrCat(name, " is not a text"));
    const auto text = value.get<std::string>();
    if (name == "job") {
      request.job = text;
    } else if (name == "communicator") {
      const auto comm = report::parse_comm(text);
      if (!comm) return refuse(absl::StrCat("communicator is not 16 hexadecimal digits: '", text, "'"));
      wish.comm = *comm;
    } else {
      if (const auto address = parse_host_port(text);
          !address.ok() || address->port == 0 || text.size() > abi::meet_bytes_max)
        return refuse(absl::StrCat("meet is not host:port: '", text, "'"));
      wish.meet = text;
    }
  }
  for (const char* needed : {"job", "communicator", "meet"})
    if (!json->contains(needed)) return refuse(absl::StrCat(needed, " is missing"));
  return request;
}

absl::StatusOr<TuneAnswer> TuneQueue::ask(TuneRequest request, absl::Duration timeout) {
  const auto waiting = std::make_shared<Waiting>();
  waiting->request = std::move(request);
  std::unique_lock lock(mutex_);
  if (waiting_.size() >= waiting_max) return absl::UnavailableError("too many requests wait already");
  waiting_.push_back(waiting);
  const auto answered = [&waiting] { return waiting->answer.has_value(); };
  if (answered_.wait_for(lock, absl::ToChronoNanoseconds(timeout), answered)) return *waiting->answer;
  waiting->given_up = true;
  return absl::UnavailableError("the service is busy and did not take the request");
}

void TuneQueue::serve(const std::function<TuneAnswer(const TuneRequest&)>& carry_out) {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return;
  for (; !waiting_.empty(); waiting_.pop_front()) {
    Waiting& w = *waiting_.front();
    if (!w.given_up) w.answer = carry_out(w.request);
  }
  answered_.notify_all();
}

// nullptr: there is no room for it.
ControlDesk::Probe* ControlDesk::probe_of(const ProcessId& process) {
  if (const auto found = probes_.find(process); found != probes_.end()) return &found->second;
  if (!process.host.empty()) {
    ProcessId nameless = process;  // it may have spoken before it knew what its host is called
    nameless.host.clear();
    if (auto node = probes_.extract(nameless); !node.empty()) {
      node.key() = process;
      return &probes_.insert(std::move(node)).position->second;
    }
  }
  return full() ? nullptr : &probes_[process];
}

void ControlDesk::heard(const Batch& batch, const std::string& connection, Nanoseconds now_ns, Nanoseconds realtime_ns,
                        const Send& send, bool at_other_node) {
  Probe* const probe = probe_of(batch.process);
  if (probe == nullptr) return;
  const Image image = probe->newest.take(batch.batch_seq, batch.sent_monotonic_ns);
  if (image == Image::before) return;  // nobody asks for it any more, and it would count as a batch of this image
  if (image == Image::next) probe->session = probe->batches = 0;
  if (probe->job != batch.job) probe->job = batch.job;
  if (probe->connection != connection) probe->connection = connection;
  probe->heard_ns = now_ns;
  if (at_other_node) return;
  if (probe->session == 0) probe->session = static_cast<uint64_t>(realtime_ns);
  ++probe->batches;
  if (!batch.acknowledge) return;
  flatbuffers::FlatBufferBuilder fbb(128);
  const auto acknowledgement = wire::CreateAcknowledgement(fbb, probe->session, batch.batch_seq, probe->batches);
  wire::ControlRequestBuilder message(fbb);
  message.add_acknowledgement(acknowledgement);
  wire::FinishControlRequestBuffer(fbb, message.Finish());
  send(connection, absl::MakeConstSpan(fbb.GetBufferPointer(), fbb.GetSize()));  // it asks again if that is lost
}

bool ControlDesk::full() const { return probes_.size() >= ingest::processes_tracked_max; }

void ControlDesk::forget(Nanoseconds silent_since_ns) {
  std::erase_if(probes_, [&](const auto& p) { return p.second.heard_ns < silent_since_ns; });
}

TuneAnswer ControlDesk::carry_out(const TuneRequest& request, const Send& send) {
  TuneAnswer answer;
  flatbuffers::FlatBufferBuilder fbb;
  if (request.validation) {
    const ValidationWish& v = *request.validation;
    const auto validation = wire::CreateValidation(fbb, v.comm.value, fbb.CreateString(v.meet), v.hold_ms);
    wire::ControlRequestBuilder message(fbb);
    message.add_validation(validation);
    wire::FinishControlRequestBuffer(fbb, message.Finish());
  } else {
    answer.sequence = ++sequence_;
    const ControlWishes& w = request.wishes;
    const bool names_endpoint = (w.fields & abi::control_endpoint) != 0;
    const auto endpoint = names_endpoint ? fbb.CreateString(w.endpoint) : flatbuffers::Offset<flatbuffers::String>();
    wire::FinishControlRequestBuffer(fbb, wire::CreateControlRequest(fbb, answer.sequence, w.fields, w.running,
                                                                     w.sample_us, w.log, w.budget_ppm, endpoint));
  }
  const auto message = absl::MakeConstSpan(fbb.GetBufferPointer(), fbb.GetSize());
  for (const auto& [process, probe] : probes_) {
    if (probe.job != request.job || (!request.host.empty() && process.host != request.host) ||
        (request.pid.has_value() && process.pid != *request.pid)) {
      continue;
    }
    ++answer.matched;
    if (send(probe.connection, message)) ++answer.asked;
  }
  return answer;
}

}  // namespace ccld::decision::server
