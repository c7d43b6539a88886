#include "decision/paper/comparable.h"

#include <map>
#include <utility>

#include "decision/model/names.h"

namespace ccld::decision {

std::vector<std::vector<Rank>> comparable_groups(const Communicator& comm, abi::Algorithm algorithm) {
  std::map<int, std::vector<Rank>> by_depth;
  for (const RankModel& r : comm.ranks()) {
    int depth = 0;
    if (algorithm == abi::Algorithm::tree)
      for (const ChannelTopology& c : r.channels)
        if (c.tree_depth >= 0) {
          depth = c.tree_depth;
          break;
        }
    by_depth[depth].push_back(r.rank);
  }
  std::vector<std::vector<Rank>> groups;
  for (auto& [depth, ranks] : by_depth) groups.push_back(std::move(ranks));
  return groups;
}

bool is_barrier_by_paper(const Signature& s, const Settings& settings) {
  const unsigned size = datatype_bytes(s.datatype);
  if (s.function != abi::Function::all_reduce || size == 0 || s.count > settings.barrier_bytes_max) return false;
  return s.count * size < settings.barrier_bytes_max;
}

}  // namespace ccld::decision
