#include "decision/import/inspector.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/import/fields.h"
#include "decision/import/limits.h"
#include "decision/import/parse_json.h"
#include "decision/model/digits.h"

namespace ccld::decision::dumps {
namespace {

// Over all files, at 32 bytes: a day of a large job.
constexpr size_t records_max = 32'000'000;
constexpr int ranks_compared_min = 3;  // of two, one is always first
// How sure a verdict is, is chosen, not measured: there is no set of logs with known faults. Why a rank is late is
// never shown, nor where a transfer is slow.
constexpr double sure_late = 0.7, sure_slower = 0.5;

constexpr absl::string_view need_all[] = {"AllReduce", "AllGather", "ReduceScatter"};

abi::Function function_of(absl::string_view kind) {
  if (kind == "AllReduce") return abi::Function::all_reduce;
  return kind == "AllGather" ? abi::Function::all_gather : abi::Function::reduce_scatter;
}

int64_t middle_of(std::vector<int64_t> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

uint64_t id_of(const std::string& text) {
  uint64_t id = 0;
  return absl::SimpleHexAtoi(text, &id) ? id : 0;
}

std::string milliseconds(double us) { return absl::StrFormat("%.3g ms", us / 1e3); }

}  // namespace

bool is_inspector(absl::string_view start) {
  return absl::StartsWith(start, "{") && absl::StrContains(start, "\"header\"") &&
         absl::StrContains(start, "\"coll_perf\"");
}

absl::Status InspectorReader::add_line(absl::string_view line, uint64_t number) {
  const auto in_line = [number](const absl::Status& s) {
    return s.ok() ? s : absl::DataLossError(absl::StrCat("line ", number, ": ", s.message()));
  };
  auto document = parse_json(line);
  if (!document.ok()) return in_line(document.status());
  absl::Status status;
  Fields root(document->get(), "", status);
  Fields header(root.required("header"), "header", status);
  Fields metadata(root.required("metadata"), "metadata", status);
  Fields call(root.required("coll_perf"), "coll_perf", status);
  const std::string version = metadata.text("inspector_output_format_version");
  if (status.ok() && !absl::StartsWith(version, "v4."))
    metadata.refuse("inspector_output_format_version", absl::StrCat("only v4 is known, not ", version.substr(0, 64)));
  const std::string id = header.text("id"), kind = call.text("coll"), source = call.text_or("coll_timing_source", "");
  const int64_t rank = header.integer("rank"), rank_count = header.integer("n_ranks");
  Record record{.number = static_cast<uint64_t>(std::max<int64_t>(0, call.integer("coll_sn"))),
                .rank = static_cast<int32_t>(rank),
                .took_us = call.integer("coll_exec_time_us"),
                .written_us = metadata.integer_or("dump_timestamp_us", 0)};
  const int64_t bytes = call.integer("coll_msg_size_bytes");
  if (status.ok() && (rank_count < 1 || rank_count > static_cast<int64_t>(ranks_max)))
    header.refuse("n_ranks", "this is no number of ranks");
  if (status.ok() && (rank < 0 || rank >= rank_count))
    header.refuse("rank", absl::StrCat(rank, " is not from 0 to ", rank_count - 1));
  if (status.ok() && record.took_us < 0) call.refuse("coll_exec_time_us", "a time from 0 on is expected");
  if (status.ok() && ++records_ > records_max)
    root.refuse("header", absl::StrCat("all files together have more than ", records_max, " lines"));
  Communicator& c = communicators_[id];
  if (status.ok() && c.rank_count != 0 && c.rank_count != rank_count)
    header.refuse("n_ranks",
                  absl::StrCat(rank_count, " ranks, but another line has ", c.rank_count, " for this communicator"));
  const std::string host = metadata.text_or("hostname", "");
  const int64_t pid = metadata.integer_or("pid", 0);
  if (!status.ok()) return in_line(status);
  c.id = id;
  c.rank_count = static_cast<int>(rank_count);
  c.processes[static_cast<int>(rank)] = {host, pid};
  newest_us_ = std::max(newest_us_, record.written_us);
  // By the host's clock a collective ends when it is launched: that says nothing of the GPU.
  if (source == "collective_cpu")
    ++host_timed_;
  else if (std::find(std::begin(need_all), std::end(need_all), kind) != std::end(need_all))
    c.calls[{kind, bytes}].push_back(record);
  return absl::OkStatus();
}

std::vector<InspectorReader::Round> InspectorReader::rounds_of(const Communicator& c, std::vector<Record> records) {
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    return std::tie(a.number, a.rank, a.written_us) < std::tie(b.number, b.rank, b.written_us);
  });
  std::vector<Round> out;
  for (size_t at = 0; at < records.size();) {
    size_t end = at;
    std::vector<int64_t> times;
    Round round;
    for (; end < records.size() && records[end].number == records[at].number; ++end) {
      if (end > at && records[end].rank == records[end - 1].rank) continue;
      times.push_back(records[end].took_us);
      if (round.shortest_rank >= 0 && records[end].took_us >= round.shortest_us) continue;
      round.shortest_us = records[end].took_us;
      round.shortest_rank = records[end].rank;
      round.written_us = records[end].written_us;
    }
    // The plugin leaves out calls, of each rank other ones: only rounds of which all ranks told say who was last.
    if (static_cast<int>(times.size()) == c.rank_count) {
      round.middle_us = middle_of(std::move(times));
      out.push_back(round);
    }
    at = end;
  }
  return out;
}

