// What a control file asks for. Pure: parses text, touches nothing.
//
// Lines ('#' starts a comment, blank lines are skipped):
//   clock_slowdown F    everything this process's device computes takes F times as long, 1 <= F <= 1000
//   freeze_block N      block N of every kernel (NCCL's channel N when all channels are used) stops at its next
//                       scheduling point and writes nothing until the line disappears, 0 <= N <= 1023
//   freeze_device       all blocks and all stream work stop
//   gpu G COMMAND       one of the above, for GPU G of this machine only, 0 <= G <= 63; the others are for every GPU
//   that
//                       this process uses
//
// Errors: a bad line is left out of the plan and described in `complaints`; the other lines hold.
#pragma once

#include <bitset>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ccld::cpu_device {

constexpr unsigned freezable_blocks_max = 1024;
constexpr double clock_slowdown_max = 1000.0;
constexpr unsigned faulty_gpus_max = 64;

struct DeviceFaults {
  double clock_slowdown = 1.0;
  bool freeze_device = false;
  std::bitset<freezable_blocks_max> frozen_blocks;

  bool any() const { return clock_slowdown > 1.0 || freeze_device || frozen_blocks.any(); }
};

// What it inherits is for every GPU.
struct FaultPlan : DeviceFaults {
  std::map<unsigned, DeviceFaults> of_gpu;

  // Both together: the larger slowdown, and everything that is frozen by either.
  DeviceFaults on_gpu(unsigned gpu) const;
};

struct ParsedFaultPlan {
  FaultPlan plan;
  std::vector<std::string> complaints;  // one line each, naming the line and its number
};

ParsedFaultPlan parse_fault_plan(std::string_view text);

}  // namespace ccld::cpu_device
