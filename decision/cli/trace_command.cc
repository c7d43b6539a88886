// `ccld trace`: a recording as a trace for ui.perfetto.dev or chrome://tracing. Reads the recording four times: who takes
// part, what the service says about it, how the clocks differ, and what is shown. So memory does not grow with its length.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "decision/advise/known_settings.h"
#include "decision/admission/files.h"
#include "decision/cli/command.h"
#include "decision/cli/trace_marks.h"
#include "decision/ingest/batch_decoder.h"
#include "decision/ingest/sequence_tracker.h"
#include "decision/recording/reader.h"
#include "decision/report/headline.h"
#include "decision/report/mitigation.h"
#include "decision/report/mitigation_text.h"
#include "decision/report/text_format.h"
#include "decision/report/wall_clock.h"
#include "decision/server/replay.h"
#include "decision/server/surroundings.h"
#include "decision/trace/gpu_clocks.h"
#include "decision/trace/json_writer.h"
#include "decision/trace/perfetto_writer.h"
#include "decision/trace/rows.h"
#include "decision/trace/selection.h"

namespace ccld::decision {
namespace {

using recording::Entry;
using recording::Reader;

// With --incident and without times: enough to see iterations that were still healthy, and where it led to.
constexpr Nanoseconds around_incident_ns = 10 * ns_per_s;
// A kernel that reports to have begun longer before the recording has another clock than its host.
constexpr Nanoseconds before_recording_max_ns = 3600 * ns_per_s;
constexpr double seconds_max = 1e9;
constexpr size_t marks_bytes_max = 256 << 20;  // ccld-validate writes some 300 bytes for a check

struct TraceValues {
  std::string path, ranks, format = "perfetto", output;
  std::vector<std::string> validations, actions;  // files
  std::optional<uint64_t> incident;
  std::optional<double> from_s, to_s;
};

struct Extent {
  Nanoseconds first_ns = 0, last_ns = 0;
  int64_t realtime_minus_clock_ns = 0;
  uint64_t missing = 0, refused = 0;  // entries that were not recorded, messages that are no telemetry
  std::string warning;
  absl::Status status;  // of the file: what came before the error is good
};

// Every batch once, in order.
Extent read_batches(const std::string& path, const Settings& settings, const std::function<void(const Batch&, Nanoseconds now_ns)>& take) {
  Reader reader = value_of(Reader::open(path));
  ingest::SequenceTracker sequence(settings.processes_max);
  Extent extent;
  bool begun = false;
  Entry e;
  for (;;) {
    const auto found = reader.next(e);
    extent.status = found.status();
    if (!found.ok() || !*found) break;
    if (!std::exchange(begun, true)) {
      extent.first_ns = e.clock_ns;
      extent.realtime_minus_clock_ns = e.realtime_ns - e.clock_ns;
    }
    extent.last_ns = e.clock_ns;
    if (e.kind == recording::EntryKind::gap) extent.missing += e.missing;
    if (e.kind != recording::EntryKind::message) continue;
    const auto batch = ingest::decode_batch(e.message);
    if (!batch.ok()) {
      ++extent.refused;
      continue;
    }
    if (sequence.record(batch->process, batch->batch_seq, batch->sent_monotonic_ns).arrival == ingest::SequenceTracker::Arrival::repeated) continue;
    take(*batch, e.clock_ns);
  }
  extent.warning = reader.warning();
  return extent;
}

struct Told {
  Incident incident;   // as it was in the end
  std::string advice;  // what to do about it, while it was open
};

std::string advice_of(const Incident& i, Nanoseconds now_ns, int64_t realtime_ns, const advise::Known& known) {
  report::Json verdict = report::verdict_json(i, now_ns, {realtime_ns - now_ns});
  report::set_mitigation(verdict, known);
  const std::vector<std::string> summary = report::mitigation_summary(verdict);
  return summary.empty() ? "" : summary.front();
}

// By number.
std::map<uint64_t, Told> incidents_of(const std::string& path, const Settings& settings) {
  Reader reader = value_of(Reader::open(path));
  server::Analysis analysis(settings, std::nullopt);
  server::ReplaySummary summary;
  const advise::Known known = advise::known_of(settings);
  std::map<uint64_t, Told> incidents;
  // An error of the file is told where the rows are made: here it ends what is known.
  (void)server::replay(reader, {}, analysis, summary, [&](const Incident& i, Nanoseconds now_ns, int64_t realtime_ns) {
    Told& told = incidents[i.id];
    told.incident = i;
    if (is_open(i.state)) told.advice = advice_of(i, now_ns, realtime_ns, known);
  });
  return incidents;
}

// A file that appears under its name when it is whole.
class Output {
 public:
  explicit Output(std::string path) : path_(std::move(path)) {
    if (path_ == "-") {
      file_ = stdout;
      return;
    }
    struct stat info {};
    // A pipe or a device takes it as it comes.
    if (stat(path_.c_str(), &info) != 0 || S_ISREG(info.st_mode)) part_ = path_ + ".part";
    file_ = std::fopen(part_.empty() ? path_.c_str() : part_.c_str(), "wb");
    if (file_ == nullptr) fail(exit_failed, absl::StrCat("-o: ", path_, ": ", std::strerror(errno)));
  }
  Output(const Output&) = delete;
  ~Output() {
    if (file_ != nullptr && file_ != stdout) std::fclose(file_);
    if (!part_.empty()) std::remove(part_.c_str());
  }
  void put(absl::string_view bytes) {
    if (error_ == 0 && std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) error_ = errno;
    bytes_ += bytes.size();
  }
  void finish() {
    if (error_ == 0 && std::fflush(file_) != 0) error_ = errno;
    if (file_ != stdout && std::fclose(std::exchange(file_, nullptr)) != 0 && error_ == 0) error_ = errno;
    if (error_ == 0 && !part_.empty() && std::rename(part_.c_str(), path_.c_str()) != 0) error_ = errno;
    if (error_ != 0) fail(exit_failed, absl::StrCat("-o: ", path_, ": ", std::strerror(error_)));
    part_.clear();
  }
  uint64_t bytes() const { return bytes_; }

