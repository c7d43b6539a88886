#include "decision/trace/calls.h"

#include <initializer_list>
#include <utility>

#include "decision/model/names.h"

namespace ccld::decision::trace {
namespace {

enum class ArrowKind : uint64_t { collective = 1, transfer, launch, call_launch };

// The same in every run, so that two traces of a recording are equal (absl::Hash differs from run to run).
uint64_t mixed(std::initializer_list<uint64_t> values) {
  uint64_t h = 0;
  for (const uint64_t v : values) {
    h = (h ^ v) * 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: spreads neighbouring numbers
    h ^= h >> 29;
  }
  return h == 0 ? 1 : h;  // 0 means none
}

uint64_t number(Rank r) { return static_cast<uint32_t>(r.value); }

}  // namespace

Args args_of(const Signature& s) {
  Args out{{"count", s.count}, {"datatype", std::string(name(s.datatype))}};
  if (const unsigned bytes = datatype_bytes(s.datatype)) out.push_back({"bytes", s.count * bytes});
  if (s.reduction != abi::Reduction::none) out.push_back({"reduction", std::string(name(s.reduction))});
  if (s.root >= 0) out.push_back({"root", static_cast<int64_t>(s.root)});
  out.push_back({"algorithm", std::string(name(s.algorithm))});
  out.push_back({"protocol", std::string(name(s.protocol))});
  out.push_back({"channels", static_cast<uint64_t>(s.channels)});
  return out;
}

std::string flags_text(uint8_t flags) {
  const std::pair<uint8_t, const char*> texts[] = {{round_aborted, "aborted"},
                                                   {round_no_kernel, "no kernel"},
                                                   {round_lapped, "times were overwritten before they were read"},
                                                   {round_not_measured, "not measured"},
                                                   {round_shared_kernel, "shares its kernel with other operations"}};
  std::string out;
  for (const auto& [flag, text] : texts)
    if ((flags & flag) != 0) out += (out.empty() ? "" : ", ") + std::string(text);
  return out;
}

uint64_t collective_arrow(CommUid comm, RoundKey key) {
  return mixed({static_cast<uint64_t>(ArrowKind::collective), comm.value, key.op.value, key.replay});
}

uint64_t transfer_arrow(CommUid comm, Rank sender, Rank receiver, uint64_t pair_seq, uint32_t replay) {
  return mixed({static_cast<uint64_t>(ArrowKind::transfer), comm.value, number(sender) << 32 | number(receiver), pair_seq, replay});
}

uint64_t launch_arrow(CommUid comm, Rank rank, RoundKey key) {
  return mixed({static_cast<uint64_t>(ArrowKind::launch), comm.value, number(rank), key.op.value, key.replay});
}

uint64_t launch_arrow(CommUid comm, Rank rank, Rank peer, abi::Direction direction, uint64_t pair_seq) {
  return mixed({static_cast<uint64_t>(ArrowKind::call_launch), comm.value, number(rank) << 32 | number(peer), static_cast<uint64_t>(direction), pair_seq});
}

}  // namespace ccld::decision::trace
