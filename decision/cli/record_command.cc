#include <memory>

#include "decision/cli/command.h"
#include "decision/server/record.h"

namespace ccld::decision {

void add_record_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("record", "Receive telemetry and write it to a file, without analysing it");
  auto options = std::make_shared<server::RecordOptions>();
  command->add_option("file", options->path, "the recording, for `ccld replay`; an existing file is refused")->type_name("FILE")->required();
  command->add_option("--listen", options->listen, "where probes send telemetry, tcp://address:port or ipc://path; port 0: any free one")
      ->type_name("ENDPOINT")
      ->capture_default_str();
  command->add_option("--telemetry-secret-file", options->telemetry_secret_file, "as of `ccld serve`")->type_name("FILE");
  command->add_option("--telemetry-allow-file", options->telemetry_allow_file, "as of `ccld serve`")->type_name("FILE");
  command->add_flag("--insecure", options->insecure, "listen beyond this host although everyone can send");
  command->add_option("--max-bytes", options->max_bytes, "the recording ends when it has so many; K, M, G")->type_name("BYTES")->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "replace an existing file");
  command->callback([options] { end_unless_ok(server::record(*options)); });
}

}  // namespace ccld::decision
