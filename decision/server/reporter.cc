#include "decision/server/reporter.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "decision/report/headline.h"
#include "decision/report/mitigation.h"
#include "decision/report/text_format.h"
#include "decision/server/clock.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

// How often what the disk has refused is tried again: soon after there is room, without hammering a full disk.
constexpr std::chrono::milliseconds retry_period(1000);
// Limits are in megabytes and days; looking once a minute is often enough.
constexpr Nanoseconds maintain_period_ns = 60 * ns_per_s;

struct Changed {
  Incident incident;
  Nanoseconds now_ns;
  int64_t realtime_ns;
};
struct LeftOpenEnds {
  int64_t realtime_ns;
};
struct Recorded {
  uint64_t incident;
  std::string path;
};
struct Wrote {
  history::OwnEntry entry;
};
struct Look {
  std::function<absl::Status(history::Database&)> look;
};
// A change of the database that somebody waits for.
struct AwaitedChange {
  bool only_reads = false;
  std::function<absl::Status(history::Database&)> change;
  std::function<void()> then;
  enum class Shared { no, operators, entry } shared = Shared::no;  // what other nodes of a cluster are told
  report::Json entry;
  std::atomic<bool> taken = false;  // by the thread, or by who gave up waiting
  absl::Status result;              // before `done`
  absl::Notification done;
};
using Job = std::variant<Changed, LeftOpenEnds, Recorded, Wrote, Look, std::shared_ptr<AwaitedChange>>;

// In a cluster, of what is appended to the log at a time: servers of NATS take messages of 1 MB.
constexpr size_t entry_bytes_max = 500'000;

// The query API has fewer threads to ask from; more are those that gave up.
constexpr size_t asked_max = 64;

std::string log_line(const Incident& i) {
  return absl::StrCat("incident ", i.id, ": ", report::kind_text(i.fault), ": ", report::headline(i), " (", name(i.fault), ", ", name(i.state), ")");
}

// One revision, and what is written about it.
struct Report {
  report::Json verdict;
  std::string log;
  history::Revision revision;
};

}  // namespace

struct Reporter::State {
  State(VerdictWriter w, std::unique_ptr<history::History> h, Bounds b) : writer(std::move(w)), history(std::move(h)), bounds(b) {}

  // The thread's side.
  VerdictWriter writer;
  const std::unique_ptr<history::History> history;
  const Bounds bounds;
  advise::Known known;  // as it is when the thread begins to report
  std::map<uint64_t, report::Json> left_open;  // by number, those of which this run has reported nothing
  std::vector<Recorded> links;  // recordings of which the database does not know yet
  // Of this node's own in the cluster's log, in order: what they say waits with `waiting`, or is in the database, which
  // does not know yet that they are of the log.
  std::vector<history::OwnEntry> own_entries;
  std::vector<Look> looks;  // that the database has not answered yet
  Nanoseconds maintained_ns = 0, tried_ns = 0;
  bool failing = false;
  std::atomic<Nanoseconds> at_work_since_ns = 0;  // with the disk and the reader of verdicts; 0: not
  std::atomic<uint64_t> last_id = 0;

  // Shared.
  mutable std::mutex mutex;
  std::condition_variable wake;
  std::deque<Job> jobs;
  std::deque<history::Revision> waiting;  // reported, not stored; changed by the thread only
  report::HistoryCounters counters;
  uint64_t lines = 0, line_errors = 0;
  size_t asked_waiting = 0;
  std::function<void(const report::Json&)> listener;
  Keep keep;  // nothing: this is no cluster
  bool stop = false;
  OperatorBook book;
  ReadTurns read_turns;
  absl::Notification ended;
  std::thread thread;

  // What an earlier run left open.
  void take_up(const std::vector<report::Json>& verdicts) {
    left_open.clear();
    for (const report::Json& verdict : verdicts) left_open.emplace(report::number_of(verdict, "incident"), verdict);
  }
  void put(Job);
  void run();
  void carry_out(std::deque<Job>);
  void store(std::vector<history::Revision>);
  void change(AwaitedChange&);
  absl::StatusOr<history::LogPosition> kept(const report::Json& entry);
  void share(std::vector<Report>&);
  absl::StatusOr<std::optional<history::LogPosition>> share(const AwaitedChange&, history::Database&);
  void say_too_long(const history::Revision&);
  history::LogPosition with_own_entries(history::LogPosition) const;
  void add_waiting(history::Standing&) const;
  void raise_last_id(uint64_t id) { last_id = std::max<uint64_t>(last_id, id); }
  absl::Status ask(const std::shared_ptr<AwaitedChange>&, absl::Duration timeout);
  absl::Status link_recordings();
  void maintain();
};

