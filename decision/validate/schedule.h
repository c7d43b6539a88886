// Which ranks test a link at the same time. (Greyhound, section 4.3: rings in two passes, three if they are odd, trees
// in four; it does not matter how many ranks there are.)
//
// Contract
//   In a pass no rank is in two pairs, and no host sends, or receives, over the network for two pairs: a pair has its
//   GPUs and its network device for itself. Every link of an order is in exactly one pass. Equal links of several
//   orders (NCCL's channels mostly have the same ring) are tested once. Passes are bounded by what touches one rank:
//   two links of a ring, four of a tree of NCCL (its parent and at most three children).
// Threads: any.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ccld::decision::validate {

struct Pair {
  int from = 0, to = 0;
  bool back = false;  // then also from `to` to `from`, after the other direction
  friend bool operator==(const Pair&, const Pair&) = default;
};
using Pass = std::vector<Pair>;

// The connections of NCCL's rings and trees, each once.
struct Orders {
  std::vector<std::vector<int>> rings;    // ranks in order: each sends to the next, the last to the first
  std::vector<std::vector<int>> parents;  // trees, by rank: its parent; -1: it is the root
  bool own = false;                       // NCCL said them; else they are guessed from the ranks
};

// Ring by rank, and NCCL's chain of it as a tree: what is assumed where NCCL's own orders are not known.
Orders orders_by_rank(int ranks);

// `host_of`: by rank.
std::vector<Pass> passes_of(const Orders&, const std::vector<std::string>& host_of);

// For links that were slow: at most so many passes each; what does not fit stays untested. No host is in two pairs, so
// that what is slow in one direction delays nothing in the other.
constexpr size_t extra_passes_max = 8;
// The same links again.
std::vector<Pass> lone_passes(const std::vector<std::pair<int, int>>& slow, const std::vector<std::string>& host_of);
// Across: the sender of each with another receiver, and its receiver with another sender, on third hosts of which no
// link is slow.
std::vector<Pass> cross_passes(const std::vector<std::pair<int, int>>& slow, const std::vector<std::string>& host_of);

}  // namespace ccld::decision::validate
