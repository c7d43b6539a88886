#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "decision/cli/command.h"
#include "decision/cli/service_client.h"
#include "decision/report/status_text.h"

namespace ccld::decision {

void add_status_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("status", "Show communicators, ranks, what is in flight and for how long, silent processes");
  struct Values {
    std::string url = default_service_url;
    bool json = false, ranks = false;
  };
  auto values = std::make_shared<Values>();
  command->add_option("--http", values->url, "the service's query API")->type_name("URL")->envname(service_url_variable)->capture_default_str();
  command->add_flag("--json", values->json, "the document as it is");
  command->add_flag("--ranks", values->ranks, "every rank of every communicator");
  command->callback([values] {
    const auto status = ask_service(values->url, values->ranks ? "/v1/status?ranks=1" : "/v1/status");
    end_unless_ok(status.status());
    try {
      std::fputs(values->json ? (status->dump(2) + "\n").c_str() : report::status_text(*status, values->ranks).c_str(), stdout);
    } catch (const nlohmann::json::exception& e) {
      fail(exit_failed, absl::StrCat("the service's answer is not understood: ", e.what()));
    }
  });
}

}  // namespace ccld::decision
