// How often a verdict of slowness is right, by what told its causes. (Beyond the paper.)
//
// Contract: pure. `ccld_sim --calibrate` prints what the table should say (test/sim/README.md, "Confidence").
#pragma once

#include <vector>

#include "decision/model/verdict.h"

namespace ccld::decision {

struct SlowConfidence {
  Basis basis;
  Component component;  // of the first culprit of the cause; a NIC counts as a link
  double right;         // part of such causes that are right, and beside which none is missing
};
const std::vector<SlowConfidence>& slow_confidences();

// The row of a cause that this culprit names.
const SlowConfidence& row_of(const Culprit&);

// All causes must be right: the product over them. `Culprit::cause` tells which culprits are one.
double confidence_of(const std::vector<Culprit>&);

}  // namespace ccld::decision
