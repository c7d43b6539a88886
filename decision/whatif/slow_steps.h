// Which connection, proxy or GPU makes the collectives of a communicator slow.
// (Paper, section 4.2.2, S2, which goes by the least rate: behind one bottleneck all rates are equal.)
//
// In front of a bottleneck steps queue up, and behind it connections run empty. So the connection on which half of the
// slots are always taken (of short operations, which never fill them, a part of their steps) is the bottleneck, and by
// how much it is slower is told by the other connections now, or by its own past. In which part of the way its steps
// stand longer, beyond what chance explains, says whether it is a proxy, a device or a wire. What waits for the
// receiver's GPU fills everything behind it: such a connection is kept by what is slow further on. Ranks that come late
// make others wait, but hold up a transfer once only: no proxy is blamed before the last rank has begun, and a wire or
// a device only for steps whose receives were posted. A proxy that was seen not to look at its work is the cause
// itself, unless most proxies are like that: then the machine is busy.
//
// Contract: linear in the reported stages of links.
#pragma once

#include <optional>
#include <vector>

#include "decision/whatif/collective_rounds.h"
#include "decision/whatif/slow_collectives.h"
#include "decision/whatif/step_past.h"

namespace ccld::decision::whatif {

// `late`: ranks that come late to the operations. `since_ns`: threads of a process that were seen stopped since then
// are its proxy's. Where nothing stands out the past learns from the operations, and it is nullopt.
std::optional<SlowCollectives> slow_collectives(const Communicator&, const std::vector<CollectiveRound>&,
                                                const std::vector<Rank>& late, Nanoseconds since_ns, StepPast&,
                                                const Settings&);

}  // namespace ccld::decision::whatif
