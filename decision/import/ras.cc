#include "decision/import/ras.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "decision/import/fields.h"
#include "decision/import/limits.h"

namespace ccld::decision::dumps {
namespace {

// ncclResult_t
constexpr int nccl_success = 0, nccl_invalid_argument = 4, nccl_invalid_usage = 5, nccl_remote_error = 6,
              nccl_in_progress = 7;

// How sure a verdict is; judgements, as those of judge.cc.
constexpr double sure_dead = 0.9;
constexpr double sure_silent = 0.7;
constexpr double sure_error = 0.9;
constexpr double sure_left = 0.6;
constexpr double sure_stands = 0.85;  // two moments, between which nothing moved
constexpr double sure_behind_once = 0.4;  // one moment: hosts run ahead of each other
constexpr double sure_contradict = 0.7;

const char* error_text(int result) {
  switch (result) {
    case 1: return "unhandled CUDA error";
    case 2: return "system error";
    case 3: return "internal error";
    case nccl_invalid_argument: return "invalid argument";
    case nccl_invalid_usage: return "invalid usage";
    case nccl_remote_error: return "error of a remote process";
    case nccl_in_progress: return "in progress";
    default: return "unknown error";
  }
}

int small_integer(Fields& fields, const char* key, int64_t lowest, int64_t highest) {
  const int64_t n = fields.integer(key);
  if (fields.ok() && (n < lowest || n > highest))
    fields.refuse(key, absl::StrCat(n, " is not from ", lowest, " to ", highest));
  return static_cast<int>(n);
}

void read_place(Fields& fields, int size, RasRank& out) {
  out.rank = small_integer(fields, "rank", 0, size - 1);
  out.host = fields.text_or("host", "");
  if (out.host == "unknown") out.host.clear();
  out.pid = std::max<int64_t>(0, fields.integer_or("pid", 0));
  out.cuda_device = static_cast<int>(std::clamp<int64_t>(fields.integer_or("cuda_dev", -1), -1, 1 << 16));
}

void read_rank(const Value& value, std::string place, int size, RasRank& out, absl::Status& status) {
  Fields fields(&value, place, status);
  read_place(fields, size, out);
  Fields state(fields.required("status"), absl::StrCat(place, ".status"), status);
  out.init_state = small_integer(state, "init_state", 0, 15);
  out.async_error = small_integer(state, "async_error", 0, 15);
  out.finalized = state.boolean_or("finalize_called", false) || state.boolean_or("destroy_flag", false);
  out.aborted = state.boolean_or("abort_flag", false);
  const Value* counts = fields.required("collective_counts");
  if (counts == nullptr) return;
  constexpr size_t kinds_max = 64;
  if (counts->dict() == nullptr || counts->dict()->size() > kinds_max)
    return fields.refuse("collective_counts", "a dict of counts is expected");
  for (const auto& [key, count] : *counts->dict()) {
    if (key->text() == nullptr || count->integer() == nullptr || *count->integer() < 0)
      return fields.refuse("collective_counts", "a count from 0 on is expected for each operation");
    out.calls[*key->text()] = *count->integer();
  }
}

void read_missing(const Value& value, std::string place, int size, RasRank& out, absl::Status& status) {
  Fields fields(&value, place, status);
  read_place(fields, size, out);
  Fields state(fields.required("status"), absl::StrCat(place, ".status"), status);
  out.missing = true;
  out.unresponsive = state.boolean_or("unresponsive", false);
  out.dead = state.boolean_or("considered_dead", false);
}

void read_communicator(const Value& value, const std::string& place, RasComm& out, absl::Status& status) {
  Fields fields(&value, place, status);
  const std::string hash = fields.text("hash"), second = fields.text_or("secondary_hash", "");
  out.hash = second.empty() ? hash : absl::StrCat(hash, " (", second, ")");
  if (status.ok() && !absl::SimpleHexAtoi(hash, &out.id))
    return fields.refuse("hash", "a hexadecimal number is expected");
  out.size = small_integer(fields, "size", 1, ranks_max);
  std::set<int> seen;
  for (const char* key : {"ranks", "missing_ranks"}) {
    const List& rows = fields.list(key);
    for (size_t r = 0; status.ok() && r < rows.size(); ++r) {
      const std::string of_rank = absl::StrCat(place, ".", key, "[", r, "]");
      RasRank rank;
      if (absl::string_view(key) == "ranks")
        read_rank(*rows[r], of_rank, out.size, rank, status);
      else
        read_missing(*rows[r], of_rank, out.size, rank, status);
      if (status.ok() && !seen.insert(rank.rank).second)
        fields.refuse(absl::StrCat(key, "[", r, "].rank"), "this rank was named before");
      out.ranks.push_back(std::move(rank));
    }
  }
}

int64_t total(const RasRank& r) {
  int64_t sum = 0;
  for (const auto& [kind, count] : r.calls)
    if (__builtin_add_overflow(sum, count, &sum)) return std::numeric_limits<int64_t>::max();
  return sum;
}
int64_t count_of(const RasRank& r, const std::string& kind) {
  const auto found = r.calls.find(kind);
  return found == r.calls.end() ? 0 : found->second;
}

// "AllReduce: 4 against 5"; of all kinds whose counts differ.
std::string counts_text(const RasRank& r, const RasRank& other) {
  std::string out;
  for (const auto& [kind, count] : other.calls)
    if (const int64_t own = count_of(r, kind); own != count)
      absl::StrAppend(&out, out.empty() ? "" : ", ", kind, ": ", own, " against ", count);
  return out;
}

class RasJudge {
 public:
  RasJudge(std::vector<RasMoment> moments, const Thresholds& thresholds)
      : moments_(std::move(moments)), thresholds_(thresholds) {
    std::stable_sort(moments_.begin(), moments_.end(),
                     [](const RasMoment& a, const RasMoment& b) { return a.seconds < b.seconds; });
  }