// Revisions find room or make it; the rest is rare.
void Reporter::State::put(Job job) {
  const auto* const changed = std::get_if<Changed>(&job);
  if (changed != nullptr && counters.queue_length >= bounds.queue_max) {
    ++counters.revisions_dropped;
    if (counters.revisions_dropped == 1) spdlog::error("reports of incidents wait for the disk or the reader of verdicts: no room for further ones");
    // The last one: what is written later is newer.
    const auto older = std::find_if(jobs.rbegin(), jobs.rend(), [&](const Job& j) {
      const auto* const other = std::get_if<Changed>(&j);
      return other != nullptr && other->incident.id == changed->incident.id;
    });
    if (older != jobs.rend()) *older = std::move(job);
    return;
  }
  if (changed != nullptr) ++counters.queue_length;
  jobs.push_back(std::move(job));
}

void Reporter::State::run() {
  std::unique_lock lock(mutex);
  while (!stop || !jobs.empty()) {
    const auto ready = [this] { return stop || !jobs.empty(); };
    if (waiting.empty() && links.empty() && looks.empty())
      wake.wait_for(lock, std::chrono::nanoseconds(maintain_period_ns), ready);
    else wake.wait_for(lock, retry_period, ready);
    std::deque<Job> taken = std::exchange(jobs, {});
    counters.queue_length = 0;
    asked_waiting = 0;
    lock.unlock();
    at_work_since_ns = monotonic_now_ns();
    carry_out(std::move(taken));
    maintain();
    at_work_since_ns = 0;
    lock.lock();
    lines = writer.lines();
    line_errors = writer.errors();
  }
  lock.unlock();
  if (history != nullptr) {
    if (!waiting.empty() || !links.empty() || !own_entries.empty()) tried_ns = 0, store({});  // once more
    if (!waiting.empty()) spdlog::error("history: {} revisions of incidents could not be stored", waiting.size());
    history->end_run(realtime_now_ns() / ns_per_ms).IgnoreError();  // the next run sees anyway that nobody holds the folder
  }
  ended.Notify();
}

void Reporter::State::carry_out(std::deque<Job> taken) {
  std::vector<Report> told;
  std::vector<std::shared_ptr<AwaitedChange>> asked;
  const auto add = [&](report::Json verdict, std::string log) {
    auto revision = history::revision_of(verdict);
    if (!revision.has_value()) return;  // at a time that cannot be told, after 2262
    told.push_back({std::move(verdict), std::move(log), *std::move(revision)});
  };
  for (Job& job : taken) {
    if (const auto* changed = std::get_if<Changed>(&job)) {
      left_open.erase(changed->incident.id);
      add(report::verdict_json(changed->incident, changed->now_ns, {changed->realtime_ns - changed->now_ns}), log_line(changed->incident));
    } else if (const auto* ends = std::get_if<LeftOpenEnds>(&job)) {
      for (const auto& [id, verdict] : left_open) {
        add(history::ended_verdict(verdict, ends->realtime_ns / ns_per_ms),
            absl::StrCat("incident ", id, ": an earlier run of the service ended before it did"));
      }
      left_open.clear();
    } else if (auto* recorded = std::get_if<Recorded>(&job)) {
      links.push_back(std::move(*recorded));
    } else if (const auto* wrote = std::get_if<Wrote>(&job)) {
      own_entries.push_back(wrote->entry);
    } else if (auto* look = std::get_if<Look>(&job)) {
      looks.push_back(std::move(*look));
    } else {
      asked.push_back(std::move(std::get<std::shared_ptr<AwaitedChange>>(job)));
    }
  }
  share(told);
  if (history != nullptr) {
    std::vector<history::Revision> revisions;
    revisions.reserve(told.size());
    for (Report& r : told) {
      raise_last_id(r.revision.incident);
      revisions.push_back(std::move(r.revision));
    }
    store(std::move(revisions));
  }
  for (const auto& a : asked) change(*a);
  if (history != nullptr) std::erase_if(looks, [this](const Look& l) { return history->read(l.look).ok(); });
  const auto tell = [this] {
    const std::lock_guard lock(mutex);
    return listener;
  }();
  for (const Report& t : told) {
    if (!tell) break;
    report::Json answer = t.verdict;
    report::set_mitigation(answer, known);
    tell(answer);
  }
  for (const Report& t : told) {
    writer.write_line(report::to_line(t.verdict));
    spdlog::info("{}", t.log);
  }
}

