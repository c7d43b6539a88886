#include "decision/report/remedies.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"

namespace ccld::decision::report {
namespace {

// Names of network devices and addresses of GPUs are letters, digits and few signs: anything else is not put into a command.
bool plain(const std::string& device) {
  return !device.empty() && device[0] != '-' && std::all_of(device.begin(), device.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == ':';
  });
}

std::string gpu_of(const Culprit& c) {
  if (plain(c.gpu_bus_id)) return absl::StrCat(" -i ", c.gpu_bus_id);
  return c.cuda_device >= 0 ? absl::StrCat(" -i ", c.cuda_device) : "";
}

std::string command_for(const Culprit& c) {
  switch (c.condition) {
    case Condition::stopped: return absl::StrCat("grep -E 'State|TracerPid' /proc/", c.pid, "/status");
    case Condition::gone: return "dmesg -T | grep -iE 'killed process|segfault|xid' | tail";
    case Condition::silent:
    case Condition::never_heard: return c.pid != 0 ? absl::StrCat("grep -E 'State|Threads' /proc/", c.pid, "/status") : "";
    case Condition::not_called:
    case Condition::not_launched:
    case Condition::call_differs:
    case Condition::call_skipped:
    case Condition::call_added:
    case Condition::bytes_differ:
    case Condition::ended_early:
    case Condition::ended_late:
    case Condition::initialization_behind:
    case Condition::host_late:
    case Condition::gaps_longer: return absl::StrCat("py-spy dump --native --pid ", c.pid);
    case Condition::kernel_stuck:
    case Condition::kernel_not_begun:
    case Condition::kernel_not_started:
    case Condition::replay_not_begun:
    case Condition::data_not_seen: return absl::StrCat("nvidia-smi", gpu_of(c), " -q -d ECC,PERFORMANCE; dmesg -T | grep -i xid | tail");
    case Condition::gpu_late:
    case Condition::gpu_slow:
    case Condition::gpu_takes_slowly: return absl::StrCat("nvidia-smi", gpu_of(c), " -q -d CLOCK,PERFORMANCE,TEMPERATURE");
    case Condition::proxy_stuck:
    case Condition::proxy_not_begun:
    case Condition::proxy_slow:
    case Condition::proxy_polls_seldom: return absl::StrCat("top -H -b -n 1 -p ", c.pid);
    case Condition::nic_stuck:
    case Condition::nic_slow:
    case Condition::nothing_arrives:
    case Condition::link_slow: {
      const std::string device = c.net_name.substr(0, c.net_name.find(':'));
      if (!plain(device)) return "ip -s link; rdma statistic show";
      // The name does not tell whether it is an interface or an RDMA device.
      return absl::StrCat("ip -s link show dev ", device, " 2>/dev/null || rdma statistic show link ", device);
    }
    case Condition::processors_short: return "cat /proc/pressure/cpu; top -b -n 1 | head -n 20";
    case Condition::left:
    case Condition::initialization_failed:
    case Condition::host_silent:
    case Condition::aborted:
    case Condition::unknown: return "";
  }
  return "";
}

bool needs_pid(const std::string& command) { return command.find("/proc/0/") != std::string::npos || command.ends_with(" 0"); }

}  // namespace

std::vector<Command> commands_for(const Incident& i) {
  std::vector<const Culprit*> order;
  for (const Culprit& c : i.culprits) order.push_back(&c);
  std::stable_sort(order.begin(), order.end(),
                   [](const Culprit* a, const Culprit* b) { return a->lost_time_share > b->lost_time_share; });
  std::vector<Command> out;
  for (const Culprit* c : order) {
    Command command{c->host, command_for(*c)};
    const bool known = std::any_of(out.begin(), out.end(),
                                   [&](const Command& o) { return o.host == command.host && o.text == command.text; });
    if (command.text.empty() || (c->pid == 0 && needs_pid(command.text)) || known) continue;
    out.push_back(std::move(command));
    if (out.size() == commands_max) break;
  }
  return out;
}

std::string advice_for(const Incident& i) {
  if (i.culprits.empty()) return "";
  const Culprit& c = i.culprits[0];
  const auto of_process = [](const Culprit& o) { return o.condition == Condition::host_late || o.condition == Condition::gaps_longer; };
  if (i.fault == FaultClass::s1_computation_slow && std::all_of(i.culprits.begin(), i.culprits.end(), of_process))
    return "Look at what the process does between its calls: data loading, CPU load, its Python stack.";
  switch (c.condition) {
    case Condition::stopped:
      return absl::StrCat("If it was stopped on purpose: kill -CONT ", c.pid,
                          ". Otherwise restart the job. Nothing here indicates bad hardware.");
    case Condition::gone:
      return "Look for the exit status, the core dump and the kernel log of the process, and restart the job. Nothing here "
             "indicates bad hardware, unless an XID is seen.";
    default: return "";
  }
}

}  // namespace ccld::decision::report
