// What `ccld status` shows of a communicator and of a process. Pure.
#pragma once

#include "decision/model/communicator.h"
#include "decision/model/processes.h"
#include "decision/model/status.h"

namespace ccld::decision {

CommStatus comm_status(const Communicator&, const ProcessTable&, Nanoseconds now_ns);
ProcessStatus process_status(const ProcessModel&, Nanoseconds now_ns);

}  // namespace ccld::decision