void Reporter::State::change(AwaitedChange& asked) {
  if (asked.taken.exchange(true)) return;
  std::optional<history::LogPosition> own;
  // Shared before it is kept here: what the others do not hear of is not so here either.
  const auto change = [&](history::Database& db) {
    if (absl::Status s = asked.change(db); !s.ok()) return s;
    const auto shared = share(asked, db);
    if (!shared.ok()) return shared.status();
    own = *shared;
    return absl::OkStatus();
  };
  asked.result = asked.only_reads ? history->read(asked.change) : history->change(change);
  if (asked.result.ok()) {
    if (own.has_value()) own_entries.push_back({.at = *own});
    asked.then();
  }
  asked.done.Notify();
}

// The common log is no disk of this node.
absl::StatusOr<history::LogPosition> Reporter::State::kept(const report::Json& entry) {
  at_work_since_ns = 0;
  auto at = keep(entry);
  at_work_since_ns = monotonic_now_ns();
  return at;
}

// Leaves those that are in the common log: of others nobody is told.
void Reporter::State::share(std::vector<Report>& reports) {
  if (!keep) return;
  std::vector<Report> shared;
  size_t next = 0, count_max = reports.size();
  while (next < reports.size()) {
    std::vector<history::Revision> some;
    for (size_t i = next, bytes = 0; i < reports.size() && some.size() < count_max; ++i) {
      bytes += reports[i].revision.line.size();
      if (!some.empty() && bytes > entry_bytes_max) break;
      some.push_back(reports[i].revision);
    }
    const auto at = kept(history::revisions_entry(some));
    if (absl::IsOutOfRange(at.status())) {
      count_max = some.size() / 2;
      if (count_max > 0) continue;
      say_too_long(some.front());
      ++next, count_max = 1;
      continue;
    }
    if (!at.ok()) break;
    own_entries.push_back({.at = *at});
    for (const history::Revision& r : some) raise_last_id(r.incident);
    for (size_t i = 0; i < some.size(); ++i) shared.push_back(std::move(reports[next++]));
  }
  reports = std::move(shared);
}

void Reporter::State::say_too_long(const history::Revision& r) {
  spdlog::error(
      "cluster: revision {} of incident {} has {} bytes: the log takes no entry so long, and nobody is told of it",
      r.number, r.incident, r.line.size());
  const std::lock_guard lock(mutex);
  ++counters.revisions_dropped;
}

// Where it is in the log, if the database cannot say so: an entry before it waits.
absl::StatusOr<std::optional<history::LogPosition>> Reporter::State::share(const AwaitedChange& asked,
                                                                           history::Database& db) {
  if (!keep || asked.shared == AwaitedChange::Shared::no) return std::optional<history::LogPosition>();
  report::Json entry = asked.entry;
  if (asked.shared == AwaitedChange::Shared::operators) {
    const auto now = history::standing_of(db, realtime_now_ns() / ns_per_ms);
    if (!now.ok()) return now.status();
    entry = history::operators_entry(now->acknowledgements, now->silences.silences, now->silences.last_id);
  }
  const auto at = kept(entry);
  if (absl::IsOutOfRange(at.status())) return absl::OutOfRangeError("the cluster's log takes no entry so long");
  if (!at.ok()) return absl::UnavailableError("this node does not lead the cluster any more: ask again");
  const auto advanced = history::advance_log_position(db, *at);
  if (!advanced.ok()) return advanced.status();
  return *advanced ? std::optional<history::LogPosition>() : *at;
}

