// Every surface says the same of an incident: the verdict line, the query API, the webhook, `ccld explain`, the page,
// lists, the status, the check, and the labels of metrics. Incidents are those of recorded runs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "decision/cli/status_check.h"
#include "decision/recording/metadata.h"
#include "decision/report/status_text.h"
#include "decision/report/text_format.h"
#include "decision/report/verdict_text.h"
#include "decision/server/http_api.h"
#include "decision/server/replay.h"
#include "decision/webhook/delivery.h"
#include "httplib.h"

namespace ccld::decision::server {
namespace {

using report::Json;
using report::text_of;

constexpr char run_name[] = "20261126T140000Z-abcd";

std::vector<std::string> recordings() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(CCLD_RECORDINGS))
    if (entry.path().extension() == ".ccldrec") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// The service's newest snapshot at the end of the recording.
std::shared_ptr<report::Snapshot> snapshot_of(const std::string& path) {
  auto reader = recording::Reader::open(path);
  REQUIRE(reader.ok());
  std::vector<std::string> warnings;
  Settings settings = recording::settings_of(reader->metadata(), warnings);
  Analysis analysis(settings, std::nullopt, {.run = run_name});
  auto s = std::make_shared<report::Snapshot>();
  std::map<uint64_t, Incident> incidents;
  ReplaySummary summary;
  REQUIRE(replay(*reader, {}, analysis, summary, [&](const Incident& i, Nanoseconds now_ns, int64_t realtime_ns) {
            incidents[i.id] = i;
            s->clock.realtime_minus_clock_ns = realtime_ns - now_ns;
          }).ok());
  s->now_ns = summary.last_ns;
  s->silent_ns = 5 * ns_per_s;
  s->status = analysis.analyzer().status(summary.last_ns);
  s->status.incidents_open = 0;
  for (const auto& [id, i] : incidents) {
    s->incidents.push_back(i);
    if (is_open(i.state)) ++s->status.incidents_open;
  }
  return s;
}

// The service around it, without its telemetry.
struct Api {
  explicit Api(std::shared_ptr<report::Snapshot> s) {
    auto store = std::make_shared<SnapshotStore>();
    store->publish(std::move(s));
    HttpOptions options;
    options.clock_ns = [] { return ns_per_s; };
    auto opened = HttpApi::open({"127.0.0.1", 0}, store, std::make_shared<TuneQueue>(), options);
    REQUIRE(opened.ok());
    http = *std::move(opened);
    auto verdicts = VerdictWriter::open("/dev/null");
    REQUIRE(verdicts.ok());
    http->answer_incidents(std::make_shared<Reporter>(*std::move(verdicts), nullptr, Reporter::Bounds{}));
    http->start();
  }
  std::string text(const std::string& path) const {
    const auto answer = httplib::Client("127.0.0.1", http->address().port).Get(path);
    REQUIRE(answer);
    REQUIRE(answer->status == 200);
    return answer->body;
  }
  Json json(const std::string& path) const { return Json::parse(text(path)); }