 private:
  std::string path_, part_;
  std::FILE* file_ = nullptr;
  int error_ = 0;
  uint64_t bytes_ = 0;
};

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat of_a {}, of_b {};
  return stat(a.c_str(), &of_a) == 0 && stat(b.c_str(), &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

// In the current folder, named after the recording.
std::string default_output(const TraceValues& v) {
  std::string name = v.path.substr(v.path.rfind('/') + 1);
  if (absl::EndsWith(name, ".ccldrec")) name.resize(name.size() - std::strlen(".ccldrec"));
  return name + (v.format == "json" ? ".json" : ".pftrace");
}

const Incident& chosen(const std::map<uint64_t, Told>& incidents, uint64_t number) {
  const auto it = incidents.find(number);
  if (it != incidents.end()) return it->second.incident;
  if (incidents.empty()) fail(exit_failed, absl::StrCat("--incident: there is no incident ", number, ": the recording has none"));
  fail(exit_failed, absl::StrCat("--incident: there is no incident ", number, ": the recording has ", incidents.begin()->first, " to ", incidents.rbegin()->first));
}

trace::Range range_of(const TraceValues& v, const Extent& extent, const Incident* incident) {
  trace::Range range;
  if (v.from_s) range.from_ns = extent.first_ns + seconds_to_ns(*v.from_s);
  if (v.to_s) range.to_ns = extent.first_ns + seconds_to_ns(*v.to_s);
  if (incident == nullptr || v.from_s || v.to_s) return range;
  range.from_ns = (incident->onset_ns != 0 ? incident->onset_ns : incident->suspected_ns) - around_incident_ns;
  range.to_ns = std::max({incident->suspected_ns, incident->located_ns, incident->confirmed_ns, incident->resolved_ns}) + around_incident_ns;
  return range;
}

std::string ranks_text(const trace::Directory& directory, const std::vector<int>& gpus) {
  report::Json ranks = report::Json::array();
  for (const int g : gpus) ranks.push_back(directory.gpus()[static_cast<size_t>(g)].number);
  return report::ranks_text(ranks);
}

void say_what_is_left_out(const trace::Directory& directory, const Extent& extent, const std::vector<int>& gpus, const trace::RowCounts& counts,
                          const trace::Range& range) {
  using report::grouped;
  if (!extent.warning.empty()) say(extent.warning);
  if (extent.missing > 0) say(absl::StrCat("the recorder could not keep up: ", extent.missing, " entries are missing"));
  if (extent.refused > 0) say(absl::StrCat(extent.refused, " messages are no telemetry that this version understands"));
  if (gpus.size() < directory.gpus().size())
    say(absl::StrCat("left out: ", directory.gpus().size() - gpus.size(), " ranks with ", grouped(counts.of_other_ranks), " operations; --ranks chooses others"));
  if (!directory.numbered_by_communicator()) say("no communicator has all GPUs: ranks are counted by host and GPU, from 0");
  if (range.from_ns != INT64_MIN || range.to_ns != INT64_MAX)
    say(absl::StrCat("left out: what is not between ",
                     range.from_ns == INT64_MIN ? "the beginning" : absl::StrCat(static_cast<double>(range.from_ns - extent.first_ns) / 1e9, " s"), " and ",
                     range.to_ns == INT64_MAX ? "the end" : absl::StrCat(static_cast<double>(range.to_ns - extent.first_ns) / 1e9, " s"),
                     " of the recording; --from and --to choose other times"));
  if (counts.beyond > 0) say(absl::StrCat("left out: ", grouped(counts.beyond), " events: a trace has at most ", grouped(trace::events_max), "; choose fewer ranks or a shorter time"));
  if (counts.undescribed > 0) say(absl::StrCat("left out: ", grouped(counts.undescribed), " operations of communicators that the recording does not describe"));
  if (directory.left_out() > 0) say(absl::StrCat("left out: ", grouped(directory.left_out()), " memberships in communicators beyond memberships_max"));
  if (counts.untimed > 0) say(absl::StrCat(grouped(counts.untimed), " operations have no times of their kernel: shown as calls only, where these are known"));
}

void check(const TraceValues& v) {
  if (v.format != "perfetto" && v.format != "json") fail(exit_usage, absl::StrCat("--format: perfetto or json is expected, not '", v.format, "'"));
  for (const auto& [flag, s] : {std::pair("--from", v.from_s), std::pair("--to", v.to_s)})
    if (s && !(*s >= -seconds_max && *s <= seconds_max)) fail(exit_usage, absl::StrCat(flag, ": seconds up to 1000000000 are expected"));
  if (v.from_s && v.to_s && *v.from_s > *v.to_s) fail(exit_usage, "--to: the end is before --from");
}

using MarksOf = absl::StatusOr<std::vector<trace::Mark>> (*)(const std::string& text, int64_t realtime_minus_clock_ns);

void add_marks(const char* flag, const std::vector<std::string>& files, MarksOf marks_of, int64_t realtime_minus_clock_ns, std::vector<trace::Mark>& marks) {
  for (const std::string& path : files) {
    const auto text = admission::read_file(path, marks_bytes_max);
    if (!text.ok()) fail(exit_usage, absl::StrCat(flag, ": ", text.status().message()));
    const auto found = marks_of(*text, realtime_minus_clock_ns);
    if (!found.ok()) fail(exit_usage, absl::StrCat(flag, ": ", path, ": ", found.status().message()));
    marks.insert(marks.end(), found->begin(), found->end());
  }
}

void write_trace(const TraceValues& v) {
  if (absl::Status s = server::start_log("warning"); !s.ok()) end_unless_ok(s);
  check(v);
  std::vector<trace::RankRange> asked;
  if (!v.ranks.empty()) asked = value_of(trace::parse_ranks(v.ranks));
  const std::string output = v.output.empty() ? default_output(v) : v.output;
  Settings settings;
  {
    std::vector<std::string> warnings;
    settings = recording::settings_of(value_of(Reader::open(v.path)).metadata(), warnings);
    for (const std::string& warning : warnings) say(warning);
  }
  if (is_same_file(v.path, output)) fail(exit_usage, "-o: this is the recording itself");

  trace::Directory directory(settings);
  const Extent extent = read_batches(v.path, settings, [&](const Batch& batch, Nanoseconds) { directory.see(batch); });
  directory.number();
  if (directory.gpus().empty()) {
    end_unless_ok(extent.status);
    fail(exit_failed, absl::StrCat(v.path, ": no rank of a communicator is described: there is nothing to show"));
  }
  std::vector<trace::Mark> marks;
  add_marks("--validation", v.validations, marks_of_validation, extent.realtime_minus_clock_ns, marks);
  add_marks("--actions", v.actions, marks_of_actions, extent.realtime_minus_clock_ns, marks);
  const std::map<uint64_t, Told> incidents = incidents_of(v.path, settings);
  const Incident* const incident = v.incident ? &chosen(incidents, *v.incident) : nullptr;
  std::vector<Incident> told;
  for (const auto& [id, t] : incidents)
    if (incident == nullptr || incident == &t.incident) told.push_back(t.incident);
  const std::vector<int> gpus = asked.empty() ? trace::ranks_by_default(directory, told) : value_of(trace::ranks_asked(directory, asked));
  const trace::Range range = range_of(v, extent, incident);

  trace::GpuClocks clocks(directory, gpus, settings);
  read_batches(v.path, settings, [&](const Batch& batch, Nanoseconds now_ns) { clocks.add(batch, now_ns); });
  clocks.finish(extent.last_ns);

  const Nanoseconds zero_ns = std::max(extent.first_ns - before_recording_max_ns, std::min(extent.first_ns, clocks.earliest_ns()));
  Output file(output);
  const trace::Put put = [&](absl::string_view bytes) { file.put(bytes); };
  std::unique_ptr<trace::Writer> writer;
  if (v.format == "json")
    writer = std::make_unique<trace::JsonWriter>(put);
  else
    writer = std::make_unique<trace::PerfettoWriter>(put);
  trace::Rows rows(directory, clocks, gpus, range, zero_ns, *writer);
  for (const auto& [id, t] : incidents) {
    Incident titled = t.incident;
    titled.title = report::headline(t.incident);
    rows.incident(titled, t.advice);
  }
  for (const trace::Mark& mark : marks) rows.mark(mark);
  read_batches(v.path, settings, [&](const Batch& batch, Nanoseconds) { rows.add(batch); });
  rows.finish();
  file.finish();
  const report::WallClock calendar{extent.realtime_minus_clock_ns};
  say(absl::StrCat(output, ": ", report::grouped(rows.counts().events), " events, ", report::grouped(file.bytes()), " bytes; rank ", ranks_text(directory, gpus), " of ",
                   report::count_text(directory.gpus().size(), "rank", "ranks"), "; ", report::count_text(incidents.size(), "incident", "incidents"), "; zero is ",
                   calendar.text(zero_ns)));
  say_what_is_left_out(directory, extent, gpus, rows.counts(), range);
  end_unless_ok(extent.status);
}

}  // namespace

void add_trace_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("trace", "Write a recording as a trace for ui.perfetto.dev or chrome://tracing: selected ranks on one time line");
  auto v = std::make_shared<TraceValues>();
  command->add_option("file", v->path, "a recording of `ccld serve --record`, `--record-incidents` or `ccld record`")->type_name("FILE")->required();
  command->add_option("--incident", v->incident, "its culprits, whom they wait for and their neighbours, around its time; numbers are those of `ccld replay`")->type_name("NUMBER");
  command->add_option("--ranks", v->ranks, "which ranks, like 0-7,12; without this flag at most 16, those of the incidents first")->type_name("RANKS");
  command->add_option("--from", v->from_s, "from so many seconds of the recording on")->type_name("SECONDS");
  command->add_option("--to", v->to_s, "up to so many seconds of the recording")->type_name("SECONDS");
  command->add_option("--validation", v->validations, "marks what `ccld-validate --json` said: its output in a file; may be given several times")->type_name("FILE");
  command->add_option("--actions", v->actions, "marks what was done about incidents: the file of `act --state`; may be given several times")->type_name("FILE");
  command->add_option("--format", v->format, "perfetto (protobuf) or json (Chrome's trace events)")->type_name("FORMAT")->capture_default_str();
  command->add_option("-o,--output", v->output, "the trace; -: standard output; without this flag named after the recording, in this folder. An existing file starts anew")
      ->type_name("FILE");
  command->callback([v] { write_trace(*v); });
}

}  // namespace ccld::decision
