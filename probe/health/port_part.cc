#include "probe/health/port_part.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace ccld::probe {
namespace {

using abi::MetricId;

struct CounterName {
  MetricId id;
  const char* path;  // below the port's folder
  int64_t scale;
};

// InfiniBand counts data in words of four bytes.
constexpr CounterName infiniband_counters[] = {
    {MetricId::port_sent_bytes, "/counters/port_xmit_data", 4},
    {MetricId::port_received_bytes, "/counters/port_rcv_data", 4},
    {MetricId::port_send_errors, "/counters/port_xmit_discards", 1},
    {MetricId::port_receive_errors, "/counters/port_rcv_errors", 1},
    {MetricId::port_link_downed, "/counters/link_downed", 1},
    {MetricId::port_symbol_errors, "/counters/symbol_error", 1},
    {MetricId::port_congestion_waits, "/counters/port_xmit_wait", 1},
    {MetricId::port_out_of_sequence, "/hw_counters/out_of_sequence", 1},
    {MetricId::port_retransmit_timeouts, "/hw_counters/local_ack_timeout_err", 1},
    {MetricId::port_congestion_notifications, "/hw_counters/np_cnp_sent", 1},
};
constexpr CounterName interface_counters[] = {
    {MetricId::port_sent_bytes, "/statistics/tx_bytes", 1},
    {MetricId::port_received_bytes, "/statistics/rx_bytes", 1},
    {MetricId::port_send_errors, "/statistics/tx_errors", 1},
    {MetricId::port_receive_errors, "/statistics/rx_errors", 1},
    {MetricId::port_link_downed, "/carrier_down_count", 1},
};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  if (listing == nullptr) return names;
  while (const dirent* entry = readdir(listing.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) { return strverscmp(a.c_str(), b.c_str()) < 0; });
  return names;
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// Of a folder in /sys/class: a device of its own, and not a virtual function of one.
bool is_hardware(const std::string& folder) { return exists(folder + "/device") && !exists(folder + "/device/physfn"); }

constexpr int64_t interface_up = 4, interface_down = 1;  // as InfiniBand's active and down

}  // namespace

void PortPart::add_infiniband(const std::string& folder, const std::string& instance) {
  Port port{instance, true, {}, {}, {}};
  if (!port.state.open(folder + "/state")) return;
  port.rate.open(folder + "/rate");
  for (const CounterName& name : infiniband_counters) {
    KernelFile file;
    if (file.open(folder + name.path)) port.counters.push_back({name.id, std::move(file), name.scale});
  }
  ports_.push_back(std::move(port));
}

void PortPart::add_interface(const std::string& folder, const std::string& instance) {
  Port port{instance, false, {}, {}, {}};
  if (!port.state.open(folder + "/operstate")) return;
  port.rate.open(folder + "/speed");
  for (const CounterName& name : interface_counters) {
    KernelFile file;
    if (file.open(folder + name.path)) port.counters.push_back({name.id, std::move(file), name.scale});
  }
  ports_.push_back(std::move(port));
}

size_t PortPart::list_ports() {
  ports_.clear();
  const std::string infiniband = roots_.sys + "/class/infiniband", net = roots_.sys + "/class/net";
  size_t left_out = 0;
  for (const bool hardware : {true, false}) {
    const size_t most = hardware ? ports_max : few_ports;
    const auto has_room = [&] {
      if (ports_.size() < most) return true;
      if (hardware) ++left_out;
      return false;
    };
    for (const std::string& device : names_in(infiniband)) {
      if (is_hardware(infiniband + "/" + device) != hardware) continue;
      for (const std::string& port : names_in(infiniband + "/" + device + "/ports"))
        if (has_room()) add_infiniband(infiniband + "/" + device + "/ports/" + port, device + ":" + port);
    }
    for (const std::string& interface : names_in(net)) {
      if (interface == "lo" || is_hardware(net + "/" + interface) != hardware) continue;
      if (has_room()) add_interface(net + "/" + interface, interface);
    }
  }
  return left_out;
}

bool PortPart::open(std::vector<std::string>* absent) {
  if (const size_t left_out = list_ports(); left_out > 0)
    absent->push_back(std::to_string(left_out) + " network ports beyond the first " + std::to_string(ports_max));
  const bool any_infiniband =
      std::any_of(ports_.begin(), ports_.end(), [](const Port& port) { return port.infiniband; });
  if (!any_infiniband) absent->push_back("no port in " + roots_.sys + "/class/infiniband");
  if (ports_.empty()) absent->push_back("no interface in " + roots_.sys + "/class/net but loopback");
  return true;  // one may appear
}

void PortPart::read(Instant now, Metrics* out) {
  if (listed_ns_ == 0) listed_ns_ = now.monotonic_ns;
  if (now.monotonic_ns - listed_ns_ > list_again_ns) {
    list_ports();
    listed_ns_ = now.monotonic_ns;
  }
  for (const Port& port : ports_) {
    const std::string state = port.state.read();
    if (state.empty()) continue;  // it is gone
    if (port.infiniband) {
      if (const auto number = number_at(state))
        add_metric(out, MetricId::port_state, static_cast<int64_t>(*number), port.instance);
    } else if (trimmed(state) != "unknown") {
      add_metric(out, MetricId::port_state, trimmed(state) == "up" ? interface_up : interface_down, port.instance);
    }
    const std::string rate = port.rate.read();  // "100 Gb/sec (4X EDR)"; of interfaces: megabits, -1 while it is down
    if (!rate.empty()) {
      const double value = strtod(rate.c_str(), nullptr);
      if (value > 0)
        add_metric(out, MetricId::port_rate_mbps, static_cast<int64_t>(port.infiniband ? value * 1000.0 : value),
                   port.instance);
    }
    for (const Counter& counter : port.counters) {
      if (const auto value = counter.file.read_number())
        add_metric(out, counter.id, static_cast<int64_t>(*value) * counter.scale, port.instance);
    }
  }
}

}  // namespace ccld::probe
