// What NCCL leaves behind in /dev/shm when a process ends without its tidying up: 35 MB and more for each peer of the
// host.
#pragma once

#include <string>
#include <vector>

namespace ccld::decision::validate {

// Of a text as /proc/self/maps has it: files of NCCL's shared memory that still have their names.
std::vector<std::string> nccl_files_in(const std::string& maps);

// Takes the names of those that this process has mapped. Who has them mapped keeps them.
void unlink_nccl_files();

}  // namespace ccld::decision::validate
