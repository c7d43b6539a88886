#include "nccl/hooks/shared_gpus_rule.h"

#include <cstring>

namespace ccld::hooks {

std::optional<bool> parse_share_gpus(const char* text) {
  if (text == nullptr || std::strcmp(text, "0") == 0) return false;
  if (std::strcmp(text, "1") == 0) return true;
  return std::nullopt;
}

uint64_t host_of_process(uint64_t host_hash, uint64_t process_hash) {
  uint64_t hash = host_hash ^ (process_hash * 0x9e3779b97f4a7c15u);
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

}  // namespace ccld::hooks