history::LogPosition Reporter::State::with_own_entries(history::LogPosition p) const {
  for (const history::OwnEntry& e : own_entries)
    if (history::is_next(e.at, p)) p = e.at;
  return p;
}

// What was told and is not in the database.
void Reporter::State::add_waiting(history::Standing& standing) const {
  standing.log = with_own_entries(standing.log);
  standing.last_id = std::max<uint64_t>(standing.last_id, last_id);
  if (waiting.empty()) return;
  std::map<uint64_t, report::Json> open;
  for (report::Json& verdict : standing.open) {
    const uint64_t id = report::number_of(verdict, "incident");
    open.emplace(id, std::move(verdict));
  }
  for (const history::Revision& r : waiting) {
    const auto known = open.find(r.incident);
    const bool of_it = known != open.end() && report::number_of(known->second, "revision") > r.number &&
                       report::raw_text_of(known->second, "run") == r.run;
    if (of_it) continue;
    if (r.open)
      open[r.incident] = report::Json::parse(r.line, nullptr, false);
    else
      open.erase(r.incident);
  }
  standing.open.clear();
  for (auto& [id, verdict] : open) standing.open.push_back(std::move(verdict));
}

absl::Status Reporter::State::link_recordings() {
  while (!links.empty()) {
    if (absl::Status s = history->set_recording(links.front().incident, links.front().path); !s.ok()) return s;
    links.erase(links.begin());
  }
  return absl::OkStatus();
}

void Reporter::State::store(std::vector<history::Revision> revisions) {
  const Nanoseconds now_ns = monotonic_now_ns();
  // In order: what waits is older. Who asks sees it until it is stored.
  revisions.insert(revisions.begin(), waiting.begin(), waiting.end());
  absl::Status status = absl::UnavailableError("tried a moment ago");
  size_t stored = 0;
  const bool due = !failing || tried_ns == 0 || now_ns - tried_ns >= std::chrono::nanoseconds(retry_period).count();
  if (due) {
    tried_ns = now_ns;
    status = history->append(revisions, realtime_now_ns() / ns_per_ms, own_entries);
    if (status.ok()) {
      stored = revisions.size();
      revisions.clear();
      own_entries.clear();
      status = link_recordings();
    }
  }
  // A recording of which the database does not know can be found in its folder.
  if (links.size() > bounds.queue_max) links.erase(links.begin(), links.end() - static_cast<std::ptrdiff_t>(bounds.queue_max));
  if (status.ok() && std::exchange(failing, false)) spdlog::info("history: stored again; {} revisions had to wait", stored);
  if (!status.ok() && !std::exchange(failing, true)) {
    spdlog::error("history: {}; verdicts go on, what is not stored is kept in memory and tried again", std::string(status.message()));
  }
  const std::lock_guard lock(mutex);
  counters.revisions_stored += stored;
  counters.write_errors += due && !status.ok() ? 1 : 0;
  waiting.clear();
  const size_t dropped = revisions.size() > bounds.waiting_max ? revisions.size() - bounds.waiting_max : 0;
  if (dropped > 0 && counters.revisions_dropped == 0) spdlog::error("history: {} revisions wait for the disk, the oldest are given up", revisions.size());
  counters.revisions_dropped += dropped;
  if (dropped > 0) own_entries.clear();  // they are applied again from the log
  waiting.assign(std::make_move_iterator(revisions.begin() + static_cast<std::ptrdiff_t>(dropped)), std::make_move_iterator(revisions.end()));
  counters.revisions_waiting = waiting.size();
}

void Reporter::State::maintain() {
  const Nanoseconds now_ns = monotonic_now_ns();
  if (history == nullptr || failing || (maintained_ns != 0 && now_ns - maintained_ns < maintain_period_ns)) return;
  maintained_ns = now_ns;
  const absl::Status status = history->maintain(realtime_now_ns() / ns_per_ms);
  const std::lock_guard lock(mutex);
  counters.write_errors += status.ok() ? 0 : 1;
  counters.incidents_removed = history->incidents_removed();
  counters.database_bytes = history->bytes();
}

