// Reports incidents: first into the history, then as verdict lines, then in the log. In a thread of its own, so that the
// analysis never waits for a disk or for who reads standard output.
//
//   Reporter reporter(std::move(writer), std::move(history), {});
//   reporter.report(incidents, now_ns, realtime_ns);          // returns at once
//   reporter.finish();
//
// In a cluster (cluster/member.h) all nodes keep the same history: what is reported goes first into their common log.
//
// Contract
//   A verdict line is written when its revision is in the database, so what was reported is never lost by a kill. If the
//   database refuses (disk full), lines are written all the same, their revisions are kept in memory and stored as soon as
//   that works; both are counted, and said once. All that waits at a time is stored with one commit.
//   The queue is bounded: when it is full, a newer revision takes the place of an older one of the same incident, else it is
//   dropped; both count as dropped.
// Errors: none; counted and logged. Threads: report() and end_left_open() from the analysis thread, recorded() from the recorder's,
// the rest from any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "decision/advise/facts.h"
#include "decision/history/history.h"
#include "decision/history/replica.h"
#include "decision/model/verdict.h"
#include "decision/report/history_counters.h"
#include "decision/report/verdict_json.h"
#include "decision/server/operator_book.h"
#include "decision/server/read_turns.h"
#include "decision/server/verdict_writer.h"

namespace ccld::decision::server {

class Reporter {
 public:
  struct Bounds {
    size_t queue_max = 4096;     // revisions; a job of a thousand communicators that all fail at once, four times
    size_t waiting_max = 16384;  // of some 4 KB: 64 MiB
  };

  // `history`: none if nothing is to be stored.
  Reporter(VerdictWriter, std::unique_ptr<history::History> history, Bounds);
  ~Reporter();
  Reporter(const Reporter&) = delete;

  // What is known of jobs and of what it costs to act, for what incidents say about that. Before the first report.
  void advise_with(const advise::Known&);
  const advise::Known& known() const;

  void report(std::vector<Incident>, Nanoseconds now_ns, int64_t realtime_ns);
  // Incidents that an earlier run left open, and of which nothing was reported since, get their last revision.
  void end_left_open(int64_t realtime_ns);
  // The recording of an incident has been written.
  void recorded(uint64_t incident, const std::string& path);
  // Runs `change` in the thread that has the database, after what was reported before is stored, then `then`, if that worked;
  // without a history `then` alone, at once. Comes back when it is on the disk. Errors: those of `change`; Unavailable: too
  // many wait, or it took longer: then nothing is changed, unless the disk was at it already.
  absl::Status change_history(std::function<absl::Status(history::Database&)> change, std::function<void()> then,
                              absl::Duration timeout);
  // The same without waiting, for what may be lost; also where it is refused.
  // `entry`: what other nodes of a cluster are told of it.
  void change_history_later(std::function<absl::Status(history::Database&)> change, report::Json entry);
  // Runs `look`, which only reads, in the thread that has the database; again every second as long as it fails. Returns
  // at once.
  void look_later(std::function<absl::Status(history::Database&)> look);
  // Is told each revision, once it is stored or was refused by the disk; from the reporting thread, so it must not
  // wait.
  void tell(std::function<void(const report::Json& verdict)>);
  // In a cluster: appends an entry to the common log, and waits for that. Errors: OutOfRange: it is longer than an
  // entry can be; else this node does not lead (any more): what it would report nobody is told, and changes are
  // refused. Before the first report.
  using Keep = std::function<absl::StatusOr<history::LogPosition>(const report::Json& entry)>;
  void keep_with(Keep);
  // Entries of the log into the history, which goes on from `after` to `through` with them. Comes back when they are on
  // the disk; one that cannot be read is left out. Aborted: the history is not at `after`.
  absl::Status apply(std::vector<report::Json> entries, history::LogPosition after, history::LogPosition through,
                     absl::Duration timeout);
  // An entry of the log by which this node says that it leads. Returns at once.
  void wrote(const report::Json& leads, history::LogPosition);
  // How far the log is in the history, or waits in memory for a disk that is full.
  absl::StatusOr<history::LogPosition> log_position(absl::Duration timeout);
  // Where the history stands, with what waits in memory; from now on that is what an earlier run left open, and what
  // operators have said.
  absl::StatusOr<history::Standing> standing(absl::Duration timeout);
  uint64_t last_id() const;  // the highest number that is known, or was told
  // What operators have said of incidents.
  OperatorBook& book();
  const OperatorBook& book() const;
  // Everything that waits is reported, and stored as far as the disk allows. False: that is not done after so long,
  // because a disk or the reader of verdicts hangs; then the process has to end without the destructor. Idempotent.
  bool finish(absl::Duration timeout = absl::InfiniteDuration());

  // How long the thread has waited for the disk or for who reads the verdicts; 0: it does not.
  Nanoseconds held_up_ns() const;
  report::HistoryCounters counters() const;
  uint64_t verdict_lines() const;
  uint64_t verdict_write_errors() const;
  // For who reads the database, in threads of his own.
  ReadTurns& read_turns() const;
  // Reported and not in the database: newest revision of each incident.
  std::vector<report::Json> waiting() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ccld::decision::server
