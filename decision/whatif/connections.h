// Which connections of Send and Recv take longer than others that carry the same, or than before, and what they have in
// common: a wire between two hosts, a process whose proxy serves them, or only themselves. The evidence of all
// communicators is put together before anybody is named.
//
// Over the network the stages of their links tell a proxy from what is between the proxies: by which part of the way
// steps take longer than on the other connections. Behind a slow proxy the network runs empty; in front of a slow
// network both are full.
//
// Contract: pure.
#pragma once

#include <vector>

#include "decision/whatif/causes.h"

namespace ccld::decision::whatif {

// A connection is slow if it takes so many times as long as its peers. With fewer than whatif_peers_min of them only
// what takes far longer is no chance.
double times_min(size_t peers, const Settings&);

// By transfer of the graph: its passage (passages.h); `less_ns`: by how much it takes longer than its peers, or than
// before.
std::vector<Cause> slow_connections(const Graph&, const Timeline&, const Past&, const std::vector<GpuFacts>&,
                                    const std::vector<Passage>&, const Settings&, std::vector<double>& less_ns);

}  // namespace ccld::decision::whatif
