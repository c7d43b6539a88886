#include "decision/model/evidence.h"

#include "absl/strings/str_cat.h"

namespace ccld::decision {
namespace {

struct Row {
  EvidenceKind kind;
  const char* name;
  const char* unit;
  // $op, $peer, $subject and $channel (" on channel 1"; without it that comes last) stand for what the row names.
  const char* words;
};

using enum EvidenceKind;

constexpr Row rows[] = {
    {unknown, "unknown", "", "$subject"},
    {calls_made, "calls_made", "operations", "operations called"},
    {kernels_begun, "kernels_begun", "operations", "operations that its GPU has begun, by its frame"},
    {telemetry_age, "telemetry_age", "ms", "since the last telemetry of its process"},
    {operation_age, "operation_age", "ms", "in operation $op for"},
    {ranks_waiting, "ranks_waiting", "ranks", "ranks that wait in operation $op"},
    {ranks_absent_elsewhere, "ranks_absent_elsewhere", "ranks",
     "further ranks that are absent, because they wait elsewhere"},
    {call_age, "call_age", "ms", "in $subject with rank $peer for"},
    {still_for, "still_for", "ms", "nothing has moved on the communicator for"},
    {last_moved_elsewhere, "last_moved_elsewhere", "ms",
     "since it last moved, on communicator $subject, operation $op"},
    {waiters, "waiters", "connection endpoints", "that wait for it directly"},
    {not_moved, "not_moved", "ms", "has moved no step$channel for"},
    {waits_followed, "waits_followed", "connection endpoints", "waits that were followed to it"},
    {waits_without_end, "waits_without_end", "connection endpoints", "waits that were followed, and none ends"},
    {processor_missing, "processor_missing", "ms",
     "threads that move steps were ready and had no processor for most of"},
    {circle, "circle", "rank", "$subject waits for its rank"},
    {steps_posted, "steps_posted", "steps", "its GPU posted for rank $peer"},
    {steps_to_network, "steps_to_network", "steps", "its proxy handed to the network for rank $peer"},
    {steps_sent, "steps_sent", "steps", "the network says sent to rank $peer"},
    {steps_received, "steps_received", "steps", "its proxy received from rank $peer"},
    {steps_to_gpu, "steps_to_gpu", "steps", "its proxy handed to its GPU from rank $peer"},
    {proxy_poll_age, "proxy_poll_age", "ms", "since its proxy last polled the connection with rank $peer"},
    {ranks_calling, "ranks_calling", "ranks", "ranks that called $subject as operation $op"},
    {elements, "elements", "elements", "count of its call"},
    {bytes_sent, "bytes_sent", "bytes", "$subject to rank $peer"},
    {bytes_received, "bytes_received", "bytes", "$subject from rank $peer"},
    {pairs_differing, "pairs_differing", "pairs", "pairs of ranks whose byte counts differ"},
    {hangs_since, "hangs_since", "operation", "the communicator hangs since operation"},
    {ranks_in_stage, "ranks_in_stage", "ranks", "ranks that are $subject"},
    {ranks_never_heard, "ranks_never_heard", "ranks", "ranks that were never heard of"},
    {initialization_age, "initialization_age", "ms", "since the first rank began the initialization"},
    {initialization_result, "initialization_result", "", "its initialization failed with ncclResult_t"},
    {ranks_of_comm_wait, "ranks_of_comm_wait", "ranks", "ranks of communicator $subject wait for it"},
    {ranks_of_comm_may_wait, "ranks_of_comm_may_wait", "ranks", "ranks of communicator $subject may wait for it"},
    {steps_more_than_before, "steps_more_than_before", "steps", "to rank $peer more steps $subject than before"},
    {steps_more_than_others, "steps_more_than_others", "steps",
     "to rank $peer more steps $subject than on other connections"},
    {transfer, "transfer", "ms", "the transfer of an operation takes"},
    {transfer_reference, "transfer_reference", "ms", "it would take if every connection were as fast as the others"},
    {since_start, "since_start", "s", "it was so from the start, for"},
    {rise_in_operations, "rise_in_operations", "%", "of the rise lies in operations of communicator $subject"},
    {rise_between, "rise_between", "%", "of the rise lies between operations"},
    {rise_in_gaps_of_rank, "rise_in_gaps_of_rank", "%", "of the rise lies in its gaps"},
    {main_thread_waited, "main_thread_waited", "%", "main thread ready and without a processor, $subject"},
    {proxy_threads_waited, "proxy_threads_waited", "%", "proxy threads ready and without a processor, $subject"},
    {host_pressure, "host_pressure", "%", "some task of the host waited for a processor (PSI)"},
    {check_time, "check_time", "ms", "a repetition of $subject takes"},
    {check_reference, "check_reference", "ms", "$subject usually takes"},
    {also_seen, "also_seen", "", "also seen there: $subject"},
    {not_measured, "not_measured", "ranks", "not measured: $subject"},
    {paper, "paper", "", "$subject"},
};

const Row& row_of(EvidenceKind kind) {
  for (const Row& r : rows)
    if (r.kind == kind) return r;
  return rows[0];
}

}  // namespace

const char* name(EvidenceKind kind) { return row_of(kind).name; }

std::string unit_of(const Evidence& e) { return e.unit.empty() ? row_of(e.kind).unit : e.unit; }

std::string words(const Evidence& e) {
  std::string out;
  const std::string on_channel = e.channel >= 0 ? absl::StrCat(" on channel ", e.channel) : "";
  const std::string_view text = row_of(e.kind).words;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const auto replaces = [&](std::string_view place, const auto& value) {
      if (!rest.starts_with(place)) return false;
      absl::StrAppend(&out, value);
      at += place.size();
      return true;
    };
    if (replaces("$op", e.op.value) || replaces("$peer", e.peer) || replaces("$subject", e.subject) ||
        replaces("$channel", on_channel))
      continue;
    out += text[at++];
  }
  return text.find("$channel") == std::string_view::npos ? out + on_channel : out;
}

}  // namespace ccld::decision
