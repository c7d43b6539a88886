// What the hooks and the probe say in NCCL's log. NCCL keeps the newest warning as the error that ncclGetLastError
// shows; ours are not what a call of the user failed of, and leave it alone.
//
// Threads: any.
#pragma once

#include <string>

namespace ccld::hooks {

// The probe's lines go to NCCL's log from now on.
void connect_log();
void warn(const std::string& line);
void inform(const std::string& line);
// Once per process, which build this is, where and when NCCL says its own version: with NCCL_DEBUG=VERSION or WARN on
// rank 0 only, with INFO on every rank. After connect_log().
void say_build(int rank);

}  // namespace ccld::hooks