Incident InspectorReader::suspicion(const Communicator& c, FaultClass fault, double confidence, absl::string_view kind) {
  Incident i;
  i.revision = 1;
  i.fault = fault;
  i.state = VerdictState::suspected;
  i.confidence = confidence;
  i.comm = CommUid{id_of(c.id)};
  i.comm_name = c.id;
  i.rank_count = c.rank_count;
  i.signature.function = function_of(kind);
  return i;
}

void InspectorReader::judge_late(const Communicator& c, Findings& findings) const {
  if (c.rank_count < ranks_compared_min) return;
  size_t rounds = 0, last_rounds = 0;
  double in_calls_us = 0, waited_us = 0;
  // How often it was last, and how long the middle rank waited for it.
  std::map<int, std::pair<size_t, double>> by_rank;
  const std::pair<std::string, int64_t>* most = nullptr;
  for (const auto& [kind, records] : c.calls) {
    const std::vector<Round> of_kind = rounds_of(c, records);
    if (!of_kind.empty() && (most == nullptr || of_kind.size() > last_rounds)) {
      most = &kind;
      last_rounds = of_kind.size();
    }
    for (const Round& r : of_kind) {
      const auto wait_us = static_cast<double>(r.middle_us - r.shortest_us);
      ++rounds;
      in_calls_us += static_cast<double>(r.middle_us);
      waited_us += wait_us;
      ++by_rank[r.shortest_rank].first;
      by_rank[r.shortest_rank].second += wait_us;
    }
  }
  if (static_cast<double>(rounds) < thresholds_.rounds_min || in_calls_us <= 0 ||
      waited_us < thresholds_.waited_part_min * in_calls_us)
    return;
  const auto latest = std::max_element(by_rank.begin(), by_rank.end(),
                                       [](const auto& a, const auto& b) { return a.second.second < b.second.second; });
  const auto& [rank, late] = *latest;
  const double often = static_cast<double>(late.first) / static_cast<double>(rounds);
  if (often < thresholds_.last_part_min || late.second < thresholds_.last_part_min * waited_us) return;
  Incident i = suspicion(c, FaultClass::s1_computation_slow, sure_late, most->first);
  Culprit& culprit = i.culprits.emplace_back();
  const Process& process = c.processes.at(rank);
  culprit.rank = Rank{rank};
  culprit.host = process.host;
  culprit.pid = static_cast<uint32_t>(std::max<int64_t>(0, process.pid));
  culprit.component = Component::process;
  culprit.lost_time_share = late.second / waited_us;
  culprit.basis = Basis::peers;
  culprit.reason = absl::StrFormat("comes last in %.0f %% of %d calls; the others wait %s for it each time",
                                   often * 100, rounds, milliseconds(late.second / static_cast<double>(late.first)));
  i.gain = {.now_ns = static_cast<Nanoseconds>(in_calls_us * 1e3),
            .without_ns = static_cast<Nanoseconds>((in_calls_us - late.second) * 1e3)};
  i.victim_count = static_cast<uint32_t>(c.rank_count - 1);
  i.next_step =
      "Look at what this process and its GPU do between collectives: data loading, processor load, clocks and "
      "temperature of the GPU.";
  findings.incidents.push_back(std::move(i));
}