  std::unique_ptr<HttpApi> http;
};

// Lines are broken where they are full: every run of blanks and line feeds as one blank.
std::string flat(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (const char one = c == '\n' ? ' ' : c; one != ' ' || out.empty() || out.back() != ' ') out += one;
  return out;
}

// Labels and texts one after the other, as a reader of the page meets them.
std::string words_of(const Json& paragraphs) {
  std::string out;
  for (const Json& p : paragraphs) absl::StrAppend(&out, text_of(p, "label"), " ", text_of(p, "text"), " ");
  return flat(out);
}

// The series of the incident's culprits, a line each.
std::vector<std::string> series_of(const std::string& metrics, const std::string& incident) {
  std::vector<std::string> out;
  std::istringstream in(metrics);
  for (std::string line; std::getline(in, line);)
    if (absl::StartsWith(line, absl::StrCat("ccld_incident_info{incident=\"", incident, "\","))) out.push_back(line);
  return out;
}

std::string label(const std::string& series, const std::string& name) {
  const std::string begin = absl::StrCat(name == "incident" ? "{" : ",", name, "=\"");
  const size_t at = series.find(begin);
  return at == std::string::npos
             ? ""
             : series.substr(at + begin.size(), series.find('"', at + begin.size()) - at - begin.size());
}

// Where a document has the moment at which it was asked for, what became of the incident outside, or what to do about it.
Json without_answer(Json verdict) {
  for (const char* const key : {"now", "recording", "acknowledged", "silenced", "mitigation"}) verdict.erase(key);
  return verdict;
}

void check_metrics(const std::string& metrics, const Json& line) {
  const auto series = series_of(metrics, line["incident"].dump());
  CHECK(series.size() == std::max<size_t>(1, line["culprits"].size()));
  size_t row = 0;
  for (const Json& c : line["culprits"]) {
    if (row >= series.size()) break;
    const std::string& of_culprit = series[row++];
    INFO(of_culprit);
    CHECK(label(of_culprit, "training_job") == text_of(line, "job"));
    CHECK(label(of_culprit, "class") == text_of(line, "class"));
    CHECK(label(of_culprit, "state") == text_of(line, "state"));
    for (const char* const name :
         {"rank", "job_rank", "host", "pid", "gpu", "bus_id", "component", "condition", "channel", "peer", "net"})
      CHECK(label(of_culprit, name) == text_of(c, name));
    // The part of the title that is about this culprit; its channel is a label of its own.
    CHECK(absl::StrContains(text_of(line, "title"), label(of_culprit, "title")));
  }
}

void check_incident(const Api& api, const Json& line) {
  const std::string id = line["incident"].dump();
  const std::string title = text_of(line, "title"), kind = text_of(line, "kind"),
                    what = absl::StrCat(kind, ": ", title);
  const bool open = text_of(line, "state") == "confirmed" || text_of(line, "state") == "suspected";

  const Json answer = api.json("/v1/incidents/" + id);
  CHECK(answer["mitigation"].is_object() == open);
  CHECK(without_answer(answer) == line);
  CHECK(without_answer(api.json("/v1/incidents")["incidents"][0]) == line);
  CHECK(Json::parse(webhook::revision_delivery(line, run_name).body)["incident"] == line);

  // For people. The title of a hang has its age in it.
  const std::string explained = report::verdict_text(answer), all = report::verdict_text(answer, true);
  CHECK(absl::StrContains(flat(explained), absl::StrCat(": ", title)));
  CHECK(absl::StartsWith(explained, kind));
  const Json page = api.json("/page/incident/" + id);
  CHECK(text_of(page, "title") == report::verdict_title(answer));
  CHECK(flat(absl::StrCat(text_of(page, "title"), " ", text_of(page, "state"), " ", words_of(page["short"]))) ==
        flat(explained));
  CHECK(absl::StrContains(flat(all), words_of(page["all"])));
  CHECK(without_answer(page["verdict"]) == line);
  for (const Json& c : line["culprits"]) {
    CHECK(absl::StrContains(flat(all), absl::StrCat("rank ", text_of(c, "rank"))));
    CHECK(absl::StrContains(flat(all), absl::StrCat("pid ", text_of(c, "pid"))));
    CHECK(absl::StrContains(flat(all), text_of(c, "host")));
  }
  CHECK(absl::StrContains(report::incident_list_text(Json::array({answer}), report::columns_unlimited), what));

  check_metrics(api.text("/metrics"), line);
  const Json status = api.json("/v1/status");
  const std::string status_text = report::status_text(status, {});
  const std::string check = check_of(status).line;
  CHECK(absl::StrContains(status_text, what) == open);
  CHECK(absl::StrContains(report::job_text(api.json("/v1/jobs/" + text_of(line, "job")), {}), what) == open);
  CHECK(absl::StrContains(check, what) == open);
}

}  // namespace

TEST_CASE("Every surface says the same of an incident") {
  size_t incidents = 0;
  for (const std::string& path : recordings()) {
    INFO(path);
    const auto snapshot = snapshot_of(path);
    const Api api(snapshot);
    for (const Incident& i : snapshot->incidents) {
      check_incident(api, report::verdict_json(i, snapshot->now_ns, snapshot->clock));
      ++incidents;
    }
  }
  CHECK(incidents >= 15);
}

}  // namespace ccld::decision::server
