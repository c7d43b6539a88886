#include "decision/validate/options.h"

#include <cstdio>
#include <iostream>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "decision/validate/messages.h"
#include "decision/validate/outcome.h"

namespace ccld::decision::validate {
namespace {

// The agent of torchrun holds MASTER_PORT itself.
constexpr int ports_beyond_master = 1;
// Jobs that share a host get ports of their own; below those that the kernel gives out by itself.
constexpr int slurm_port_first = 29700, slurm_ports = 2000;

using Variable = std::function<std::string(const char*)>;

absl::Status read_number(const Variable& variable, const char* name, int least, int& out) {
  const std::string text = variable(name);
  if (text.empty()) return absl::OkStatus();
  if (!absl::SimpleAtoi(text, &out) || out < least)
    return absl::InvalidArgumentError(absl::StrCat(name, " is '", text, "': a number from ", least, " is expected"));
  return absl::OkStatus();
}

struct Launcher {
  const char *rank, *ranks, *local_rank;
};
// srun inside of mpirun's or torchrun's allocation sets its own variables too: theirs say more.
constexpr Launcher launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

absl::Status add_meeting(Options& o, const Variable& variable) {
  if (const std::string address = variable("MASTER_ADDR"); !address.empty()) {
    int port = 0;
    if (absl::Status s = read_number(variable, "MASTER_PORT", 1, port); !s.ok()) return s;
    if (port > 0) o.meet = absl::StrCat(address, ":", port + ports_beyond_master);
    return absl::OkStatus();
  }
  std::string nodes = variable("SLURM_STEP_NODELIST");
  if (nodes.empty()) nodes = variable("SLURM_JOB_NODELIST");
  int job = 0;
  if (absl::Status s = read_number(variable, "SLURM_JOB_ID", 0, job); !s.ok()) return s;
  if (!nodes.empty()) o.meet = absl::StrCat(first_host(nodes), ":", slurm_port_first + job % slurm_ports);
  return absl::OkStatus();
}

std::string set_help() {
  std::string out = "a threshold, may be repeated:";
  const Thresholds defaults;
  for (const ThresholdRow& row : thresholds())
    absl::StrAppend(&out, " ", row.name, "=", defaults.*(row.field), " (", row.help, ")");
  return out;
}

}  // namespace

std::string first_host(const std::string& list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of("-,]", bracket);
  const size_t close = list.find(']', bracket);
  if (end == std::string::npos || close == std::string::npos) return list.substr(0, bracket);
  const std::string behind = list.substr(close + 1, list.find(',', close) - close - 1);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1) + behind;
}

absl::StatusOr<size_t> parse_bytes(const std::string& text) {
  absl::string_view digits = text;
  int shift = 0;
  for (const auto& [letter, bits] : {std::pair{'K', 10}, {'M', 20}, {'G', 30}})
    if (!digits.empty() && digits.back() == letter) {
      digits.remove_suffix(1);
      shift = bits;
      break;
    }
  uint64_t value = 0;
  constexpr uint64_t most = uint64_t{16} << 30;
  if (!absl::SimpleAtoi(digits, &value) || value == 0 || value > (most >> shift))
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no size from 1 to 16G, as 256K or 64M"));
  return static_cast<size_t>(value << shift);
}

absl::Status add_place(Options& o, const Variable& variable) {
  if (o.hosts.empty() && o.ranks == 0 && o.rank < 0) {
    for (const Launcher& l : launchers) {
      if (variable(l.rank).empty() || variable(l.ranks).empty()) continue;
      if (absl::Status s = read_number(variable, l.rank, 0, o.rank); !s.ok()) return s;
      if (absl::Status s = read_number(variable, l.ranks, 1, o.ranks); !s.ok()) return s;
      if (absl::Status s = read_number(variable, l.local_rank, 0, o.local_rank); !s.ok()) return s;
      break;
    }
    if (o.meet.empty())
      if (absl::Status s = add_meeting(o, variable); !s.ok()) return s;
  }
  if (!o.hosts.empty()) return absl::OkStatus();
  if (o.ranks == 0 || o.rank < 0)
    return absl::InvalidArgumentError(
        "--ranks and --rank are needed, or a launcher that says them (Slurm, torchrun, mpirun), or --hosts");
  if (o.ranks > ranks_max) return absl::InvalidArgumentError(absl::StrCat("--ranks is more than ", ranks_max));
  if (o.rank >= o.ranks)
    return absl::InvalidArgumentError(absl::StrCat("--rank ", o.rank, ": there are only ", o.ranks, " ranks"));
  if (o.meet.empty() && o.ranks > 1)
    return absl::InvalidArgumentError("--meet HOST:PORT is needed: where rank 0 waits for the others");
  if (o.meet.empty()) o.meet = absl::StrCat("127.0.0.1:", o.port);
  return absl::OkStatus();
}

