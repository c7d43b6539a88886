#include "decision/validate/outcome.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/report/headline.h"
#include "decision/report/remedies.h"
#include "decision/report/text_format.h"
#include "decision/report/wall_clock.h"

namespace ccld::decision::validate {
namespace {

using report::Json;

constexpr char schema[] = "ccld-validate/1";

const char* verdict_name(const Outcome& o) {
  switch (exit_status(o)) {
    case exit_healthy: return name(Finding::healthy);
    case exit_suspect: return name(Finding::suspect);
    default: return name(Finding::not_measured);
  }
}

Json optional_text(const std::string& s) { return s.empty() ? Json(nullptr) : Json(s); }
Json optional_number(double v) { return v > 0 && std::isfinite(v) ? Json(v) : Json(nullptr); }

double gigabytes_per_s(const Row& row) { return row.ms.middle > 0 ? row.bytes / row.ms.middle / 1e6 : 0; }

Json row_json(const Row& row) {
  return {{"check", name(row.check)},
          {"rank", row.rank},
          {"peer", row.peer < 0 ? Json(nullptr) : Json(row.peer)},
          {"kind", optional_text(row.kind)},
          {"net", optional_text(row.net)},
          {"low_ms", row.ms.low},
          {"middle_ms", row.ms.middle},
          {"high_ms", row.ms.high},
          {"gbytes_per_s", optional_number(gigabytes_per_s(row))},
          {"usual_ms", optional_number(row.usual_ms)},
          {"basis", row.basis == Basis::unknown ? Json(nullptr) : Json(name(row.basis))},
          {"peers", row.peer_count},
          {"runs", row.runs},
          {"finding", name(row.finding)},
          {"why", optional_text(row.why)}};
}

Json member_json(const Member& m) {
  return {{"rank", m.rank}, {"host", m.host}, {"pid", m.pid}, {"gpu", m.gpu}, {"bus_id", m.bus_id}, {"model", m.model}};
}

std::string who(const Outcome& o, const Row& row) {
  const Member& m = o.members[static_cast<size_t>(row.rank)];
  if (row.check != Check::link) return absl::StrCat("rank ", row.rank, ", GPU ", m.gpu, " on ", m.host);
  const Member& p = o.members[static_cast<size_t>(row.peer)];
  return absl::StrCat("rank ", row.rank, " -> ", row.peer, ", ", m.host,
                      m.host == p.host ? "" : absl::StrCat(" -> ", p.host));
}

std::string speed(const Row& row) {
  return row.bytes > 0 ? absl::StrCat(report::measured(gigabytes_per_s(row)), " GB/s") : "";
}

std::vector<std::string> cells(const Outcome& o, const Row& row) {
  return {title(row.check),
          who(o, row),
          row.check == Check::link ? row.kind : "",
          absl::StrCat(report::measured(row.ms.middle), " ms"),
          speed(row),
          row.usual_ms > 0 ? absl::StrCat(report::measured(row.usual_ms), " ms") : "-",
          row.ratio() > 0 ? absl::StrFormat("%.2f", row.ratio()) : "-",
          row.finding == Finding::not_measured ? "not measured" : name(row.finding)};
}

std::string rows_text(const Outcome& o, bool all) {
  std::vector<std::vector<std::string>> lines = {
      {"check", "who", "kind", "time", "speed", "usual", "ratio", "finding"}};
  for (const Row& row : o.rows)
    if (all || row.finding != Finding::healthy) lines.push_back(cells(o, row));
  if (lines.size() == 1) return "";
  for (auto& line : lines)
    for (std::string& cell : line) cell = report::printable(cell);
  return absl::StrCat(report::table(lines, {false, false, false, true, true, true, true, false}), "\n");
}

// "GEMM          8 healthy   4.1 ms"
std::string summary_text(const Outcome& o) {
  std::map<Check, std::map<Finding, int>> counts;
  std::map<Check, std::vector<double>> times;
  for (const Row& row : o.rows) {
    ++counts[row.check][row.finding];
    times[row.check].push_back(row.ms.middle);
  }
  std::string out;
  for (const auto& [check, findings] : counts) {
    std::string parts;
    for (const auto& [finding, count] : findings)
      absl::StrAppend(&parts, parts.empty() ? "" : ", ", count, " ",
                      finding == Finding::not_measured ? "not measured" : name(finding));
    absl::StrAppendFormat(&out, "%-12s %s, in the middle %s ms\n", title(check), parts,
                          report::measured(middle_of(times[check])));
  }
  return out;
}

}  // namespace

int exit_status(const Outcome& o) {
  if (!o.incidents.empty()) return exit_suspect;
  if (!o.failure.empty() || o.rows.empty()) return exit_not_measured;
  const bool all =
      std::none_of(o.rows.begin(), o.rows.end(), [](const Row& r) { return r.finding == Finding::not_measured; });
  return all ? exit_healthy : exit_not_measured;
}

Json outcome_json(const Outcome& o) {
  const report::WallClock clock{0};
  Json members = Json::array(), rows = Json::array(), incidents = Json::array();
  for (const Member& m : o.members) members.push_back(member_json(m));
  for (const Row& row : o.rows) rows.push_back(row_json(row));
  for (const Incident& i : o.incidents) {
    incidents.push_back(report::verdict_json(i, o.now_ns, clock));
    incidents.back()["source"] = "ccld-validate";
  }
  return {{"schema", schema},
          {"time", clock.text(o.now_ns)},
          {"verdict", verdict_name(o)},
          {"failure", optional_text(o.failure)},
          {"held_s", o.held_s > 0 ? Json(o.held_s) : Json(nullptr)},
          {"orders", o.own_orders ? "nccl" : "ranks"},
          {"passes", {{"ring_and_tree", o.ring_and_tree_passes}, {"extra", o.extra_passes}}},
          {"members", std::move(members)},
          {"rows", std::move(rows)},
          {"incidents", std::move(incidents)}};
}

std::string outcome_text(const Outcome& o, bool all) {
  std::string out = rows_text(o, all);
  absl::StrAppend(&out, summary_text(o));
  if (o.ring_and_tree_passes > 0)
    absl::StrAppend(&out, "Links of ",
                    o.own_orders ? "NCCL's own rings and trees" : "a ring by rank (NCCL's own order is not known)",
                    " in ", report::count_text(o.ring_and_tree_passes, "pass", "passes"),
                    o.extra_passes > 0 ? absl::StrCat(", and ", o.extra_passes, " for slow ones") : "", ".\n");
  if (o.held_s > 0) absl::StrAppendFormat(&out, "The job held for %.1f s.\n", o.held_s);
  std::set<std::string> reasons;
  for (const Row& row : o.rows)
    if (row.finding == Finding::not_measured) reasons.insert(absl::StrCat(title(row.check), ": ", row.why));
  for (const std::string& reason : reasons) absl::StrAppend(&out, "Not measured: ", report::printable(reason), ".\n");
  for (const Incident& i : o.incidents) {
    absl::StrAppend(&out, "\n", report::kind_text(i.fault), ": ", report::printable(report::headline(i)), "\n");
    absl::StrAppend(&out, "  ", report::printable(i.culprits.front().reason), ". ", i.next_step, ".\n");
    for (const report::Command& c : report::commands_for(i))
      absl::StrAppend(&out, "  ", report::printable(c.host), "$ ", report::printable(c.text), "\n");
  }
  if (!o.failure.empty()) absl::StrAppend(&out, "\nNot finished: ", report::printable(o.failure), ".\n");
  const char* const verdict[] = {"Healthy: nothing is slower than its peers or its past.", "Suspect: see above.", "",
                                 "Not measured: not everything could be judged."};
  absl::StrAppend(&out, verdict[exit_status(o)], "\n");
  return out;
}

}  // namespace ccld::decision::validate