Reporter::Reporter(VerdictWriter writer, std::unique_ptr<history::History> history, Bounds bounds)
    : state_(std::make_unique<State>(std::move(writer), std::move(history), bounds)) {
  State& s = *state_;
  if (s.history != nullptr) {
    s.counters.enabled = true;
    s.counters.database = s.history->path();
    s.counters.last_id_before = s.history->last_id_before();
    s.raise_last_id(s.history->last_id_before());
    s.book.set_acknowledgements(s.history->acknowledgements());
    s.book.set_silences(s.history->silences().silences, s.history->silences().last_id);
    s.take_up(s.history->left_open());
  }
  s.thread = std::thread([&s] { s.run(); });
}

Reporter::~Reporter() { finish(); }

void Reporter::advise_with(const advise::Known& known) { state_->known = known; }
const advise::Known& Reporter::known() const { return state_->known; }

void Reporter::report(std::vector<Incident> incidents, Nanoseconds now_ns, int64_t realtime_ns) {
  if (incidents.empty()) return;
  {
    const std::lock_guard lock(state_->mutex);
    for (Incident& incident : incidents) state_->put(Changed{std::move(incident), now_ns, realtime_ns});
  }
  state_->wake.notify_one();
}

void Reporter::end_left_open(int64_t realtime_ns) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->put(LeftOpenEnds{realtime_ns});
  }
  state_->wake.notify_one();
}

void Reporter::recorded(uint64_t incident, const std::string& path) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->put(Recorded{incident, path});
  }
  state_->wake.notify_one();
}

absl::Status Reporter::change_history(std::function<absl::Status(history::Database&)> change,
                                      std::function<void()> then, absl::Duration timeout) {
  State& s = *state_;
  if (s.history == nullptr) {
    then();
    return absl::OkStatus();
  }
  const auto asked = std::make_shared<AwaitedChange>();
  asked->change = std::move(change);
  asked->then = std::move(then);
  asked->shared = AwaitedChange::Shared::operators;
  return s.ask(asked, timeout);
}

absl::Status Reporter::State::ask(const std::shared_ptr<AwaitedChange>& asked, absl::Duration timeout) {
  {
    const std::lock_guard lock(mutex);
    if (stop) return absl::UnavailableError("the service is ending");
    if (asked_waiting >= asked_max) return absl::UnavailableError("too many changes wait for the disk already");
    ++asked_waiting;
    put(asked);
  }
  wake.notify_one();
  if (asked->done.WaitForNotificationWithTimeout(timeout)) return asked->result;
  if (!asked->taken.exchange(true)) return absl::UnavailableError("the disk or the reader of verdicts hangs; nothing was changed");
  return absl::UnavailableError("the disk hangs; look later whether the change is there");
}

absl::Status Reporter::apply(std::vector<report::Json> entries, history::LogPosition after,
                             history::LogPosition through, absl::Duration timeout) {
  const auto removed = std::make_shared<uint64_t>(0);
  const auto asked = std::make_shared<AwaitedChange>();
  asked->change = [entries = std::move(entries), after, through, removed, s = state_.get()](history::Database& db) {
    *removed = 0;
    const auto now = history::log_position_of(db);
    if (!now.ok()) return now.status();
    if (*now != after) {
      return absl::AbortedError(
          absl::StrCat("the history has the log up to entry ", now->entry, ", not ", after.entry));
    }
    for (const report::Json& entry : entries) {
      const absl::Status applied = history::apply_entry(db, entry, removed.get());
      if (absl::IsInvalidArgument(applied))
        spdlog::error("cluster: {}", std::string(applied.message()));
      else if (!applied.ok())
        return applied;
    }
    if (absl::Status set = history::set_log_position(db, through); !set.ok()) return set;
    const auto last_id = db.integer("SELECT value FROM numbers WHERE name='last_id'");
    if (last_id.ok()) s->raise_last_id(static_cast<uint64_t>(*last_id));
    return last_id.status();
  };
  asked->then = [removed] {
    if (*removed > 0)
      spdlog::warn("cluster: {} incidents of this node's own history had numbers of the cluster's, and were removed",
                   *removed);
  };
  return state_->ask(asked, timeout);
}

void Reporter::wrote(const report::Json& leads, history::LogPosition at) {
  const uint64_t last_id = report::number_of(report::member(leads, "leads"), "last_id");
  {
    const std::lock_guard lock(state_->mutex);
    state_->put(Wrote{{at, last_id}});
  }
  state_->wake.notify_one();
}

