#include "decision/report/status_pages.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "decision/report/find_communicator.h"
#include "decision/report/open_incidents.h"

namespace ccld::decision::report {
namespace {

// Open incidents named with a job, and with all of them: their number is always exact.
constexpr size_t job_incidents_max = 100, status_incidents_max = 20;

absl::Status bad_cursor(const PageQuery& query) {
  constexpr size_t shown_max = 60;
  return absl::InvalidArgumentError(
      absl::StrCat("after='", query.after.substr(0, shown_max), "' is not what `next` of a page said"));
}

// "4.rest": the state of the last row of the page before, and what it is called.
struct Cursor {
  Trouble state = Trouble::confirmed;
  std::string rest;
};
absl::StatusOr<Cursor> cursor_of(const PageQuery& query) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(query.after, absl::MaxSplits('.', 1));
  uint32_t state = 0;
  if (!absl::SimpleAtoi(parts.first, &state) || state >= trouble_count) return bad_cursor(query);
  return Cursor{static_cast<Trouble>(state), parts.second};
}
std::string cursor_text(Trouble state, absl::string_view rest) {
  return absl::StrCat(static_cast<unsigned>(state), ".", rest);
}

// The rows of a page, and where the next one begins.
struct Page {
  Json rows = Json::array();
  Json next = nullptr;
};

absl::StatusOr<std::vector<uint32_t>> page_of_communicators(const Snapshot& s, const StatusIndex& index,
                                                            const std::vector<uint32_t>& all, const PageQuery& query,
                                                            Json* next) {
  const std::vector<CommStatus>& comms = s.status.communicators;
  const auto key = [&](uint32_t at) { return std::tuple(index.state(at), comms[at].comm); };
  auto it = all.begin();
  if (!query.after.empty()) {
    const auto cursor = cursor_of(query);
    const auto id = cursor.ok() ? parse_comm(cursor->rest) : std::nullopt;
    if (!id) return bad_cursor(query);
    it = std::partition_point(all.begin(), all.end(),
                              [&](uint32_t at) { return key(at) <= std::tuple(cursor->state, *id); });
  }
  std::vector<uint32_t> page;
  for (; it != all.end(); ++it) {
    if (!query.wants(index.state(*it))) continue;
    if (page.size() == query.rows(page_rows_default)) {
      *next = cursor_text(index.state(page.back()), comm_text(comms[page.back()].comm));
      break;
    }
    page.push_back(*it);
  }
  return page;
}

const std::vector<uint32_t> none;

// Of one job, or of all.
const std::vector<uint32_t>& communicators_of(const StatusIndex& index, const PageQuery& query) {
  if (!query.job.has_value()) return index.communicators();
  const JobRow* job = index.job(*query.job);
  return job ? job->communicators : none;
}

absl::StatusOr<Page> comm_page(const Snapshot& s, const StatusIndex& index, const PageQuery& query) {
  Page result;
  const auto page = page_of_communicators(s, index, communicators_of(index, query), query, &result.next);
  if (!page.ok()) return page.status();
  size_t rank_rows = 0;
  for (const uint32_t at : *page) {
    const CommStatus& c = s.status.communicators[at];
    Json row = comm_json(c, index.state(at));
    if (query.ranks) {
      Json ranks = Json::array();
      Json ranks_next = nullptr;
      for (size_t r = 0; r < c.ranks.size(); ++r) {
        if (rank_rows == page_rows_max) {
          ranks_next = r == 0 ? "" : absl::StrCat(c.ranks[r - 1].rank.value);
          break;
        }
        ranks.push_back(rank_json(c, r, s.silent_ns));
        ++rank_rows;
      }
      row["ranks"] = std::move(ranks);
      row["ranks_next"] = std::move(ranks_next);
    }
    result.rows.push_back(std::move(row));
  }
  return result;
}

absl::StatusOr<Page> job_page(const StatusIndex& index, const PageQuery& query) {
  Page result;
  auto it = index.jobs().begin();
  if (!query.after.empty()) {
    const auto cursor = cursor_of(query);
    if (!cursor.ok()) return cursor.status();
    it = std::partition_point(index.jobs().begin(), index.jobs().end(), [&](const JobRow& j) {
      return std::tie(j.state, j.job) <= std::tie(cursor->state, cursor->rest);
    });
  }
  const JobRow* last = nullptr;
  for (; it != index.jobs().end(); ++it) {
    if (!query.wants(it->state)) continue;
    if (result.rows.size() == query.rows(page_rows_default)) {
      result.next = cursor_text(last->state, last->job);
      break;
    }
    result.rows.push_back(job_json(*it));
    last = &*it;
  }
  return result;
}

// A process by what its machine calls it; its host's name may hold anything, so it is the last.
std::string process_cursor(const ProcessId& p) {
  return absl::StrCat(p.pid, ":", p.pid_namespace, ":", p.pid_start_ticks, ":", p.boot_id, ":", p.host);
}
absl::StatusOr<ProcessId> process_of_cursor(const PageQuery& query) {
  const std::vector<std::string> parts = absl::StrSplit(query.after, absl::MaxSplits(':', 4));
  ProcessId p;
  if (parts.size() != 5 || !absl::SimpleAtoi(parts[0], &p.pid) || !absl::SimpleAtoi(parts[1], &p.pid_namespace) ||
      !absl::SimpleAtoi(parts[2], &p.pid_start_ticks))
    return bad_cursor(query);
  p.boot_id = parts[3];
  p.host = parts[4];
  return p;
}

// `of_note`: only the silent ones and those whose probe was stopped.
absl::StatusOr<Page> process_page(const Snapshot& s, const PageQuery& query, size_t rows, bool of_note) {
  Page result;
  auto it = s.status.processes.begin();
  if (!query.after.empty()) {
    const auto after = process_of_cursor(query);
    if (!after.ok()) return after.status();
    it = std::partition_point(s.status.processes.begin(), s.status.processes.end(),
                              [&](const ProcessStatus& p) { return p.process <= *after; });
  }
  const ProcessStatus* last = nullptr;
  for (; it != s.status.processes.end(); ++it) {
    const bool silent = it->presence(s.silent_ns) == Presence::silent;
    if (of_note && !silent && !it->probe_stopped) continue;
    if (query.job.has_value() && it->job != *query.job) continue;
    if (query.stopped && !it->probe_stopped) continue;
    if (query.silent && !silent) continue;
    if (result.rows.size() == rows) {
      result.next = process_cursor(last->process);
      break;
    }
    result.rows.push_back(process_json(*it, s.silent_ns));
    last = &*it;
  }
  return result;
}

// How far the ranks are in the operation that is in flight: what a rank has not reached, nobody behind it can.
Json progress_json(const CommStatus& c) {
  constexpr size_t missing_max = 8;  // the number is exact
  struct Stage {
    const char* name;
    bool (*reached)(const RankStatus&, OpSeq);
  };
  constexpr Stage stages[] = {
      {"entered", [](const RankStatus& r, OpSeq op) { return r.entered >= op; }},
      {"launched", [](const RankStatus& r, OpSeq op) { return std::max(r.launched, r.completed) >= op; }},
      {"begun", [](const RankStatus& r,
                   OpSeq op) { return r.completed >= op || (r.begun && r.completed.value + 1 >= op.value); }},
      {"completed", [](const RankStatus& r, OpSeq op) { return r.completed >= op; }},
  };
  Json rows = Json::array();
  for (const Stage& stage : stages) {
    size_t count = 0;
    Json missing = Json::array();
    for (const RankStatus& r : c.ranks) {
      if (stage.reached(r, c.oldest_op))
        ++count;
      else if (missing.size() < missing_max)
        missing.push_back(r.rank.value);
    }
    rows.push_back({{"stage", stage.name}, {"rank_count", count}, {"missing", std::move(missing)}});
  }
  return rows;
}

}  // namespace

