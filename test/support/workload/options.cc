#include "test/support/workload/options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <set>
#include <stdexcept>

#include "test/support/workload/traffic.h"

namespace ccld::workload {

uint64_t parse_bytes(const std::string& text) {
  size_t used = 0;
  uint64_t value = 0;
  try {
    value = std::stoull(text, &used);
  } catch (const std::exception&) {
    throw std::invalid_argument("'" + text + "' is not a size; write 4096, 4K, 1M or 1G");
  }
  const std::string unit = text.substr(used);
  if (text.front() == '-') throw std::invalid_argument("'" + text + "' is negative");
  if (unit.empty()) return value;
  if (unit == "K" || unit == "k") return value << 10;
  if (unit == "M" || unit == "m") return value << 20;
  if (unit == "G" || unit == "g") return value << 30;
  throw std::invalid_argument("'" + text + "': unknown unit '" + unit + "'; K, M and G are known");
}

Options parse(int argc, char** argv) {
  Options options;
  std::string bytes_min = "1M", bytes_max;

  CLI::App app{
      "One rank of a collective workload: calls NCCL round after round and says on a status board how far it is.\n"
      "Algorithm and protocol are chosen with NCCL's own variables (NCCL_ALGO, NCCL_PROTO)."};
  app.add_option("--rank", options.rank, "this process's rank")->required();
  app.add_option("--ranks", options.rank_count, "number of ranks")->required()->check(CLI::Range(1, 1024));
  app.add_option("--id-file", options.id_file, "file that carries NCCL's unique id from rank 0 to the others")
      ->required();
  app.add_option("--status", options.status_file, "status board of the job (default: the id file's name + .status)");
  app.add_option("--faults", options.fault_file, "application faults; read again whenever it changes");
  app.add_option("--op", options.operation, "operation, or 'mix' for all of them in turn")
      ->capture_default_str()
      ->check(CLI::IsMember(operation_choices()));
  app.add_option("-b,--minbytes", bytes_min, "smallest size")->capture_default_str();
  app.add_option("-e,--maxbytes", bytes_max, "largest size (default: the smallest)");
  app.add_option("-f,--stepfactor", options.factor, "factor between sizes")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{2}, uint64_t{1} << 30));
  app.add_option("-n,--iters", options.iterations, "rounds of each size")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("-w,--warmup_iters", options.warm_up, "first rounds, left out of the summary")->capture_default_str();
  app.add_option("-c,--check", options.check, "1: check every result; with a layout those of Recv and of the whole job")
      ->capture_default_str();
  app.add_option("-o,--op-reduction", options.reduction, "reduction")
      ->capture_default_str()
      ->check(CLI::IsMember(reduction_choices()));
  app.add_option("-d,--datatype", options.datatype, "data type")
      ->capture_default_str()
      ->check(CLI::IsMember(datatype_choices()));
  app.add_option("--seconds", options.seconds, "go on with all sizes until this much time has passed")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--compute-ms", options.compute_ms, "device time spent computing before each operation")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--jitter-ms", options.jitter_ms, "up to this much more, drawn for each rank and round")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--pause-every", options.pause_every, "rounds between two pauses of the host (a checkpoint)");
  app.add_option("--pause-ms", options.pause_ms, "length of such a pause")->check(CLI::NonNegativeNumber);
  app.add_option("--pause-rank", options.pause_rank, "the rank that pauses (default: all)");
  app.add_option("--seed", options.seed, "seed of everything that is drawn")->capture_default_str();
  app.add_flag(
      "--irregular", options.irregular,
      "phases of changing traffic up to -e: evaluations, checkpoints, pauses, moving imbalance, new communicators");
  app.add_option("--idle-s", options.idle_s, "longest idle phase of irregular traffic")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  Layout layout;
  auto* tp = app.add_option("--tp", layout.tp, "tensor group size; a layout makes a round an iteration of training");
  auto* pp = app.add_option("--pp", layout.pp, "pipeline stages");
  auto* dp = app.add_option("--dp", layout.dp, "data group size");
  auto* ep = app.add_option("--ep", layout.ep, "expert group size, divides --dp");
  app.add_option("--micro-batches", options.shape.micro_batches, "micro-batches of an iteration")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--micro-batches-file", options.micro_batch_file,
                 "numbers of micro-batches by replica; read again whenever it changes");
  app.add_option("--layers", options.shape.layers, "layers of a stage")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_flag("--overlap", options.shape.overlap, "gradients go over a second stream");

  const auto refuse = [](const std::string& message) {
    fprintf(stderr, "ccld-workload: %s\n", message.c_str());
    exit(2);
  };
  try {
    app.parse(argc, argv);
    options.bytes_min = parse_bytes(bytes_min);
    options.bytes_max = bytes_max.empty() ? options.bytes_min : parse_bytes(bytes_max);
  } catch (const CLI::CallForHelp&) {
    fputs(app.help().c_str(), stdout);
    exit(0);
  } catch (const CLI::ParseError& error) {
    refuse(error.what());
  } catch (const std::invalid_argument& error) {
    refuse(std::string("-b/-e: ") + error.what());
  }
  if (*tp || *pp || *dp || *ep) {
    options.layout = layout;
    options.shape.compute_ms = options.compute_ms;
    const std::string wrong = check(layout, options.rank_count);
    if (!wrong.empty()) refuse(wrong);
  }
  if (options.irregular && options.seconds <= 0) refuse("--irregular: needs --seconds");
  if (options.rank < 0 || options.rank >= options.rank_count) refuse("--rank: must be from 0 to --ranks minus 1");
  if (options.bytes_max < options.bytes_min) refuse("-e: is smaller than -b");
  if (options.status_file.empty()) options.status_file = options.id_file + ".status";
  return options;
}

}  // namespace ccld::workload
