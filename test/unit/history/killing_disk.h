// Ends this process at a chosen moment of its work on a database: with SIGKILL at the n-th write, truncation or sync of
// SQLite's files. Of a write only the first half is made. For a child process of a test. Threads: any.
#pragma once

#include <cstdint>

namespace ccld::test {

// Of databases opened from now on; call it once. Calls are counted over all files, from 1.
void be_killed_at_disk_call(uint64_t n);

}  // namespace ccld::test