absl::StatusOr<Json> status_json(const Snapshot& s, const StatusIndex& index, const PageQuery& query) {
  const auto comms = comm_page(s, index, query);
  if (!comms.ok()) return comms.status();
  const auto jobs = job_page(index, {});
  if (!jobs.ok()) return jobs.status();
  const auto processes = process_page(s, {}, process_rows_max, !query.ranks);
  if (!processes.ok()) return processes.status();
  Json result = summary_json(s, index);
  result["incidents"] = open_incidents_json(s, std::nullopt, status_incidents_max);
  result["jobs"] = jobs->rows;
  result["jobs_next"] = jobs->next;
  result["communicators"] = comms->rows;
  result["next"] = comms->next;
  result["processes"] = processes->rows;
  result["processes_next"] = processes->next;
  return result;
}

Json status_json(const Snapshot& s, bool all_ranks) {
  PageQuery query;
  query.ranks = all_ranks;
  return *status_json(s, StatusIndex(s), query);
}

absl::StatusOr<Json> jobs_json(const Snapshot& s, const StatusIndex& index, const PageQuery& query) {
  const auto page = job_page(index, query);
  if (!page.ok()) return page.status();
  return Json{{"time", s.clock.text(s.now_ns)},
              {"job_count", index.jobs().size()},
              {"jobs", page->rows},
              {"next", page->next}};
}

