#include "decision/model/round_entry.h"

namespace ccld::decision {

const SignatureGroup* RoundEntry::majority() const {
  const SignatureGroup* best = nullptr;
  bool tie = false;
  for (const SignatureGroup& g : groups) {
    if (best && g.ranks == best->ranks) tie = true;
    if (!best || g.ranks > best->ranks) best = &g, tie = false;
  }
  return tie ? nullptr : best;
}

const Signature* RoundEntry::signature() const {
  const SignatureGroup* best = nullptr;
  for (const SignatureGroup& g : groups)
    if (!best || g.ranks > best->ranks) best = &g;
  return best ? &best->signature : nullptr;
}

uint32_t RoundEntry::signed_ranks() const {
  uint32_t n = 0;
  for (const SignatureGroup& g : groups) n += g.ranks;
  return n;
}

}  // namespace ccld::decision
