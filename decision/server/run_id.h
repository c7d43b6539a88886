// The name of one run of the service: verdicts of several runs in one file are told apart by it.
#pragma once

#include <string>

#include "decision/model/types.h"

namespace ccld::decision::server {

// "20260131T120000Z-3fa29c": when it began, and a number at random, so that two that begin together differ.
std::string new_run_id(int64_t realtime_ns);

}  // namespace ccld::decision::server
