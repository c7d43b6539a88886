// Which connection or proxy makes the collectives of a communicator slow, compared with its other connections.
// (Paper, section 4.2.2, S2, which goes by the least rate: behind one bottleneck all rates are equal.)
//
// Behind a bottleneck steps queue up, and in front of it connections run empty. So of the connections over the network
// the one on which half of the slots are always taken (of short operations, which never fill them, a part of their
// steps) is the bottleneck, and by how much it is slower is told by the others: they pass a step on in so much time.
// In which part of the way its steps stand longer than theirs, beyond what chance explains, says whether it is a proxy,
// a device or a wire. What waits for the receiver's GPU fills everything behind it: such a connection is kept by what
// is slow further on. Ranks that come late make others wait, but hold up a transfer once only: no proxy is blamed
// before the last rank has begun, and a wire or a device only for steps whose receives were posted. A proxy that was
// seen not to look at its work is the cause itself, unless most proxies are like that: then the machine is busy.
//
// Contract: pure. Linear in the reported stages of links.
#pragma once

#include <optional>
#include <vector>

#include "decision/whatif/collective_rounds.h"
#include "decision/whatif/slow_collectives.h"

namespace ccld::decision::whatif {

// `late`: ranks that come late to the operations. `since_ns`: threads of a process that were seen stopped since then
// are its proxy's. nullopt: nothing stands out, or there is nothing to compare it with.
std::optional<SlowCollectives> slow_collectives(const Communicator&, const std::vector<CollectiveRound>&,
                                                const std::vector<Rank>& late, Nanoseconds since_ns, const Settings&);

}  // namespace ccld::decision::whatif
