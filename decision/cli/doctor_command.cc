#include <cstdio>
#include <memory>
#include <utility>

#include "decision/cli/command.h"
#include "decision/cli/doctor_checks.h"
#include "decision/cli/service_client.h"
#include "decision/cli/service_options.h"

namespace ccld::decision {
namespace {

void examine(const DoctorOptions& options) {
  bool failed = false;
  const auto say = [&failed](const Checked& f) {
    failed |= f.health == Health::fail;
    std::printf("%s\n", text_of(f).c_str());
    std::fflush(stdout);  // the next check may take seconds
  };
  for (const Checked& f : check_folder(options)) say(f);
  std::vector<std::string> endpoints;
  for (const Checked& f : check_processes(options, &endpoints)) say(f);
  const auto keys = read_probe_keys(options.server_key, options.key_file);
  if (keys.ok()) {
    for (const std::string& endpoint : endpoints_to_check(options.endpoint, endpoints))
      say(check_endpoint_answers(endpoint, *keys));
  } else {
    say({Health::fail, std::string(keys.status().message()), "a probe with these settings sends nothing"});
  }
  for (const Checked& f : check_service(options.service)) say(f);
  if (failed) throw CLI::RuntimeError(exit_failed);
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("doctor", "Check that our library is in force, its telemetry arrives, and the service is well");
  auto options = std::make_shared<DoctorOptions>();
  command->add_option("--pid", options->pids, "these processes; without it, all of this user that use NCCL")->type_name("PID");
  add_service_options(*command, options->service);
  command
      ->add_option("--endpoint", options->endpoint,
                   "the service's telemetry endpoint, or several with commas; without it, those of the processes")
      ->type_name("ENDPOINT")
      ->envname("NCCL_PROBE_ENDPOINT");
  command->add_option("--server-key", options->server_key, "the service's public key, or the file that has it, to connect as a probe with keys does")
      ->type_name("KEY|FILE")
      ->envname("NCCL_PROBE_SERVER_KEY");
  command->add_option("--key-file", options->key_file, "file of the probe's secret key")->type_name("FILE")->envname("NCCL_PROBE_KEY_FILE");
  command->add_option("--dir", options->dir, "folder of the frames")->type_name("FOLDER")->envname("NCCL_PROBE_FRAMES_DIR")->capture_default_str();
  command->callback([options] { examine(*options); });
}

}  // namespace ccld::decision