  Findings run() {
    const RasMoment& last = moments_.back();
    for (const RasComm& c : last.communicators) look(c);
    uint64_t id = 0;
    for (Incident& i : findings_.incidents) i.id = ++id;
    findings_.source = "ras";
    findings_.summary = absl::StrCat(
        moments_.size() == 1 ? "one moment, " : absl::StrCat(moments_.size(), " moments, the last "), last.time, ", ",
        last.communicators.size(), last.communicators.size() == 1 ? " communicator" : " communicators");
    if (last.timeouts > 0)
      findings_.notes.push_back(
          absl::StrCat("RAS did not hear ", last.timeouts, " of its threads in time: its picture may have holes"));
    findings_.not_shown = {"whether calls have ended", "sizes and types of calls, Send and Recv",
                           "which GPU, NIC or link keeps a call", "when it began", "slow calls"};
    return std::move(findings_);
  }

 private:
  Incident begin(const RasComm& c, FaultClass fault, VerdictState state, double confidence) const {
    Incident i;
    i.revision = 1;
    i.fault = fault;
    i.state = state;
    i.confidence = confidence;
    i.comm = CommUid{c.id};
    i.comm_name = c.hash;
    i.rank_count = c.size;
    return i;
  }
  Culprit culprit(const RasRank& r, Condition condition, std::string reason) const {
    Culprit out;
    out.rank = Rank{r.rank};
    out.host = r.host;
    out.pid = static_cast<uint32_t>(r.pid);
    out.cuda_device = r.cuda_device;
    out.component = Component::process;
    out.condition = condition;
    out.reason = std::move(reason);
    return out;
  }

  void look(const RasComm& c) {
    if (lost(c) | errors(c) | aborted(c) | initializing(c))
      return;  // what their ranks have called says nothing any more
    counts(c);
  }

  bool lost(const RasComm& c) {
    std::optional<Incident> dead, silent, left;
    for (const RasRank& r : c.ranks) {
      if (!r.missing) continue;
      std::optional<Incident>& i = r.dead ? dead : r.unresponsive ? silent : left;
      if (!i)
        i = r.dead ? begin(c, FaultClass::h1_not_entered, VerdictState::confirmed, sure_dead)
                   : begin(c, FaultClass::h1_not_entered, VerdictState::suspected,
                           r.unresponsive ? sure_silent : sure_left);
      i->culprits.push_back(
          r.dead           ? culprit(r, Condition::gone, "RAS holds its process for dead")
          : r.unresponsive ? culprit(r, Condition::silent, "its RAS thread does not answer")
                           : culprit(r, Condition::left, "its process answers and has no such communicator any more"));
    }
    if (silent) silent->next_step = "See whether the processes live and whether their hosts can be reached.";
    if (left) {
      left->title = "ranks have left the communicator";
      left->next_step = "See whether these ranks have ended or aborted it; while a job ends this is no fault.";
    }
    for (std::optional<Incident>* i : {&dead, &silent, &left})
      if (i->has_value()) findings_.incidents.push_back(*std::move(*i));
    return dead.has_value() || silent.has_value() || left.has_value();
  }

