// The agent's part of probe/probe.h: settings and log, and the communicators that come and go.
#include <atomic>

#include "probe/agent/diagnostic_thread.h"
#include "probe/counters/log.h"
#include "probe/frames/comm.h"
#include "probe/frames/frame_file.h"
#include "probe/hold/hold.h"
#include "probe/probe.h"
#include "probe/settings.h"

namespace ccld::probe {

void set_log(Log log) {
  log_set(log);
  settings();
}

bool enabled() { return settings().enable; }

bool may_hold() { return settings().validate; }

void hold_here(Comm* comm, bool collective, bool captured) {
  if (!in_forked_child()) process_hold().here(*comm, collective, captured);
}

void comm_ready(Comm* comm, const CommIdentity& identity) {
  if (comm == nullptr || in_forked_child()) return;
  comm->identity = identity;
  frame_publish_identity(*comm, identity);
  if (Agent* agent = running_agent()) agent->attach(comm);
  if (may_hold()) process_hold().add(comm);
}

void comm_end(Comm* comm, abi::CommState end_state) {
  if (comm == nullptr || in_forked_child()) return;  // the child's copy of a frame is still its parent's
  if (may_hold()) process_hold().remove(comm);
  comm->detached.store(true, std::memory_order_relaxed);
  frame_set_state(*comm, end_state);
  if (Agent* agent = existing_agent()) agent->detach(comm, end_state);
  frame_hide(*comm);
}

}  // namespace ccld::probe