absl::StatusOr<history::LogPosition> Reporter::log_position(absl::Duration timeout) {
  const auto found = std::make_shared<history::LogPosition>();
  const auto asked = std::make_shared<AwaitedChange>();
  asked->only_reads = true;
  asked->change = [found, s = state_.get()](history::Database& db) {
    const auto now = history::log_position_of(db);
    if (now.ok()) *found = s->with_own_entries(*now);
    return now.status();
  };
  asked->then = [] {};
  if (absl::Status s = state_->ask(asked, timeout); !s.ok()) return s;
  return *found;
}

absl::StatusOr<history::Standing> Reporter::standing(absl::Duration timeout) {
  // Shared with the thread, which may come to it when nobody waits any more.
  const auto found = std::make_shared<history::Standing>();
  const auto asked = std::make_shared<AwaitedChange>();
  asked->only_reads = true;
  asked->change = [found, s = state_.get()](history::Database& db) {
    auto now = history::standing_of(db, realtime_now_ns() / ns_per_ms);
    if (!now.ok()) return now.status();
    *found = *std::move(now);
    s->add_waiting(*found);
    return absl::OkStatus();
  };
  asked->then = [found, s = state_.get()] {
    s->take_up(found->open);
    s->book.set_acknowledgements(found->acknowledgements);
    s->book.set_silences(found->silences.silences, found->silences.last_id);
  };
  if (absl::Status s = state_->ask(asked, timeout); !s.ok()) return s;
  return *found;
}

uint64_t Reporter::last_id() const { return state_->last_id; }

void Reporter::keep_with(Keep keep) { state_->keep = std::move(keep); }

void Reporter::change_history_later(std::function<absl::Status(history::Database&)> change, report::Json entry) {
  State& s = *state_;
  if (s.history == nullptr) return;
  const auto asked = std::make_shared<AwaitedChange>();
  asked->change = std::move(change);
  asked->then = [] {};
  asked->shared = AwaitedChange::Shared::entry;
  asked->entry = std::move(entry);
  {
    const std::lock_guard lock(s.mutex);
    if (s.stop || s.asked_waiting >= asked_max) return;
    ++s.asked_waiting;
    s.put(asked);
  }
  s.wake.notify_one();
}

void Reporter::look_later(std::function<absl::Status(history::Database&)> look) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->put(Look{std::move(look)});
  }
  state_->wake.notify_one();
}

void Reporter::tell(std::function<void(const report::Json&)> listener) {
  const std::lock_guard lock(state_->mutex);
  state_->listener = std::move(listener);
}

OperatorBook& Reporter::book() { return state_->book; }
const OperatorBook& Reporter::book() const { return state_->book; }

bool Reporter::finish(absl::Duration timeout) {
  State& s = *state_;
  if (!s.thread.joinable()) return true;
  {
    const std::lock_guard lock(s.mutex);
    s.stop = true;
  }
  s.wake.notify_one();
  if (!s.ended.WaitForNotificationWithTimeout(timeout)) return false;
  s.thread.join();
  return true;
}

Nanoseconds Reporter::held_up_ns() const {
  const Nanoseconds since_ns = state_->at_work_since_ns;
  return since_ns == 0 ? 0 : monotonic_now_ns() - since_ns;
}

ReadTurns& Reporter::read_turns() const { return state_->read_turns; }

report::HistoryCounters Reporter::counters() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counters;
}

uint64_t Reporter::verdict_lines() const {
  const std::lock_guard lock(state_->mutex);
  return state_->lines;
}

uint64_t Reporter::verdict_write_errors() const {
  const std::lock_guard lock(state_->mutex);
  return state_->line_errors;
}

std::vector<report::Json> Reporter::waiting() const {
  std::map<uint64_t, std::string> newest;
  {
    const std::lock_guard lock(state_->mutex);
    for (const history::Revision& r : state_->waiting) newest[r.incident] = r.line;
  }
  std::vector<report::Json> verdicts;
  for (const auto& [id, line] : newest) verdicts.push_back(report::Json::parse(line, nullptr, false));
  return verdicts;
}

}  // namespace ccld::decision::server
