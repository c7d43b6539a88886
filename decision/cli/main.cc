// `ccld`: the decision service and the tools that ask it. Exit codes: exit_codes.h.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>

#include "decision/cli/command.h"
#include "decision/cli/frames_command.h"
#include "decision/cli/status_check.h"
#include "decision/server/heap.h"
#include "schemas/build_id/build_id.h"

namespace {

using namespace ccld::decision;

// What was not written was not said: a full disk and a closed pipe are failures, whatever the command found out.
int said_all(int exit_code) {
  std::cout.flush();  // CLI11 prints help there
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return exit_code;
  std::fprintf(stderr, "ccld: cannot write to standard output: %s\n", errno != 0 ? std::strerror(errno) : "write error");
  return exit_code == exit_ok ? exit_failed : exit_code;
}

// A monitoring system reads status 2 of `ccld status --check` as a confirmed incident, which a wrong flag is not.
bool asks_for_a_check(int argc, char** argv) {
  return argc > 1 && std::strcmp(argv[1], "status") == 0 &&
         std::any_of(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--check") == 0; });
}

int run(int argc, char** argv) {
  // A closed pipe is an error of a write, which is said, not a signal.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Names the rank, GPU, NIC or link that makes a distributed training job hang or crawl.", "ccld");
  app.set_version_flag("--version", std::string("ccld ") + ccld::release_version() + " (build " + ccld::build_id() + ")");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 the surroundings failed (port, file, service, incident), 2 wrong usage or setting.");
  add_serve_command(app);
  add_status_command(app);
  add_explain_command(app);
  add_advise_command(app);
  add_validate_command(app);
  add_incidents_command(app);
  add_ack_command(app);
  add_silence_command(app);
  add_cluster_command(app);
  add_settings_command(app);
  add_tune_command(app);
  add_keys_command(app);
  add_tokens_command(app);
  add_frames_command(app);
  add_record_command(app);
  add_replay_command(app);
  add_trace_command(app);
  add_import_command(app);
  add_doctor_command(app);
  add_top_command(app);
  add_pages_commands(app);
  try {
    app.parse(argc, argv);
    return said_all(exit_ok);
  } catch (const CLI::RuntimeError& e) {  // a command has said what is wrong
    return said_all(e.get_exit_code());
  } catch (const CLI::Success& e) {  // --help, --version
    return said_all(app.exit(e));
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "ccld: %s (see ccld --help)\n", e.what());
    return asks_for_a_check(argc, argv) ? exit_check_unknown : exit_usage;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ccld::decision::server::keep_large_blocks_apart();
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ccld: %s\n", e.what());
    return ccld::decision::exit_failed;
  }
}
