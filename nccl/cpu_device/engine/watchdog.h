// Reports a block that computes for a long time without reaching a scheduling point: a polling loop that never calls
// poll_yield() would otherwise hang its block without a word.
//
// It measures processor time of the block's thread, so that a stopped or starved process is not blamed.
#pragma once

#include <pthread.h>

namespace ccld::cpu_device {

struct Block;

// The calling thread runs `block` from now on, for good.
void watch_block(const Block& block);

}  // namespace ccld::cpu_device
