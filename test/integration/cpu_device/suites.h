// What the ranks of a job run, by name, and the jobs of each ctest case.
#pragma once

#include <string>

#include "test/support/ranks/job.h"

namespace ccld::cpu_device_matrix {

using ranks::JobSpec;
using ranks::RankIdentity;
using ranks::receive_id;
using ranks::run_job;
using ranks::send_id;

// Names a fifo into which the suite "disturbed" writes once its rounds run.
constexpr const char* ready_variable = "CCLD_TEST_READY";

// Names an empty folder in which the ranks of the suite "abort" meet.
constexpr const char* meeting_folder_variable = "CCLD_TEST_MEETING_FOLDER";

// In a rank; the exit status.
int run_rank(const std::string& suite, const RankIdentity&);

// In the parent: all jobs of a ctest case; -1 if there is no such case.
int run_test(const std::string& name);

}  // namespace ccld::cpu_device_matrix
