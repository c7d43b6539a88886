#include "decision/timeline/matching.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "decision/model/signature.h"

namespace ccld::decision::timeline {

Matches match_kernels(const Timeline& t) {
  Matches m;
  std::map<std::tuple<CommUid, OpSeq, uint32_t>, Collective> collectives;
  absl::flat_hash_map<CommUid, std::map<int, int>> members;  // by GPU: one of its kernels
  absl::flat_hash_map<std::pair<CommUid, int32_t>, Place> ranks;
  struct Ends {
    Place send{-1, -1}, recv{-1, -1};
    uint64_t bytes = 0;
  };
  // Communicator, sender, receiver, replay, number.
  std::map<std::tuple<CommUid, int32_t, int32_t, uint32_t, uint64_t>, Ends> ends;
  for (int g = 0; g < static_cast<int>(t.gpus().size()); ++g) {
    const Gpu& gpu = at(t.gpus(), g);
    for (int i = 0; i < static_cast<int>(gpu.kernels.size()); ++i) {
      const Kernel& k = at(gpu.kernels, i);
      ranks.try_emplace({k.comm, k.rank.value}, Place{g, i});
      if (k.op.value != 0) {
        members[k.comm].emplace(g, i);
        Collective& c = collectives[{k.comm, k.op, k.replay}];
        c.comm = k.comm;
        c.members.push_back({g, i});
        continue;
      }
      for (uint32_t c = 0; c < k.call_count; ++c) {
        const Call& call = gpu.calls[k.first_call + c];
        const bool sends = call.direction == abi::Direction::send;
        Ends& e = ends[{k.comm, sends ? k.rank.value : call.peer.value, sends ? call.peer.value : k.rank.value,
                        k.replay, call.pair_seq}];
        (sends ? e.send : e.recv) = {g, i};
        e.bytes = call.bytes;
      }
    }
  }
  for (auto& [key, c] : collectives) {
    if (members[c.comm].size() < 2) continue;
    c.whole = c.members.size() == members[c.comm].size();
    const Kernel& k = kernel_at(t, c.members.front());
    if (c.whole && needs_everybody(k.signature.function)) {
      m.collectives.push_back(std::move(c));
      continue;
    }
    if (!c.whole && needs_everybody(k.signature.function))
      for (const auto& [gpu, kernel] : members[c.comm])
        if (std::none_of(c.members.begin(), c.members.end(), [&](Place p) { return p.gpu == gpu; }))
          c.missing.push_back({gpu, kernel});
    m.others.push_back(std::move(c));
  }
  // The newest first: an end that others of its connection have followed is lost, else it may still be under way.
  std::tuple<CommUid, int32_t, int32_t, uint32_t> newer{};  // connection of those looked at before
  bool newer_send = false, newer_recv = false;
  for (auto it = ends.rbegin(); it != ends.rend(); ++it) {
    const auto& [comm, sender, receiver, replay, pair_seq] = it->first;
    const Ends& e = it->second;
    if (const std::tuple connection{comm, sender, receiver, replay}; connection != newer)
      newer = connection, newer_send = newer_recv = false;
    newer_send |= e.send.gpu >= 0, newer_recv |= e.recv.gpu >= 0;
    if (e.send.gpu >= 0 && e.recv.gpu >= 0) {
      if (e.send.gpu != e.recv.gpu) m.pairs.push_back({e.send, e.recv, e.bytes, pair_seq});
      continue;
    }
    const bool known_sends = e.send.gpu >= 0;
    const Place known = known_sends ? e.send : e.recv;
    if (kernel_at(t, known).earlier) continue;
    if (!(known_sends ? newer_recv : newer_send)) {
      m.open_ends.push_back({known.gpu,
                             known.kernel,
                             {Rank{known_sends ? receiver : sender},
                              known_sends ? abi::Direction::send : abi::Direction::recv, pair_seq, e.bytes}});
      continue;
    }
    const auto other = ranks.find({comm, known_sends ? receiver : sender});
    if (other != ranks.end() && other->second.gpu != known.gpu)
      m.one_ends.push_back({known, other->second, known_sends, e.bytes, pair_seq});
  }
  std::reverse(m.pairs.begin(), m.pairs.end());  // in the order of time
  std::reverse(m.one_ends.begin(), m.one_ends.end());
  std::sort(m.open_ends.begin(), m.open_ends.end(),
            [](const OpenEnd& a, const OpenEnd& b) { return std::pair(a.gpu, a.kernel) < std::pair(b.gpu, b.kernel); });
  return m;
}

}  // namespace ccld::decision::timeline