void InspectorReader::judge_slower(const Communicator& c, Findings& findings) const {
  for (const auto& [kind, records] : c.calls) {
    std::vector<Round> rounds = rounds_of(c, records);
    if (static_cast<double>(rounds.size()) < 4 * thresholds_.rounds_min) continue;
    const size_t quarter = rounds.size() / 4;
    const auto middle = [&](size_t from, size_t to) {
      std::vector<int64_t> times;
      for (size_t r = from; r < to; ++r) times.push_back(rounds[r].shortest_us);
      return middle_of(std::move(times));
    };
    const int64_t before_us = middle(0, quarter), now_us = middle(rounds.size() - quarter, rounds.size());
    if (static_cast<double>(now_us) < thresholds_.transfer_us_min ||
        static_cast<double>(now_us) < thresholds_.slower_min * static_cast<double>(std::max<int64_t>(before_us, 1)))
      continue;
    Incident i = suspicion(c, FaultClass::s2_communication_slow, sure_slower, kind.first);
    i.signature.datatype = abi::Datatype::uint8;  // the log has bytes only
    i.signature.count = static_cast<uint64_t>(std::max<int64_t>(0, kind.second));
    i.title = absl::StrCat(kind.first, " takes ", milliseconds(static_cast<double>(now_us)), ", it took ",
                           milliseconds(static_cast<double>(before_us)));
    i.gain = {.now_ns = now_us * 1000, .without_ns = before_us * 1000};
    i.next_step =
        "Look at links and NICs of these ranks: the log does not say which one; ranks that come late are not counted "
        "here.";
    findings.incidents.push_back(std::move(i));
    return;  // other sizes of the same communicator tell the same
  }
}

Findings InspectorReader::judge() const {
  Findings findings;
  findings.source = "inspector";
  for (const auto& [id, c] : communicators_) {
    judge_late(c, findings);
    judge_slower(c, findings);
  }
  uint64_t number = 0;
  for (Incident& i : findings.incidents) i.id = ++number;
  findings.newest_ns =
      newest_us_ > 0 && newest_us_ < std::numeric_limits<int64_t>::max() / 1000 ? newest_us_ * 1000 : 0;
  size_t ranks = 0, missing = 0;
  for (const auto& [id, c] : communicators_) {
    ranks += c.processes.size();
    missing += static_cast<size_t>(c.rank_count) - c.processes.size();
  }
  findings.summary =
      absl::StrCat(grouped(records_), " calls of ", ranks, ranks == 1 ? " rank in " : " ranks in ",
                   communicators_.size(), communicators_.size() == 1 ? " communicator" : " communicators");
  if (missing > 0)
    findings.notes.push_back(
        absl::StrCat("there are no lines of ", missing, " ranks: rounds that they are in are not compared"));
  if (host_timed_ > 0)
    findings.notes.push_back(
        absl::StrCat(grouped(host_timed_), " calls have times of the host only and are not compared"));
  findings.not_shown = {"calls that have not ended, so no hang", "why a rank comes late", "which link or NIC is slow",
                        "Send and Recv", "calls that the plugin left out"};
  return findings;
}

}  // namespace ccld::decision::dumps
