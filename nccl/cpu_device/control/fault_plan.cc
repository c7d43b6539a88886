#include "nccl/cpu_device/control/fault_plan.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace ccld::cpu_device {
namespace {

std::vector<std::string> split_words(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream stream(line.substr(0, line.find('#')));
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool parse_double(const std::string& text, double* value) {
  char* end = nullptr;
  *value = strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0';
}

bool parse_unsigned(const std::string& text, unsigned long* value) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 9) return false;
  *value = strtoul(text.c_str(), nullptr, 10);
  return true;
}

// Returns what is wrong with the line, or an empty string after it was applied.
std::string apply_command(const std::vector<std::string>& words, DeviceFaults* plan) {
  const std::string command = words.empty() ? "" : words[0];
  if (command == "clock_slowdown") {
    double factor = 0;
    if (words.size() != 2 || !parse_double(words[1], &factor) || !(factor >= 1.0 && factor <= clock_slowdown_max)) {
      return "clock_slowdown takes one factor from 1 to 1000";
    }
    plan->clock_slowdown = factor;
    return "";
  }
  if (command == "freeze_block") {
    unsigned long block = 0;
    if (words.size() != 2 || !parse_unsigned(words[1], &block) || block >= freezable_blocks_max) {
      return "freeze_block takes one block index from 0 to 1023";
    }
    plan->frozen_blocks.set(block);
    return "";
  }
  if (command == "freeze_device") {
    if (words.size() != 1) return "freeze_device takes no argument";
    plan->freeze_device = true;
    return "";
  }
  return "unknown command (clock_slowdown, freeze_block, freeze_device, gpu)";
}

std::string apply_line(const std::vector<std::string>& words, FaultPlan* plan) {
  if (words[0] != "gpu") return apply_command(words, plan);
  unsigned long gpu = 0;
  if (words.size() < 2 || !parse_unsigned(words[1], &gpu) || gpu >= faulty_gpus_max) {
    return "gpu takes an index from 0 to 63 and a command";
  }
  const auto before = plan->of_gpu.find(static_cast<unsigned>(gpu));
  DeviceFaults faults = before != plan->of_gpu.end() ? before->second : DeviceFaults{};
  const std::string complaint = apply_command({words.begin() + 2, words.end()}, &faults);
  if (complaint.empty()) plan->of_gpu[static_cast<unsigned>(gpu)] = faults;
  return complaint;
}

}  // namespace

DeviceFaults FaultPlan::on_gpu(unsigned gpu) const {
  DeviceFaults result = *this;
  const auto own = of_gpu.find(gpu);
  if (own == of_gpu.end()) return result;
  result.clock_slowdown = std::max(result.clock_slowdown, own->second.clock_slowdown);
  result.freeze_device |= own->second.freeze_device;
  result.frozen_blocks |= own->second.frozen_blocks;
  return result;
}

ParsedFaultPlan parse_fault_plan(std::string_view text) {
  ParsedFaultPlan result;
  std::istringstream stream{std::string(text)};
  unsigned line_number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++line_number;
    const std::vector<std::string> words = split_words(line);
    if (words.empty()) continue;
    const std::string complaint = apply_line(words, &result.plan);
    if (!complaint.empty()) {
      result.complaints.push_back("line " + std::to_string(line_number) + " \"" + line + "\": " + complaint);
    }
  }
  return result;
}

}  // namespace ccld::cpu_device