  // Of hardware, but what NCCL refuses is the program's.
  bool errors(const RasComm& c) {
    Incident i = begin(c, FaultClass::h3_hardware, VerdictState::confirmed, sure_error);
    Incident refused = begin(c, FaultClass::h1_not_entered, VerdictState::confirmed, sure_error);
    std::vector<Rank> remote;
    for (const RasRank& r : c.ranks) {
      for (const int result : {r.init_state, r.async_error}) {
        if (r.missing || result == nccl_success || result == nccl_in_progress) continue;
        if (result == nccl_remote_error) {
          remote.push_back(Rank{r.rank});
          break;
        }
        Culprit of = culprit(r, Condition::unknown,
                             absl::StrCat("NCCL reports an ", error_text(result),
                                          result == r.init_state ? " of its initialization" : ""));
        const bool of_program = result == nccl_invalid_argument || result == nccl_invalid_usage;
        if (of_program) of.component = Component::application;
        (of_program ? refused : i).culprits.push_back(std::move(of));
        break;
      }
    }
    if (!refused.culprits.empty()) {
      refused.title = "NCCL refuses what the program called";
      refused.next_step = "Look at the NCCL log (NCCL_DEBUG=WARN) of these ranks: it says what is wrong with the call.";
      if (i.culprits.empty()) {
        refused.victim_count = static_cast<uint32_t>(remote.size());
        refused.victim_sample = std::move(remote);
        remote.clear();
      }
      findings_.incidents.push_back(std::move(refused));
      if (i.culprits.empty()) return true;
    }
    if (i.culprits.empty() && remote.empty()) return false;
    i.next_step = "Look at the NCCL log (NCCL_DEBUG=WARN) and at the kernel log of these ranks' hosts.";
    if (i.culprits.empty()) {
      i.title = "ranks report an error of a remote process, and no rank reports one of its own";
      i.candidates = remote;
      i.state = VerdictState::suspected;
      i.confidence = sure_left;
    } else {
      i.victim_count = static_cast<uint32_t>(remote.size());
      i.victim_sample = remote;
    }
    findings_.incidents.push_back(std::move(i));
    return true;
  }

  bool aborted(const RasComm& c) {
    Incident i = begin(c, FaultClass::h1_not_entered, VerdictState::confirmed, sure_left);
    size_t living = 0;
    for (const RasRank& r : c.ranks) {
      if (r.missing) continue;
      if (r.aborted)
        i.culprits.push_back(culprit(r, Condition::aborted, "it aborted the communicator"));
      else
        ++living;
    }
    if (i.culprits.empty() || living == 0) return false;
    i.next_step = "Look at why these ranks aborted: a timeout of the framework, or an exception.";
    findings_.incidents.push_back(std::move(i));
    return true;
  }

  bool initializing(const RasComm& c) {
    size_t behind = 0;
    Incident i = begin(c, FaultClass::h1_not_entered, VerdictState::suspected, sure_behind_once);
    for (const RasRank& r : c.ranks) {
      if (r.missing || r.init_state != nccl_in_progress) continue;
      ++behind;
      i.candidates.push_back(Rank{r.rank});
    }
    if (behind == 0) return false;
    i.title = absl::StrCat("communicator initialization has not ended on ", behind, behind == 1 ? " rank" : " ranks");
    i.next_step = "If it lasts, look at what these ranks wait for (py-spy dump --native).";
    findings_.incidents.push_back(std::move(i));
    return true;
  }

  // For how long no count of this communicator has moved up to the last moment; 0: it moved, or there is one moment.
  int64_t stands_seconds(const RasComm& c) const {
    int64_t since = moments_.back().seconds;
    for (size_t m = moments_.size() - 1; m-- > 0;) {
      const auto& known = moments_[m].communicators;
      const auto before = std::find_if(known.begin(), known.end(), [&](const RasComm& o) { return o.hash == c.hash; });
      if (before == known.end() || before->ranks.size() != c.ranks.size()) break;
      const bool same =
          std::equal(c.ranks.begin(), c.ranks.end(), before->ranks.begin(),
                     [](const RasRank& a, const RasRank& b) { return a.rank == b.rank && a.calls == b.calls; });
      if (!same) break;
      since = moments_[m].seconds;
    }
    return moments_.back().seconds - since;
  }

