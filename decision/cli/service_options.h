// The options of every command that asks a service: --http, --token-file, --ca-file. Threads: any.
#pragma once

#include "CLI/CLI.hpp"
#include "decision/cli/service_client.h"

namespace ccld::decision {

// `address` outlives the command. `names`: of the first. Returns --http.
CLI::Option* add_service_options(CLI::App& command, ServiceAddress& address, const char* names = "--http");

}  // namespace ccld::decision
