// What the same hardware took before, as a file: JSON, written by --save and read by --past.
//
//   {"schema": "ccld-validate-past/1", "rows": [{"check", "host", "bus_id", "peer_host", "peer_bus_id", "kind",
//   "bytes",
//    "low_ms", "middle_ms", "high_ms"}]}       peer_...: null but for links
//
// Hardware is known by host and PCI address, not by rank: jobs number their ranks anew.
// Errors: InvalidArgument for what the file holds, NotFound and Unavailable for the file. Threads: any.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "absl/status/statusor.h"
#include "decision/validate/quartiles.h"
#include "decision/validate/samples.h"

namespace ccld::decision::validate {

struct PastKey {
  Check check = Check::gemm;
  std::string host, bus_id, peer_host, peer_bus_id, kind;
  double bytes = 0;  // other sizes are other measurements
  friend auto operator<=>(const PastKey&, const PastKey&) = default;
};
using Past = std::map<PastKey, Quartiles>;

// `peer`: null but for links.
PastKey past_key(Check, const Member&, const Member* peer, const std::string& kind, double bytes);

absl::StatusOr<Past> read_past(const std::string& path);
// Replaces the file as a whole.
absl::Status write_past(const std::string& path, const Past&);

}  // namespace ccld::decision::validate
