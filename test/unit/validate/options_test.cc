#include "decision/validate/options.h"

#include <catch2/catch.hpp>
#include <map>

#include "decision/validate/launch.h"

namespace ccld::decision::validate {
namespace {

using Variables = std::map<std::string, std::string>;

absl::Status place(Options& o, const Variables& variables) {
  return add_place(o, [&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? "" : at->second;
  });
}

TEST_CASE("Slurm says the place of a rank") {
  Options o;
  REQUIRE(place(o, {{"SLURM_PROCID", "5"},
                    {"SLURM_NTASKS", "16"},
                    {"SLURM_LOCALID", "1"},
                    {"SLURM_JOB_ID", "4711"},
                    {"SLURM_STEP_NODELIST", "node[003-004]"}})
              .ok());
  CHECK(o.rank == 5);
  CHECK(o.ranks == 16);
  CHECK(o.local_rank == 1);
  CHECK(o.meet == "node003:30411");
}

TEST_CASE("torchrun says it too, and keeps its own port") {
  Options o;
  REQUIRE(place(o, {{"RANK", "1"},
                    {"WORLD_SIZE", "2"},
                    {"LOCAL_RANK", "1"},
                    {"MASTER_ADDR", "a"},
                    {"MASTER_PORT", "29500"},
                    {"SLURM_PROCID", "0"},
                    {"SLURM_NTASKS", "1"}})
              .ok());
  CHECK(o.rank == 1);
  CHECK(o.ranks == 2);
  CHECK(o.meet == "a:29501");
}

TEST_CASE("mpirun says ranks, and the address is asked for") {
  Options o;
  const absl::Status s = place(o, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  CHECK(std::string(s.message()).find("--meet HOST:PORT") == 0);
  o.meet = "a:1";
  o.rank = -1;
  o.ranks = 0;
  CHECK(place(o, {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}}).ok());
  CHECK(o.rank == 3);
}

TEST_CASE("The command line goes before the launcher") {
  Options o;
  o.ranks = 2;
  o.rank = 1;
  o.meet = "b:2";
  REQUIRE(place(o, {{"RANK", "7"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "a"}}).ok());
  CHECK(o.rank == 1);
  CHECK(o.meet == "b:2");
}

TEST_CASE("A place that is none is refused by name") {
  Options o;
  CHECK(std::string(place(o, {}).message()).find("--ranks and --rank are needed") == 0);
  CHECK(std::string(place(o, {{"RANK", "x"}, {"WORLD_SIZE", "8"}}).message()).find("RANK is 'x'") == 0);
  o = {};
  o.ranks = 2;
  o.rank = 2;
  CHECK(std::string(place(o, {}).message()).find("--rank 2: there are only 2 ranks") == 0);
}

TEST_CASE("The first host of Slurm's lists") {
  CHECK(first_host("node17") == "node17");
  CHECK(first_host("a,b[1-2]") == "a");
  CHECK(first_host("node[003-010,12],other") == "node003");
  CHECK(first_host("rack1-node[7,9]-ib,x") == "rack1-node7-ib");
}

TEST_CASE("Sizes") {
  CHECK(*parse_bytes("256K") == 256 << 10);
  CHECK(*parse_bytes("1000") == 1000);
  for (const char* bad : {"", "K", "-1", "0", "1T", "17G", "1.5M"}) CHECK_FALSE(parse_bytes(bad).ok());
}

TEST_CASE("Thresholds are set by name and within their range") {
  Thresholds t;
  CHECK(set_threshold(t, "gemm_margin=0.2").ok());
  CHECK(t.gemm_margin == 0.2);
  for (const char* bad : {"gemm_margin", "gemm_margin=", "gemm_margin=-1", "gemm_margin=nan", "gemm=1", "=1"})
    CHECK_FALSE(set_threshold(t, bad).ok());
}

TEST_CASE("A rank for each GPU of each host, with words as a shell needs them") {
  Options o;
  o.hosts = {"a", "b"};
  o.gpus = 2;
  const auto commands = rank_commands(o, "/opt/ccld-validate", {"--job", "it's"}, {"NCCL_X=1 2"});
  REQUIRE(commands.size() == 4);
  CHECK(commands[3].first == "b");
  CHECK(commands[3].second ==
        "env 'NCCL_X=1 2' /opt/ccld-validate --job 'it'\\''s' --ranks 4 --rank 3 --gpu 1 --meet a:29610");
}

TEST_CASE("Options that say where ranks are do not go along") {
  std::vector<std::string> words = {"x",     "--hosts", "a,b",       "--json", "--gpus=4",
                                    "--ssh", "ssh -q",  "--timeout", "5",      "--print"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  CHECK(without_hosts(static_cast<int>(argv.size()), argv.data()) ==
        std::vector<std::string>{"--json", "--timeout", "5"});
}

}  // namespace
}  // namespace ccld::decision::validate
