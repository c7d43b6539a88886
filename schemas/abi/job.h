// The name of a job that nobody has named.
#pragma once

#include <string_view>

namespace ccld::abi {

// Of NCCL_PROBE_JOB where neither it nor a scheduler says another. Several jobs may go by it.
inline constexpr char unnamed_job[] = "default";

inline bool is_named(std::string_view job) { return !job.empty() && job != unnamed_job; }

}  // namespace ccld::abi
