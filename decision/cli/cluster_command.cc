#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "decision/cli/command.h"
#include "decision/cli/service_client.h"
#include "decision/cli/service_options.h"
#include "decision/report/text_format.h"

namespace ccld::decision {
namespace {

using report::Json;

struct ClusterValues {
  ServiceAddress service;
  std::string action = "status";
  bool json = false;
};

std::string text_of(const Json& c) {
  const Json& log = report::member(c, "log");
  const Json& telemetry = report::member(c, "telemetry");
  const auto applied = report::number_of(log, "applied"), last = report::number_of(log, "last");
  std::string out = absl::StrCat("cluster ", report::text_of(c, "cluster"), ": ");
  if (!c["connected"].get<bool>())
    absl::StrAppend(&out, "node ", report::text_of(c, "node"), " reaches no NATS server\n");
  else
    absl::StrAppend(&out, report::has(c, "leader") ? absl::StrCat("node ", report::text_of(c, "leader"), " leads\n")
                                                   : std::string("no node leads\n"));
  if (report::has(log, "error"))
    absl::StrAppend(
        &out, "NATS refuses entries of the log, so nobody is told of incidents: ", report::text_of(log, "error"), "\n");
  std::vector<std::vector<std::string>> rows = {{"node", "", "heard", "query API", "telemetry", "version"}};
  for (const Json& n : report::member(c, "nodes")) {
    rows.push_back({report::text_of(n, "node"), n["leads"].get<bool>() ? "leads" : "follows",
                    absl::StrCat(report::span_text(report::real_of(n, "heard_ms")), " ago"), report::text_of(n, "http"),
                    report::text_of(n, "telemetry"), report::text_of(n, "version")});
  }
  absl::StrAppend(&out, report::table(rows, {false, false, true, false, false, false}));
  absl::StrAppend(&out, "seen by node ", report::text_of(c, "node"), ": ", applied, " of ", last,
                  " entries of the log; telemetry messages: ", report::number_of(telemetry, "sent"),
                  " sent to other nodes, ", report::number_of(telemetry, "not_sent"), " not sent, ",
                  report::number_of(telemetry, "received"), " received, ",
                  report::number_of(telemetry, "received_dropped"), " dropped\n");
  return out;
}

void run(const ClusterValues& values) {
  const auto document = ask_service(values.service, "/v1/cluster");
  end_unless_ok(document.status());
  try {
    std::fputs(values.json ? (document->dump(2) + "\n").c_str() : text_of(*document).c_str(), stdout);
  } catch (const nlohmann::json::exception& e) {
    fail(exit_failed, absl::StrCat("the service's answer is not understood: ", e.what()));
  }
}

}  // namespace

void add_cluster_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("cluster", "Which nodes of a cluster there are, and which of them leads");
  auto values = std::make_shared<ClusterValues>();
  command->add_option("action", values->action, "status: as the asked node sees it")
      ->check(CLI::IsMember({"status"}))
      ->type_name("ACTION");
  add_service_options(*command, values->service);
  command->add_flag("--json", values->json, "the document (/v1/cluster)");
  command->callback([values] { run(*values); });
}

}  // namespace ccld::decision
