#include "decision/whatif/matching.h"

#include <map>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "decision/model/signature.h"

namespace ccld::decision::whatif {

Matches match_kernels(const Timeline& t) {
  Matches m;
  std::map<std::tuple<CommUid, OpSeq, uint32_t>, Collective> collectives;
  absl::flat_hash_map<CommUid, absl::flat_hash_set<int>> members;
  struct Ends {
    Place send{-1, -1}, recv{-1, -1};
    uint64_t bytes = 0;
  };
  std::map<std::tuple<CommUid, int32_t, int32_t, uint64_t, uint32_t>, Ends> ends;
  for (int g = 0; g < static_cast<int>(t.gpus().size()); ++g) {
    const Gpu& gpu = t.gpus()[static_cast<size_t>(g)];
    for (int i = 0; i < static_cast<int>(gpu.kernels.size()); ++i) {
      const Kernel& k = gpu.kernels[static_cast<size_t>(i)];
      if (k.op.value != 0) {
        members[k.comm].insert(g);
        Collective& c = collectives[{k.comm, k.op, k.replay}];
        c.comm = k.comm;
        c.members.push_back({g, i});
        continue;
      }
      for (uint32_t c = 0; c < k.call_count; ++c) {
        const Call& call = gpu.calls[k.first_call + c];
        const bool sends = call.direction == abi::Direction::send;
        Ends& e = ends[{k.comm, sends ? k.rank.value : call.peer.value, sends ? call.peer.value : k.rank.value,
                        call.pair_seq, k.replay}];
        (sends ? e.send : e.recv) = {g, i};
        e.bytes = call.bytes;
      }
    }
  }
  for (auto& [key, c] : collectives) {
    if (c.members.size() < 2) continue;
    c.whole = c.members.size() == members[c.comm].size();
    const Place any = c.members.front();
    const Kernel& k = t.gpus()[static_cast<size_t>(any.gpu)].kernels[static_cast<size_t>(any.kernel)];
    (c.whole && needs_everybody(k.signature.function) ? m.collectives : m.others).push_back(std::move(c));
  }
  for (const auto& [key, e] : ends)
    if (e.send.gpu >= 0 && e.recv.gpu >= 0 && e.send.gpu != e.recv.gpu)
      m.pairs.push_back({e.send, e.recv, e.bytes, std::get<3>(key)});
  return m;
}

}  // namespace ccld::decision::whatif
