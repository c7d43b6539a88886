// Signals and the probe's own threads.
#pragma once

#include <csignal>

namespace ccld::probe {

// While it lives, threads that are started take no signals: handlers of the job run on threads of the job. What a
// thread does wrong itself is not blocked: the kernel ends a process that blocks such a signal, whatever handler there
// is, and a truncated file (schemas/abi/bus_guard.h) is one.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&blocked, fault);
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace ccld::probe
