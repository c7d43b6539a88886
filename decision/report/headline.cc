#include "decision/report/headline.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "decision/model/names.h"

namespace ccld::decision::report {
namespace {

// A rank is the communicator's. "rank 2 of dp1" where the job is known to give it another number.
std::string of_comm(const Culprit& c, const Incident& i) {
  if (!c.job_rank || *c.job_rank == c.rank) return "";
  return absl::StrCat(" of ", i.comm_name.empty() ? absl::StrCat(absl::Hex(i.comm.value, absl::kZeroPad16)) : i.comm_name);
}

std::string rank_text(const Culprit& c, const Incident& i) { return absl::StrCat("rank ", c.rank.value, of_comm(c, i)); }

std::string gpu_text(const Culprit& c, const Incident& i) {
  return c.cuda_device >= 0 && !c.host.empty() ? absl::StrCat("GPU ", c.cuda_device, " on ", c.host, " (", rank_text(c, i), ")")
                                               : absl::StrCat("GPU of ", rank_text(c, i));
}

std::string host_text(const Culprit& c, const Incident& i) {
  return c.host.empty() ? absl::StrCat("host of ", rank_text(c, i)) : absl::StrCat("host ", c.host);
}

// "link rank 3 -> rank 4"
std::string link_text(const Culprit& c, const Incident& i) {
  return c.peer ? absl::StrCat("link rank ", c.rank.value, " -> rank ", c.peer->value, of_comm(c, i)) : absl::StrCat("link of ", rank_text(c, i));
}

std::string device_text(const Culprit& c, const Incident& i) {
  return absl::StrCat("network device ", c.net_name.empty() ? "" : absl::StrCat(c.net_name, " "), "of ", rank_text(c, i));
}

std::string channel_text(const Culprit& c) { return c.channel >= 0 ? absl::StrCat(" (channel ", c.channel, ")") : ""; }

// Of a Send or Recv the incident has the call of who waits; only the reason has the one that is missing.
bool reason_has_call(const Culprit& c, const Incident& i) { return i.op.value == 0 && !c.reason.empty(); }

// "did not call Send 12 to rank 1", without what is to be said of it further on.
std::string predicate(const Culprit& c) { return c.reason.substr(0, c.reason.find(": ")); }

std::string replay_text(const Culprit& c, const Incident& i, const std::string& call) {
  constexpr absl::string_view subject = "its GPU ";
  if (reason_has_call(c, i) && absl::StartsWith(c.reason, subject)) return predicate(c).substr(subject.size());
  return absl::StrCat("did not begin ", i.replay != 0 ? absl::StrCat("replay ", i.replay) : "the replay", " of ", call);
}

// Without its replay.
std::string plain_call_text(const Incident& i) {
  if (i.op.value == 0) return i.signature.function == abi::Function::unknown ? "Send or Recv" : name(i.signature.function);
  return absl::StrCat(i.signature.function == abi::Function::unknown ? "operation" : name(i.signature.function), " #", i.op.value);
}

}  // namespace

std::string headline(const Culprit& c, const Incident& i) {
  const std::string call = call_text(i);
  switch (c.condition) {
    case Condition::not_called:
      return absl::StrCat(rank_text(c, i), " ", reason_has_call(c, i) ? predicate(c) : absl::StrCat("did not call ", call));
    case Condition::not_launched:
      return absl::StrCat(rank_text(c, i), " ", reason_has_call(c, i) ? predicate(c) : absl::StrCat("called ", call, " and did not launch it"));
    case Condition::kernel_not_started:
      return reason_has_call(c, i) ? absl::StrCat(rank_text(c, i), " ", predicate(c)) : absl::StrCat(gpu_text(c, i), " did not start ", call);
    case Condition::left: return absl::StrCat(rank_text(c, i), " left before ", call);
    case Condition::replay_not_begun: return absl::StrCat(gpu_text(c, i), " ", replay_text(c, i, plain_call_text(i)));
    case Condition::never_heard: return absl::StrCat(rank_text(c, i), " was never heard of");
    case Condition::initialization_behind: return absl::StrCat(rank_text(c, i), " is behind in the communicator initialization");
    case Condition::initialization_failed:
      return absl::StrCat("communicator initialization of ", rank_text(c, i), " failed");
    case Condition::stopped: return absl::StrCat("process of ", rank_text(c, i), " is stopped");
    case Condition::gone: return absl::StrCat("process of ", rank_text(c, i), " is gone");
    case Condition::silent: return absl::StrCat("process of ", rank_text(c, i), " is silent");
    case Condition::host_silent: return absl::StrCat(host_text(c, i), " is silent");
    case Condition::aborted: return absl::StrCat(rank_text(c, i), " aborted the communicator");
    case Condition::kernel_stuck: return absl::StrCat(gpu_text(c, i), " is stuck", channel_text(c));
    case Condition::kernel_not_begun: return absl::StrCat(gpu_text(c, i), " has not begun its kernel", channel_text(c));
    case Condition::data_not_seen: return absl::StrCat(gpu_text(c, i), " does not see the data that is there", channel_text(c));
    case Condition::proxy_stuck: return absl::StrCat("proxy of ", rank_text(c, i), " is stuck", channel_text(c));
    case Condition::proxy_not_begun: return absl::StrCat("proxy of ", rank_text(c, i), " has not begun", channel_text(c));
    case Condition::nic_stuck: return absl::StrCat(device_text(c, i), " does not send");
    case Condition::nothing_arrives: return absl::StrCat("nothing arrives over ", link_text(c, i), channel_text(c));
    // The incident's call is that of the others.
    case Condition::call_differs: return absl::StrCat("operation #", i.op.value, " of ", rank_text(c, i), " differs from the other ranks'");
    case Condition::call_skipped: return absl::StrCat(rank_text(c, i), " skipped ", call);
    case Condition::call_added: return absl::StrCat(rank_text(c, i), " made one call too many, operation #", i.op.value);
    case Condition::bytes_differ: return absl::StrCat("byte counts of ", rank_text(c, i), " differ from its peers'");
    case Condition::ended_early: return absl::StrCat(rank_text(c, i), " ended ", call, " before the others");
    case Condition::ended_late: return absl::StrCat(rank_text(c, i), " expects more of ", call, " than the others sent");
    case Condition::gpu_late: return absl::StrCat(gpu_text(c, i), " computes slowly");
    case Condition::host_late: return absl::StrCat("process of ", rank_text(c, i), " calls late");
    case Condition::link_slow: return absl::StrCat(link_text(c, i), " is slow");
    case Condition::nic_slow: return absl::StrCat(device_text(c, i), " is slow");
    case Condition::proxy_slow: return absl::StrCat("proxy of ", rank_text(c, i), " is slow");
    case Condition::proxy_polls_seldom: return absl::StrCat("proxy of ", rank_text(c, i), " seldom runs");
    case Condition::gpu_takes_slowly: return absl::StrCat(gpu_text(c, i), " takes data slowly");
    case Condition::processors_short:
      return c.component == Component::host ? absl::StrCat(host_text(c, i), " is short of processors")
                                            : absl::StrCat(rank_text(c, i), " gets no processor");
    case Condition::gaps_longer: return absl::StrCat(rank_text(c, i), " needs longer between its calls");
    case Condition::gpu_slow: return absl::StrCat(gpu_text(c, i), " is slow");
    case Condition::unknown: break;
  }
  const std::string what = c.component == Component::unknown ? "" : absl::StrCat(name(c.component), " of ");
  return absl::StrCat(what, rank_text(c, i), c.reason.empty() ? "" : ": ", c.reason);
}

const char* kind_text(FaultClass f) {
  switch (f) {
    case FaultClass::h1_not_entered:
    case FaultClass::h3_hardware: return "HANG";
    case FaultClass::h2_inconsistent: return "MISMATCH";
    default: return "SLOW";
  }
}

std::string call_text(const Incident& i) {
  return absl::StrCat(plain_call_text(i), i.op.value != 0 && i.replay != 0 ? absl::StrCat(" (replay ", i.replay, ")") : "");
}

std::string headline(const Incident& i) {
  if (i.culprits.empty()) {
    if (!i.title.empty()) return i.title;
    if (!i.cycle.empty()) return "ranks wait for each other in a circle";
    const bool slow = i.fault >= FaultClass::s1_computation_slow;
    // What differs may have ended, with wrong data.
    const std::string what = slow                                      ? absl::StrCat(call_text(i), " is slow")
                             : i.fault == FaultClass::h2_inconsistent ? absl::StrCat("ranks differ in ", call_text(i))
                                                                      : absl::StrCat(call_text(i), " does not end");
    if (i.candidates.empty()) return absl::StrCat(what, ", nobody is singled out");
    return absl::StrCat(what, ", ", i.candidates.size(), i.candidates.size() == 1 ? " candidate" : " candidates");
  }
  // The greatest share first; hangs have none and keep their order.
  std::vector<const Culprit*> order;
  for (const Culprit& c : i.culprits) order.push_back(&c);
  std::stable_sort(order.begin(), order.end(),
                   [](const Culprit* a, const Culprit* b) { return a->lost_time_share > b->lost_time_share; });
  // Channels of one link, ranks of one host: said once.
  std::vector<std::string> texts;
  for (const Culprit* c : order)
    if (std::string text = headline(*c, i); std::find(texts.begin(), texts.end(), text) == texts.end())
      texts.push_back(std::move(text));
  constexpr size_t named_max = 2;
  std::string out = texts[0];
  for (size_t t = 1; t < std::min(texts.size(), named_max); ++t) absl::StrAppend(&out, "; ", texts[t]);
  if (texts.size() > named_max) absl::StrAppend(&out, "; and ", texts.size() - named_max, " more");
  return out;
}

}  // namespace ccld::decision::report
