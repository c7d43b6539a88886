// How the ranks of a job share a model: tensor, data, expert and pipeline groups over the same processes.
//
// Contract
//   rank = tp_index + tp * (dp_index + dp * stage), the order that keeps tensor groups together and pipelines apart.
//   Expert groups are slices of data groups, so ep divides dp. A group's members are in ascending order of their job
//   ranks, and their position is their rank in the group's communicator.
// Errors: check() returns one line, or an empty string. Threads: plain values.
#pragma once

#include <string>
#include <vector>

namespace ccld::workload {

enum class Group { world, tensor, pipeline, data, expert };

const char* name(Group);  // "world", "tp", "pp", "dp", "ep"
// Throws std::invalid_argument.
Group group_named(const std::string&);

struct Layout {
  int tp = 1, pp = 1, dp = 1, ep = 1;

  int rank_count() const { return tp * pp * dp; }
  int stage_of(int rank) const { return rank / (tp * dp); }
  int tensor_index_of(int rank) const { return rank % tp; }
  int data_index_of(int rank) const { return rank / tp % dp; }

  // Which of the groups of this kind the rank is in, from 0.
  int color(Group, int rank) const;
  // Everyone in it, the rank included.
  std::vector<int> members(Group, int rank) const;
};

// Empty if a job of so many ranks can have this layout.
std::string check(const Layout&, int rank_count);

}  // namespace ccld::workload
