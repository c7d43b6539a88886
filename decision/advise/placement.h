// Another placement of the ranks of a job, for its slow GPUs and slow links: slow GPUs are spread over replicas, so
// that none has several of them in different stages if that can be, and gather in the fewest stages of the pipeline,
// inner ones first; a slow link comes to lie between places that send each other nothing, else between stages.
// (Greyhound, section 5.2, S3.)
//
// What changes places are cells: the GPUs of one tensor group. A place is a stage of a replica. Cells of one stage
// exchange gradients (heavy), cells of neighbouring stages of one replica activations (light), others nothing.
//
// Time of a replica: with m micro-batches, stages that take t: sum of t + (m - 1) x longest t.
//
// Contract: pure. A local search: each round tries every exchange of a troubled cell with another place and makes the
// best one, until none helps, at most exchanges_max rounds. Of troubles there are at most troubles_max: a round is at
// most 2 x troubles_max x places trials, each of about troubles_max steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ccld::decision::advise {

constexpr size_t troubles_max = 16;
constexpr size_t exchanges_max = 16;

struct Grid {
  uint64_t stages = 1, replicas = 1;
  uint64_t places() const { return stages * replicas; }
  uint64_t place(uint64_t stage, uint64_t replica) const { return replica * stages + stage; }
};

struct SlowCell {
  uint64_t place = 0;
  double extra = 0;  // time by which a micro-batch takes longer there
};

enum class Traffic { none, activations, gradients };  // the least first
struct SlowLink {
  uint64_t place = 0, other = 0;  // equal: within a cell, which no exchange changes
  double loss = 0;                // of an iteration
};

struct Troubles {
  std::vector<SlowCell> cells;
  std::vector<SlowLink> links;
};

Traffic traffic_between(const Grid&, uint64_t place, uint64_t other);

struct Placement {
  std::vector<std::pair<uint64_t, uint64_t>>
      exchanges;  // of the cells at these places, one after the other; empty: none helps
  double loss_before = 0,
         loss_after = 0;  // of an iteration, of cells and links; links that still carry something count in full
};

// `micro_batches`: of one replica, from 1. Troubles beyond troubles_max, and those outside of the grid, are left where
// they are.
Placement place_troubles(const Grid&, const Troubles&, double micro_batches);

}  // namespace ccld::decision::advise