Parsed parse_options(int argc, char** argv, const std::string& version) {
  Parsed parsed;
  Options& o = parsed.options;
  CLI::App app(
      "Tests GPUs and the links between them, each against its peers and its own past: is the hardware slow? One "
      "process for each GPU.",
      "ccld-validate");
  std::vector<std::string> changes;
  app.set_version_flag("--version", version);
  app.add_option("--ranks", o.ranks, "how many ranks there are, one for each GPU")
      ->type_name("N")
      ->check(CLI::Range(1, ranks_max));
  app.add_option("--rank", o.rank, "which one this is, from 0")->type_name("I")->check(CLI::Range(0, ranks_max - 1));
  app.add_option("--meet", o.meet, "where rank 0 waits for the others")->type_name("HOST:PORT");
  app.add_option("--gpu", o.gpu, "CUDA device; without it, by the local rank")
      ->type_name("D")
      ->check(CLI::Range(0, 1023));
  app.add_option("--hosts", o.hosts, "start a rank for each GPU of these hosts, by ssh")
      ->type_name("A,B")
      ->delimiter(',');
  app.add_option("--gpus", o.gpus, "with --hosts: GPUs of each host; without it, as many as this one has")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app.add_option("--ssh", o.ssh, "with --hosts: the command that starts one on a host")
      ->type_name("COMMAND")
      ->capture_default_str();
  app.add_option("--port", o.port, "with --hosts: where rank 0 waits on the first one")
      ->type_name("PORT")
      ->capture_default_str()
      ->check(CLI::Range(1, 65535));
  app.add_flag("--print", o.print, "with --hosts: print the commands instead of running them");
  app.add_option("--timeout", o.timeout_s, "seconds that each step may take: meeting, communicator, each check")
      ->type_name("S")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 86400.0));
  app.add_option("--repetitions", o.repetitions, "of each check; over links half as many")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(3, repetitions_max));
  app.add_option("--bytes", o.bytes, "of a message over a link (64M; on the CPU device 512K)")->type_name("SIZE");
  app.add_option("--past", o.past, "compare with what the same hardware took before, too")->type_name("FILE");
  app.add_option("--save", o.save, "write what it takes now, for --past; what is suspect is left out")
      ->type_name("FILE");
  app.add_option("--job", o.job, "name in the verdicts")->type_name("NAME")->capture_default_str();
  app.add_option("--set", changes, set_help())->type_name("NAME=VALUE");
  app.add_flag("--all", o.all_rows, "show every row, not only those that are not healthy");
  app.add_flag("--json", o.json, "as JSON, with verdicts as those of the service");
  app.footer("Rank 0 prints the result. Exit codes: 0 healthy, 1 suspect, 2 wrong usage, 3 could not be measured.");
  const auto usage = [&parsed](const std::string& line) {
    std::fprintf(stderr, "ccld-validate: %s\n", line.c_str());
    parsed.exit = exit_usage;
    return parsed;
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    parsed.exit = app.exit(e);
    return parsed;
  } catch (const CLI::ParseError& e) {
    return usage(absl::StrCat(e.what(), " (see ccld-validate --help)"));
  }
  for (const std::string& change : changes)
    if (const absl::Status s = set_threshold(o.thresholds, change); !s.ok())
      return usage(absl::StrCat("--set: ", s.message()));
  if (!o.bytes.empty())
    if (const auto bytes = parse_bytes(o.bytes); !bytes.ok())
      return usage(absl::StrCat("--bytes: ", bytes.status().message()));
  if (!o.hosts.empty() && (o.ranks != 0 || o.rank >= 0)) return usage("--hosts excludes --ranks and --rank");
  if (o.hosts.empty() && (o.print || o.gpus != 0)) return usage("--print and --gpus need --hosts");
  return parsed;
}

}  // namespace ccld::decision::validate