  void counts(const RasComm& c) {
    std::vector<const RasRank*> ranks;
    for (const RasRank& r : c.ranks)
      if (!r.missing && !r.finalized) ranks.push_back(&r);
    if (ranks.size() < 2) return;
    const RasRank& ahead = **std::max_element(ranks.begin(), ranks.end(),
                                              [](const RasRank* a, const RasRank* b) { return total(*a) < total(*b); });
    std::vector<const RasRank*> behind, contradicting;
    for (const RasRank* r : ranks) {
      bool more = false, less = false;
      for (const auto& [kind, count] : ahead.calls) {
        more |= count_of(*r, kind) > count;
        less |= count_of(*r, kind) < count;
      }
      if (more)
        contradicting.push_back(r);
      else if (less)
        behind.push_back(r);
    }
    const int64_t stands = stands_seconds(c);
    if (!contradicting.empty()) return report_contradiction(c, ahead, contradicting, ranks.size());
    if (behind.empty()) {
      if (static_cast<double>(stands) >= thresholds_.stands_s_min)
        findings_.notes.push_back(absl::StrCat("communicator ", c.hash, ": no rank called a collective for ", stands,
                                               " s; all have called equally many"));
      return;
    }
    // Without a second moment, or while it moves, hosts may just be ahead of each other.
    if (stands == 0 && moments_.size() > 1) return;
    const bool shown = static_cast<double>(stands) >= thresholds_.stands_s_min;
    Incident i = begin(c, FaultClass::h1_not_entered, shown ? VerdictState::confirmed : VerdictState::suspected,
                       shown ? sure_stands : sure_behind_once);
    const bool minority = behind.size() * 2 < ranks.size();
    for (const RasRank* r : behind) {
      if (minority)
        i.culprits.push_back(
            culprit(*r, Condition::unknown,
                    absl::StrCat("called fewer collectives than the others (", counts_text(*r, ahead), ")")));
      else
        i.candidates.push_back(Rank{r->rank});
    }
    if (!minority)
      i.title = absl::StrCat(behind.size(), " of ", ranks.size(), " ranks called fewer collectives than the others");
    i.victim_count = static_cast<uint32_t>(ranks.size() - behind.size());
    i.evidence.push_back(
        {.kind = EvidenceKind::calls_made, .rank = ahead.rank, .value = static_cast<double>(total(ahead))});
    for (const RasRank* r : behind)
      if (i.evidence.size() < 8)
        i.evidence.push_back(
            {.kind = EvidenceKind::calls_made, .rank = r->rank, .value = static_cast<double>(total(*r))});
    if (shown) i.evidence.push_back({.kind = EvidenceKind::still_for, .value = static_cast<double>(stands) * 1e3});
    i.next_step = shown ? "Look at what these ranks do instead (py-spy dump)."
                        : "Hosts may run ahead of each other: give a second `ncclras -f json`, some 10 s later; what "
                          "has not moved then stands.";
    findings_.incidents.push_back(std::move(i));
  }

  void report_contradiction(const RasComm& c, const RasRank& ahead, const std::vector<const RasRank*>& contradicting,
                            size_t rank_count) {
    Incident i = begin(c, FaultClass::h2_inconsistent, VerdictState::suspected, sure_contradict);
    const bool minority = contradicting.size() * 2 < rank_count;
    for (const RasRank* r : contradicting) {
      if (minority)
        i.culprits.push_back(culprit(
            *r, Condition::unknown,
            absl::StrCat("called other collectives than rank ", ahead.rank, " (", counts_text(*r, ahead), ")")));
      else
        i.candidates.push_back(Rank{r->rank});
    }
    if (!minority) {
      i.candidates.push_back(Rank{ahead.rank});
      std::sort(i.candidates.begin(), i.candidates.end());
    }
    i.title = "ranks called different collectives";
    i.next_step = "Compare the code that calls collectives on these ranks.";
    findings_.incidents.push_back(std::move(i));
  }

  std::vector<RasMoment> moments_;
  const Thresholds thresholds_;
  Findings findings_;
};

}  // namespace

bool is_ras(const Value& document) {
  return document.find("nccl_version") != nullptr && document.find("communicators") != nullptr;
}

absl::Status read_ras(const Value& value, RasMoment& out) {
  absl::Status status;
  Fields document(&value, "", status);
  out.time = document.text("timestamp");
  absl::Time time;
  std::string error;
  if (status.ok() && !absl::ParseTime("%Y-%m-%d %H:%M:%S", out.time, &time, &error))
    document.refuse("timestamp", "a time such as 2026-01-31 12:00:00 is expected");
  out.seconds = status.ok() ? absl::ToUnixSeconds(time) : 0;
  const List& communicators = document.list("communicators");
  for (size_t c = 0; status.ok() && c < communicators.size(); ++c)
    read_communicator(*communicators[c], absl::StrCat("communicators[", c, "]"), out.communicators.emplace_back(),
                      status);
  if (const Value* ras = document.optional("ras"); status.ok() && ras != nullptr)
    out.timeouts = Fields(ras, "ras", status).integer_or("timeouts_count", 0);
  return status;
}

Findings judge_ras(std::vector<RasMoment> moments, const Thresholds& thresholds) {
  return RasJudge(std::move(moments), thresholds).run();
}

}  // namespace ccld::decision::dumps