absl::StatusOr<Json> job_json(const Snapshot& s, const StatusIndex& index, const std::string& job, const PageQuery& query) {
  const JobRow* row = index.job(job);
  if (!row) return absl::NotFoundError(absl::StrCat("there is no job '", job, "'"));
  PageQuery of_job = query;
  of_job.job = job;
  const auto page = comm_page(s, index, of_job);
  if (!page.ok()) return page.status();
  PageQuery all_of_job;
  all_of_job.job = job;
  const auto processes = process_page(s, all_of_job, process_rows_max, true);
  if (!processes.ok()) return processes.status();
  const auto acknowledged = std::count_if(s.incidents.begin(), s.incidents.end(), [&](const Incident& i) {
    return i.job == job && is_open(i.state) && s.acknowledgements.contains(i.id);
  });
  const auto silenced = std::count_if(s.incidents.begin(), s.incidents.end(), [&](const Incident& i) { return i.job == job && is_silenced(i, s); });
  const auto silenced_confirmed = std::count_if(s.incidents.begin(), s.incidents.end(), [&](const Incident& i) {
    return i.job == job && i.state == VerdictState::confirmed && is_silenced(i, s);
  });
  Json result = {{"time", s.clock.text(s.now_ns)}};
  result.update(job_json(*row));
  result["incidents_acknowledged"] = acknowledged;
  result["incidents_silenced"] = silenced;
  result["incidents_silenced_confirmed"] = silenced_confirmed;
  result["incidents"] = open_incidents_json(s, job, job_incidents_max);
  result["communicators"] = page->rows;
  result["next"] = page->next;
  result["processes"] = processes->rows;
  result["processes_next"] = processes->next;
  return result;
}

absl::StatusOr<Json> communicators_json(const Snapshot& s, const StatusIndex& index, const PageQuery& query) {
  const auto page = comm_page(s, index, query);
  if (!page.ok()) return page.status();
  return Json{{"time", s.clock.text(s.now_ns)}, {"communicators", page->rows}, {"next", page->next}};
}

absl::StatusOr<Json> communicator_json(const Snapshot& s, const StatusIndex& index, const std::string& id) {
  const auto at = find_communicator(s, id);
  if (!at) return no_communicator(id);
  const CommStatus& c = s.status.communicators[*at];
  Json result = {{"time", s.clock.text(s.now_ns)}};
  result.update(comm_json(c, index.state(*at)));
  if (c.in_flight) result["in_flight"]["progress"] = progress_json(c);
  return result;
}

absl::StatusOr<Json> ranks_json(const Snapshot& s, const StatusIndex& index, const std::string& id, const PageQuery& query) {
  const auto at = find_communicator(s, id);
  if (!at) return no_communicator(id);
  const CommStatus* c = &s.status.communicators[*at];
  auto it = c->ranks.begin();
  if (!query.after.empty()) {
    int32_t after = 0;
    if (!absl::SimpleAtoi(query.after, &after)) return bad_cursor(query);
    it = std::partition_point(c->ranks.begin(), c->ranks.end(), [&](const RankStatus& r) { return r.rank.value <= after; });
  }
  Json ranks = Json::array();
  Json next = nullptr;
  for (; it != c->ranks.end(); ++it) {
    if (ranks.size() == query.rows(page_rows_default)) {
      next = absl::StrCat(std::prev(it)->rank.value);
      break;
    }
    ranks.push_back(rank_json(*c, static_cast<size_t>(it - c->ranks.begin()), s.silent_ns));
  }
  Json result = {{"time", s.clock.text(s.now_ns)}};
  result.update(comm_json(*c, index.state(*at)));
  result["ranks"] = std::move(ranks);
  result["next"] = std::move(next);
  return result;
}

absl::StatusOr<Json> processes_json(const Snapshot& s, const StatusIndex&, const PageQuery& query) {
  const auto page = process_page(s, query, query.rows(process_rows_default), false);
  if (!page.ok()) return page.status();
  return Json{{"time", s.clock.text(s.now_ns)}, {"processes", page->rows}, {"next", page->next}};
}

}  // namespace ccld::decision::report
