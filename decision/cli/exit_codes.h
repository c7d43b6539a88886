// What every command of `ccld` ends with.
#pragma once

namespace ccld::decision {

constexpr int exit_ok = 0;
constexpr int exit_failed = 1;  // the surroundings: port occupied, file not writable, service not reachable, no such incident
constexpr int exit_usage = 2;   // the command line, the config file or a setting is wrong

}  // namespace ccld::decision
