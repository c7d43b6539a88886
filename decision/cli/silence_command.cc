#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "decision/cli/command.h"
#include "decision/cli/login_name.h"
#include "decision/cli/service_client.h"
#include "decision/cli/service_options.h"
#include "decision/report/silence.h"
#include "decision/report/text_format.h"

namespace ccld::decision {
namespace {

using report::Json;

struct SilenceValues {
  ServiceAddress service;
  std::string action;
  std::optional<uint64_t> id;
  std::map<std::string, std::string> fields;  // of the request, by name
  bool json = false;

  bool has_fields() const {
    for (const auto& [name, text] : fields)
      if (!text.empty()) return true;
    return false;
  }
};

void list(const SilenceValues& values) {
  const auto document = ask_service(values.service, "/v1/silences");
  end_unless_ok(document.status());
  std::fputs(values.json ? (document->dump(2) + "\n").c_str() : report::silence_list_text(*document).c_str(), stdout);
}

void add(const SilenceValues& values) {
  Json request = Json::object();
  for (const auto& [name, text] : values.fields)
    if (!text.empty()) request[name] = text;
  if (!request.contains("for")) fail(exit_usage, "--for is needed: how long, such as 30m, 2h, 7d");
  if (!request.contains("by")) request["by"] = login_name();
  const auto answer = tell_service(values.service, "/v1/silences", request);
  end_unless_ok(answer.status());
  const Json& silence = report::member(*answer, "silence");
  std::printf("silence %s until %s\n", report::text_of(silence, "silence").c_str(), report::text_of(silence, "until").c_str());
  if (!answer->at("kept").get<bool>()) say("the service keeps no history: this is forgotten when it ends");
}

void end(const SilenceValues& values) {
  const auto answer = tell_service(values.service, absl::StrCat("/v1/silences/", *values.id, "/end"), Json::object());
  end_unless_ok(answer.status());
  std::printf("silence %llu is ended\n", static_cast<unsigned long long>(*values.id));
}

void run(const SilenceValues& values) {
  if (values.action == "end" && !values.id.has_value()) fail(exit_usage, "end needs the number of a silence (ccld silence list)");
  if (values.action != "end" && values.id.has_value()) fail(exit_usage, absl::StrCat(values.action, " takes no number"));
  if (values.action != "add" && values.has_fields()) fail(exit_usage, "--job, --host, --kind, --component, --for, --note and --by are for add");
  try {
    if (values.action == "add") add(values);
    else if (values.action == "end") end(values);
    else list(values);
  } catch (const nlohmann::json::exception& e) {
    fail(exit_failed, absl::StrCat("the service's answer is not understood: ", e.what()));
  }
}

}  // namespace

void add_silence_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("silence", "Do not notify of incidents for a while: maintenance, known trouble");
  auto values = std::make_shared<SilenceValues>();
  command->add_option("action", values->action, "add a silence, list those in force, or end one before its time")
      ->required()
      ->check(CLI::IsMember({"add", "list", "end"}))
      ->type_name("ACTION");
  command->add_option("silence", values->id, "to end: its number")->type_name("SILENCE");
  const auto text = [&](const char* name, const char* type, const char* help) {
    command->add_option(absl::StrCat("--", name), values->fields[name], help)->type_name(type);
  };
  text("job", "JOB", "incidents of this training job");
  text("host", "HOST", "whose culprit is on this host, or a link to it");
  text("kind", "KIND", "hang, mismatch or slow");
  text("component", "COMPONENT", "whose culprit is a process, host, gpu, proxy, nic, link or application");
  text("for", "SPAN", "how long: 90s, 30m, 2h, 7d; at most 31d");
  text("note", "TEXT", "why");
  text("by", "NAME", "who asks for it; your login name unless given");
  command->add_flag("--json", values->json, "list: the document as it is");
  add_service_options(*command, values->service);
  command->callback([values] { run(*values); });
}

}  // namespace ccld::decision
