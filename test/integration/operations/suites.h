// What the ranks of a job do, by name, and what must be known of it afterwards, case by case.
#pragma once

#include <string>

#include "test/support/ranks/job.h"

namespace ccld::operations_test {

// Names an empty folder in which the ranks of a job meet.
constexpr const char* meeting_folder_variable = "CCLD_TEST_MEETING_FOLDER";

// Elements per rank of the calls below, as NCCL's API counts them.
constexpr size_t small_count = 1031;
constexpr size_t large_count = 300000;
constexpr size_t shared_counts[] = {1031, 2048, 1500};
constexpr int graph_replays = 5;
constexpr int pair_calls = 3;  // sends to the same peer in one group
constexpr int broadcast_root = 1;
constexpr int reduce_root = 2;
constexpr size_t exchange_count(int from, int to) { return 100 + static_cast<size_t>(10 * from + to); }

// "a" or "b" for the first and the second half of the ranks: pretended nodes, whose ranks use the same GPUs.
constexpr const char* two_nodes_variable = "CCLD_TEST_TWO_NODES";

// In a rank; the exit status.
int run_rank(const std::string& suite, const ranks::RankIdentity&);

// In the parent: all jobs of a ctest case; -1 if there is no such case.
int run_test(const std::string& name);

}  // namespace ccld::operations_test
