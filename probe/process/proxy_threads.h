// NCCL's progress threads of this process, as they made themselves known: by default NCCL does not name its threads.
//
// Contract: bounded; what finds no room is not known. A thread that has ended is known until somebody who looked for it
// says so. Never fails. Threads: any, without locks.
#pragma once

#include <sys/types.h>

#include <vector>

namespace ccld::probe {

constexpr unsigned proxy_threads_max = 64;  // one for each GPU of the process, and some that have ended

// The calling thread is one. A system call: once for each connection, not at each visit.
void note_proxy_thread();
std::vector<pid_t> proxy_threads();
void forget_proxy_thread(pid_t thread);

}  // namespace ccld::probe
