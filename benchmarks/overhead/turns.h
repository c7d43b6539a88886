// Makes runs of the CPU device repeat themselves: the blocks of all ranks run one at a time, in turns.
//
// Polling ranks make instruction counts noisy, because how often a block polls depends on when the others run. With
// turns on, a block goes on until all its threads poll, then hands over to the next block in the order of their launch.
// So every run polls equally often, and two libraries can be compared to the last instruction. The CPU device is not
// changed for it: this file stands in for the four functions of libc through which its blocks wait and rest.
//
// Contract
//   The program is linked with its symbols exported, so that the CPU device finds these functions first. All ranks are
//   in this process. Between turns_begin() and the end of the operation exactly `blocks` blocks are launched; the caller
//   calls turns_await_launch() after each and turns_await_idle() at the end. Before turns_begin() as many blocks have run at the
//   same time: a thread whose first block comes later takes no turns.
//
// Threads: begin and await from the one thread that launches. Errors: none.
#pragma once

namespace ccld::bench {

// From now on blocks run in turns, `blocks` of them in each operation. 0: as usual.
void turns_begin(unsigned blocks);
// Waits until one more block has been launched and waits for its turn.
void turns_await_launch();
// Waits until no block runs.
void turns_await_idle();

}  // namespace ccld::bench
