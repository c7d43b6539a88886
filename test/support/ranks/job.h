// Runs a job of several ranks, each a process of this program, and judges how it ended.
//
// The ranks get the job's unique id over pipes; rank 0 makes it. Nothing stays behind: ranks that are left when the job
// ends are killed, and NCCL's files under /dev/shm that nobody uses any more are removed.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ccld::ranks {

struct JobSpec {
  std::string name;   // for messages
  std::string suite;  // what each rank runs
  int ranks = 4;
  int ranks_of_node = 0;  // that many ranks are a node of their own; 0: all are on one
  std::vector<std::pair<std::string, std::string>> environment;
  std::string control_rank_file;  // control file of rank 1; empty: none
  std::vector<int> killed_ranks;  // expected to end by SIGKILL
  int timeout_s = 60;
  std::function<void(const std::vector<pid_t>&)> meanwhile;  // runs once all ranks were started
};

struct RankIdentity {
  int rank;
  int ranks;
  int id_in;  // where the unique id comes from; rank 0: where it goes
};

// Prints one line for each thing that went wrong; returns whether nothing did.
bool run_job(const JobSpec& spec);

// In a rank: exchanges the unique id's bytes.
void send_id(const RankIdentity&, const void* id, size_t bytes);
bool receive_id(const RankIdentity&, void* id, size_t bytes);

}  // namespace ccld::ranks
