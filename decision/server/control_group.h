// What the kernel grants the control group of this process (cgroup v2). Threads: any.
#pragma once

#include <string>
#include <vector>

namespace ccld::decision::server {

// The first line of a file ("memory.max") of the group and of those above it, the group's own first: all of them count.
// `proc`, `cgroup`: where the kernel tells it.
std::vector<std::string> control_group_lines(const std::string& file, const std::string& proc = "/proc",
                                             const std::string& cgroup = "/sys/fs/cgroup");

}  // namespace ccld::decision::server
