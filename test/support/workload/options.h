// The command line of the workload, with the letters of nccl-tests where it has them.
// Errors: parse() prints one line that names the option and ends the process with status 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "test/support/workload/iteration_shape.h"
#include "test/support/workload/layout.h"

namespace ccld::workload {

struct Options {
  // Placement.
  int rank = 0;
  int rank_count = 1;
  std::string id_file;      // rank 0 writes NCCL's unique id there, the others wait for it
  std::string status_file;  // see status_board.h
  std::string fault_file;   // see fault_file.h; empty: none
  std::string micro_batch_file;  // empty: none

  // Traffic.
  std::string operation = "allreduce";
  uint64_t bytes_min = 1 << 20, bytes_max = 1 << 20;
  uint64_t factor = 2;
  uint64_t iterations = 20;  // of each size
  uint64_t warm_up = 5;      // rounds that are not counted in the summary
  bool check = false;
  std::string reduction = "sum";
  std::string datatype = "float";
  double seconds = 0;  // 0: run the iterations once; otherwise go round the sizes until the time is over

  // What happens between operations.
  double compute_ms = 0;     // on the device, in stream order before the operation
  double jitter_ms = 0;      // on the device, 0..jitter_ms more, different in each rank and round
  uint64_t pause_every = 0;  // rounds; 0: never
  double pause_ms = 0;       // on the host, before that round
  int pause_rank = -1;       // -1: all
  uint64_t seed = 1;

  // Irregular traffic (phases.h) up to bytes_max, in place of equal rounds.
  bool irregular = false;
  double idle_s = 10;  // longest idle phase

  // Several communicators (iteration.h): a round is an iteration. Sizes and iterations above have no meaning then.
  std::optional<Layout> layout;
  IterationShape shape;
};

Options parse(int argc, char** argv);

// "4K" -> 4096; K, M and G are powers of 1024. Throws std::invalid_argument.
uint64_t parse_bytes(const std::string& text);

}  // namespace ccld::workload
