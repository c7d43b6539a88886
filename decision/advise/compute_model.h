// What an iteration takes, by the numbers of micro-batches of the replicas and what slow GPUs add. A replica with m
// micro-batches over the stages of a pipeline takes: what is the same whatever m, + sum of the stages' times + (m - 1)
// x the longest of them.
//
// Contract: pure. Stages are equal where nothing is slow.
#pragma once

#include <cstdint>
#include <vector>

#include "decision/advise/facts.h"
#include "decision/advise/micro_batches.h"
#include "decision/advise/placement.h"

namespace ccld::decision::advise {

Grid grid_of(const Layout&);

// By how much an iteration is longer than without the causes; and what slow GPUs and hosts make up of that.
double loss_of(const Facts&);
double compute_loss(const Facts&);

// Slow cells, each as slow as its slowest process, such that together they make up compute_loss(); and slow links.
// `micro_batches`: of a replica. Links of which one end has no number are left out.
Troubles troubles_of(const Facts&, const Layout&, double micro_batches);

// `rest`: what does not depend on the number of micro-batches, of a healthy iteration that takes `without`.
std::vector<Replica> replicas_of(const Grid&, const std::vector<SlowCell>&, double micro_batches, double without,
                                 double rest);

}  // namespace ccld::decision::advise
