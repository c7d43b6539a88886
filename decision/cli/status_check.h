// `ccld status --check`: one line and an exit code, as monitoring systems that know Nagios plugins read them.
//   CCLD CRITICAL: 1 confirmed incident, 0 suspected, job demo | confirmed=1;;0;0 suspected=0;0;;0 ...
// Pure. Threads: any.
#pragma once

#include <string>

#include "decision/report/verdict_json.h"

namespace ccld::decision {

constexpr int exit_check_ok = 0;
constexpr int exit_check_warning = 1;   // an incident is suspected
constexpr int exit_check_critical = 2;  // an incident is confirmed
constexpr int exit_check_unknown = 3;   // no service, no such job, a wrong command line

struct CheckResult {
  int exit_code = exit_check_unknown;
  std::string line;  // without line feed
};

// `document`: of /v1/status, or of /v1/jobs/<job>.
// Errors: nlohmann::json::exception where it is neither.
CheckResult check_of(const report::Json& document);
CheckResult check_unknown(const std::string& why);

}  // namespace ccld::decision
