// What a test may ask of the stand-in for libibverbs (verbs.cc), beside the verbs themselves. Loaded with dlsym from
// the library that NCCL has loaded; all functions may be called by any thread.
#pragma once

#include <cstdint>

extern "C" {

// The device takes data (writes with immediate data, and all behind them) and does nothing with it until it is told to
// go on.
void standin_verbs_hold(int hold);
// The next signalled send on any queue pair completes with the error "retry count exceeded", undelivered.
void standin_verbs_fail_next();

struct StandinQueue {
  uint32_t number;
  uint64_t signalled;   // sends with IBV_SEND_SIGNALED that were posted
  uint64_t send_bytes;  // of all sends
  uint64_t receives;    // receives that were posted
  uint64_t polled_sends, polled_receives;
};
// Fills at most `capacity` queue pairs that were ever made; returns how many there are.
uint32_t standin_verbs_queues(StandinQueue* out, uint32_t capacity);

}  // extern "C"
