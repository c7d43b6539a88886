// The page's part of the query API: its files, and the text of an incident, for which only it asks.
// Threads: those of the server.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "decision/report/verdict_json.h"

namespace httplib {
class Server;
}

namespace ccld::decision::server {

// The newest verdict of an incident, or why there is none.
using IncidentAnswer = std::function<absl::StatusOr<report::Json>(uint64_t id)>;

// Whether the service still knows this communicator (16 hexadecimal digits): a page does not ask for what is gone.
using KnowsCommunicator = std::function<bool(const std::string& id)>;

void add_page_routes(httplib::Server&, IncidentAnswer, KnowsCommunicator);

}  // namespace ccld::decision::server
