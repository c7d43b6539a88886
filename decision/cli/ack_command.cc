#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "decision/cli/command.h"
#include "decision/cli/login_name.h"
#include "decision/cli/service_client.h"
#include "decision/cli/service_options.h"
#include "decision/report/text_format.h"

namespace ccld::decision {
namespace {

using report::Json;

struct AckValues {
  ServiceAddress service;
  uint64_t incident = 0;
  std::string by, note;
  bool undo = false;
};

void acknowledge(const AckValues& values) {
  Json request = Json::object();
  if (values.undo) {
    request["undo"] = true;
  } else {
    request["by"] = values.by.empty() ? login_name() : values.by;
    if (!values.note.empty()) request["note"] = values.note;
  }
  const auto answer = tell_service(values.service, absl::StrCat("/v1/incidents/", values.incident, "/ack"), request);
  end_unless_ok(answer.status());
  try {
    const bool kept = answer->at("kept").get<bool>();
    std::printf("incident %llu is %s\n", static_cast<unsigned long long>(values.incident), values.undo ? "not acknowledged any more" : "acknowledged");
    if (!kept && !values.undo) say("the service keeps no history: this is forgotten when it ends");
  } catch (const nlohmann::json::exception& e) {
    fail(exit_failed, absl::StrCat("the service's answer is not understood: ", e.what()));
  }
}

}  // namespace

void add_ack_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ack", "Acknowledge an open incident: somebody is on it");
  auto values = std::make_shared<AckValues>();
  command->add_option("incident", values->incident, "number of the incident")->type_name("INCIDENT")->required();
  CLI::Option* note = command->add_option("--note", values->note, "what others should know")->type_name("TEXT");
  CLI::Option* by = command->add_option("--by", values->by, "who is on it; your login name unless given")->type_name("NAME");
  command->add_flag("--undo", values->undo, "nobody is on it any more")->excludes(note)->excludes(by);
  add_service_options(*command, values->service);
  command->callback([values] { acknowledge(*values); });
}

}  // namespace ccld::decision
