// Where telemetry goes, as text: one endpoint, or several of one service with commas between them
// ("tcp://a:5566,tcp://b:5566"). What the probe and `ccld` both read (NCCL_PROBE_ENDPOINT, `ccld tune endpoint=`).
//
// Contract
//   One is transport://address, whatever the transport: libzmq judges it where it is used. Several are judged here,
//   since all but one of them are used much later: each is tcp://address:port or ipc://path, without blanks, at most
//   endpoints_max of them.
// Pure. Threads: any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ccld {

constexpr size_t endpoints_max = 8;

namespace internal {

// Empty: there is no "://" with something before and behind it.
inline std::string_view address_in(std::string_view endpoint) {
  const size_t separator = endpoint.find("://");
  return separator == std::string_view::npos || separator == 0 ? std::string_view() : endpoint.substr(separator + 3);
}

inline bool is_port(std::string_view text) {
  constexpr size_t digits_max = 5;
  constexpr unsigned port_max = 65535;
  if (text.empty() || text.size() > digits_max) return false;
  unsigned port = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    port = 10 * port + static_cast<unsigned>(c - '0');
  }
  return port >= 1 && port <= port_max;
}

inline bool is_one_of_several(std::string_view endpoint) {
  if (std::any_of(endpoint.begin(), endpoint.end(), [](unsigned char c) { return c <= 0x20 || c >= 0x7f; }))
    return false;
  const std::string_view address = address_in(endpoint);
  if (endpoint.substr(0, 6) == "ipc://") return !address.empty();
  const size_t colon = address.rfind(':');
  return endpoint.substr(0, 6) == "tcp://" && colon != std::string_view::npos && colon > 0 &&
         is_port(address.substr(colon + 1));
}

}  // namespace internal

// In their order. Empty: `text` has none, or something in it is none.
inline std::vector<std::string> endpoints_in(std::string_view text) {
  std::vector<std::string> all;
  if (text.find(',') == std::string_view::npos) {
    if (!internal::address_in(text).empty()) all.emplace_back(text);
    return all;
  }
  for (size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = text.find(',', begin);
    const std::string_view one = text.substr(begin, end == std::string_view::npos ? end : end - begin);
    if (!internal::is_one_of_several(one) || all.size() == endpoints_max) return {};
    all.emplace_back(one);
  }
  return all;
}

}  // namespace ccld
