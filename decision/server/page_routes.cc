#include "decision/server/page_routes.h"

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "decision/page/page_files.h"
#include "decision/report/loss_parts.h"
#include "decision/report/status_json.h"
#include "decision/report/text_format.h"
#include "decision/report/verdict_text.h"
#include "decision/server/answers.h"
#include "decision/server/request_checks.h"
#include "httplib.h"

namespace ccld::decision::server {
namespace {

using report::Json;

// Nothing but its own files: what a job is called cannot become a script.
constexpr char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void send_file(const page::File& file, httplib::Response& response) {
  response.set_header("Content-Security-Policy", policy);
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Cache-Control", "no-cache");
  response.set_content(file.bytes.data(), file.bytes.size(), file.type);
}

Json paragraphs(const Json& verdict, bool evidence) {
  Json rows = Json::array();
  for (const report::Paragraph& p : report::verdict_paragraphs(verdict, evidence)) {
    rows.push_back({{"label", p.label}, {"text", p.text}, {"verbatim", p.form == report::Paragraph::verbatim}});
  }
  return rows;
}

// Its ETag is that of its text: acknowledgements change it without a new snapshot, and a closed incident changes no more.
void send_if_new(const Json& document, const httplib::Request& request, httplib::Response& response) {
  answer(response, document);
  const std::string etag = absl::StrCat("\"", absl::Hex(std::hash<std::string>()(response.body)), "\"");
  response.set_header("Cache-Control", "no-cache");
  response.set_header("ETag", etag);
  if (!matches_etag(request.get_header_value("If-None-Match"), etag)) return;
  response.status = 304;
  response.body.clear();
}

}  // namespace

void add_page_routes(httplib::Server& server, IncidentAnswer incident, KnowsCommunicator knows) {
  for (const page::File& file : page::files()) {
    const auto send = [&file](const httplib::Request&, httplib::Response& response) { send_file(file, response); };
    if (file.name == "index.html") {
      server.Get("/", send);
      server.Get(R"(/i/\d+)", send);
    } else {
      server.Get("/page/" + std::string(file.name), send);
    }
  }
  server.Get(R"(/page/incident/(\d{1,20}))", [incident = std::move(incident), knows = std::move(knows)](
                                                 const httplib::Request& request, httplib::Response& response) {
    uint64_t id = 0;
    const std::string text = request.matches[1];
    const absl::StatusOr<Json> verdict = absl::SimpleAtoi(text, &id) ? incident(id) : absl::NotFoundError("no number");
    if (absl::IsUnavailable(verdict.status())) return refuse(response, 503, std::string(verdict.status().message()));
    if (!verdict.ok()) return refuse(response, 404, absl::StrCat("there is no incident ", text));
    send_if_new({{"title", report::verdict_title(*verdict)},
                 {"state", report::verdict_state(*verdict)},
                 {"short", paragraphs(*verdict, false)},
                 {"all", paragraphs(*verdict, true)},
                 {"loss", report::loss_json(*verdict)},
                 {"communicator_known", knows(report::text_of(*verdict, "communicator"))},
                 {"verdict", *verdict}},
                request, response);
  });
}

}  // namespace ccld::decision::server
