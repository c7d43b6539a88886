// `ccld`: the decision service and the tools that ask it. Exit codes: exit_codes.h.
#include <cstdio>
#include <exception>

#include "decision/cli/command.h"
#include "decision/cli/frames_command.h"

namespace {

int run(int argc, char** argv) {
  using namespace ccld::decision;
  CLI::App app("Names the rank, GPU, NIC or link that makes a distributed training job hang or crawl.", "ccld");
  app.set_version_flag("--version", "ccld " CCLD_VERSION);
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 the surroundings failed (port, file, service, incident), 2 wrong usage or setting.");
  add_serve_command(app);
  add_status_command(app);
  add_explain_command(app);
  add_settings_command(app);
  add_tune_command(app);
  add_frames_command(app);
  add_record_command(app);
  add_replay_command(app);
  try {
    app.parse(argc, argv);
    return exit_ok;
  } catch (const CLI::RuntimeError& e) {  // a command has said what is wrong
    return e.get_exit_code();
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "ccld: %s (see ccld --help)\n", e.what());
    return exit_usage;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ccld: %s\n", e.what());
    return ccld::decision::exit_failed;
  }
}
