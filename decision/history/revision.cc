#include "decision/history/revision.h"

#include <limits>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "decision/model/names.h"
#include "decision/report/text_format.h"

namespace ccld::decision::history {
namespace {

using report::Json;
using report::member;
using report::text_of;

std::string text_or_nothing(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

// Texts are cut to milliseconds. From the middle of one the same text is made again, though the calendar and the clock
// are never read together quite alike.
Nanoseconds instant_of(const Json& verdict, const char* key, const report::WallClock& clock) {
  const auto ms = time_ms_of(text_or_nothing(verdict, key));
  return ms.has_value() ? *ms * ns_per_ms + ns_per_ms / 2 - clock.realtime_minus_clock_ns : 0;
}

}  // namespace

bool is_closed(const std::string& state) { return state == name(VerdictState::resolved) || state == name(VerdictState::ended); }

std::optional<int64_t> time_ms_of(const std::string& rfc3339) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, rfc3339, &time, &error)) return std::nullopt;
  const int64_t ms = absl::ToUnixMillis(time);
  // What nanoseconds can count: from 1970 to 2262.
  if (ms < 0 || ms > std::numeric_limits<Nanoseconds>::max() / ns_per_ms) return std::nullopt;
  return ms;
}

bool is_verdict(const Json& verdict) {
  return verdict.is_object() && member(verdict, "incident").is_number_unsigned() &&
         member(verdict, "revision").is_number_unsigned();
}

std::optional<Revision> revision_of(const Json& verdict) {
  if (!is_verdict(verdict)) return std::nullopt;
  const auto time = time_ms_of(text_or_nothing(verdict, "time"));
  if (!time.has_value()) return std::nullopt;
  Revision r;
  r.incident = member(verdict, "incident").get<uint64_t>();
  r.number = member(verdict, "revision").get<uint32_t>();
  r.time_ms = *time;
  r.run = text_or_nothing(verdict, "run");
  r.job = text_or_nothing(verdict, "job");
  r.fault_class = text_or_nothing(verdict, "class");
  r.state = text_or_nothing(verdict, "state");
  r.open = !is_closed(r.state);
  r.line = report::to_line(verdict);
  return r;
}

Json ended_verdict(Json newest, int64_t now_ms) {
  newest["time"] = report::WallClock{}.text(now_ms * ns_per_ms);
  newest["state"] = name(VerdictState::ended);
  newest["next_step"] = ended_reason;
  newest["revision"] = report::number_of(newest, "revision") + 1;
  return newest;
}

std::optional<LeftOpen> left_open_of(const Json& newest, const report::WallClock& clock) {
  const auto revision = revision_of(newest);
  if (!revision.has_value()) return std::nullopt;
  LeftOpen left;
  left.id = revision->incident;
  left.run = revision->run;
  left.revision = revision->number;
  left.job = revision->job;
  left.comm_name = text_or_nothing(newest, "comm_name");
  bool known = false;
  for (const FaultClass fault : {FaultClass::h1_not_entered, FaultClass::h2_inconsistent, FaultClass::h3_hardware,
                                 FaultClass::s1_computation_slow, FaultClass::s2_communication_slow, FaultClass::s3_mixed_slow}) {
    if (revision->fault_class != name(fault)) continue;
    left.fault = fault;
    known = true;
  }
  if (!known || !absl::SimpleHexAtoi(text_or_nothing(newest, "communicator"), &left.comm.value)) return std::nullopt;
  if (const Json& op = member(newest, "op_seq"); op.is_number_integer() && op.get<int64_t>() > 0) left.op = OpSeq(op.get<uint64_t>());
  if (const Json& victims = member(newest, "victim_communicators"); victims.is_array()) {
    for (const Json& v : victims) {
      LeftOpen::Victim victim;
      if (!absl::SimpleHexAtoi(text_or_nothing(v, "communicator"), &victim.comm.value)) continue;
      if (const Json& op = member(v, "op_seq"); op.is_number_integer() && op.get<int64_t>() > 0) victim.op = OpSeq(op.get<uint64_t>());
      left.victims.push_back(victim);
    }
  }
  left.onset_ns = instant_of(newest, "onset_time", clock);
  left.suspected_ns = instant_of(newest, "suspected_time", clock);
  return left;
}

std::vector<LeftOpen> all_left_open_of(const std::vector<Json>& newest, const report::WallClock& clock) {
  std::vector<LeftOpen> left;
  for (const Json& one : newest) {
    if (auto readable = left_open_of(one, clock); readable.has_value()) left.push_back(*std::move(readable));
  }
  return left;
}

}  // namespace ccld::decision::history
