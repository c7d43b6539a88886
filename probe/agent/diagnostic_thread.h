// The one thread of the probe in a process: starts it, stops it, keeps it out of everybody's way.
//
// Contract
//   Started by the first communicator; named "ccld-probe", all signals blocked, its own timer slack. It ends before the
//   process's static objects do, in bounded time. From its start on the library stays loaded, also when it is closed. A
//   forked child has no such thread and starts none. If the thread cannot be started there is one warning, and frames
//   are still written.
//
// Threads: all functions, any thread.
#pragma once

#include "probe/agent/agent.h"

namespace ccld::probe {

// The agent of this process; its thread is started by the first call. nullptr: in a forked child, or the process is
// ending.
Agent* running_agent();
// The agent if there is one (its thread may have ended already). nullptr in a forked child.
Agent* existing_agent();
bool in_forked_child();

// Stops the thread: what is finished is sent, frames of communicators that were not ended are removed. Called at exit;
// idempotent.
void stop_diagnostic_thread();

}  // namespace ccld::probe
