// Measurements in, one row for each GPU's check and each link out: healthy, suspect, or not measured.
//
// Contract
//   Slow hardware makes every repetition slow, a busy machine some. So a row counts by the lower quartile of its
//   repetitions, and is compared with the upper quartile of its peers: GPUs of the same model, links of the same kind.
//   Margins grow with the spread of repetitions. Where that leaves so much room that even bad hardware would pass
//   (resolution_max), a row is not measured.
//   Links get in each other's way when they are tested at the same time, so they are compared with the fastest quarter
//   of their kind, and whoever asks tests those that are slow alone (plan.h). Who has neither peers nor a past is not
//   measured. A slow GPU makes its links slow: they are explained by it.
// Threads: any; pure functions.
#pragma once

#include <string>
#include <vector>

#include "decision/model/verdict.h"
#include "decision/validate/past.h"
#include "decision/validate/samples.h"
#include "decision/validate/thresholds.h"

namespace ccld::decision::validate {

enum class Finding { healthy, suspect, explained, not_measured };
const char* name(Finding);  // "healthy", ...

struct Row {
  Check check = Check::gemm;
  int rank = 0, peer = -1;
  std::string kind, net;
  double bytes = 0;
  int pass = -1;
  Quartiles ms;  // each of the run in which it was least
  int runs = 0;
  int peer_count = 0;
  double usual_ms = 0;           // of peers, or of the past, whichever decided; 0: neither is known
  Basis basis = Basis::unknown;  // peers or past
  Finding finding = Finding::not_measured;
  std::string why;  // of a row that is not healthy: one short sentence

  double ratio() const { return usual_ms > 0 ? ms.middle / usual_ms : 0; }
};

// Rows in the order of checks, then ranks. `past`: of the same hardware; empty: none.
std::vector<Row> judge(const Measured&, const Past& past, const Thresholds&);

}  // namespace ccld::decision::validate
