// The agent's part of probe/probe.h: settings and log, and the communicators that come and go.
#include <atomic>

#include "probe/agent/diagnostic_thread.h"
#include "probe/counters/log.h"
#include "probe/frames/comm.h"
#include "probe/frames/frame_file.h"
#include "probe/probe.h"
#include "probe/settings.h"

namespace ccld::probe {

void set_log(Log log) {
  log_set(log);
  settings();
}

bool enabled() { return settings().enable; }

void comm_ready(Comm* comm, const CommIdentity& identity) {
  if (comm == nullptr || in_forked_child()) return;
  comm->identity = identity;
  frame_publish_identity(*comm, identity);
  if (Agent* agent = running_agent()) agent->attach(comm);
}

void comm_end(Comm* comm, abi::CommState end_state) {
  if (comm == nullptr || in_forked_child()) return;  // the child's copy of a frame is still its parent's
  comm->detached.store(true, std::memory_order_relaxed);
  frame_set_state(*comm, end_state);
  if (Agent* agent = existing_agent()) agent->detach(comm, end_state);
  frame_hide(*comm);
}

}  // namespace ccld::probe
