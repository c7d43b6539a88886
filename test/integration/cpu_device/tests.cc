// The jobs of each ctest case.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include "test/integration/cpu_device/suites.h"
#include "test/support/ranks/temporary_folder.h"

namespace ccld::cpu_device_matrix {
namespace {

using ranks::TemporaryFolder;
using Environment = std::vector<std::pair<std::string, std::string>>;

Environment with(Environment environment, const Environment& more) {
  environment.insert(environment.end(), more.begin(), more.end());
  return environment;
}

// What all jobs share: small on two cores, and nothing but this machine.
Environment basics(int channels) {
  return {{"NCCL_MIN_NCHANNELS", std::to_string(channels)},
          {"NCCL_MAX_NCHANNELS", std::to_string(channels)},
          {"NCCL_NTHREADS", "128"},
          {"NCCL_LL128_NTHREADS", "128"},
          {"NCCL_SOCKET_IFNAME", "lo"},
          {"NCCL_IB_DISABLE", "1"},
          {"NCCL_PAT_ENABLE", "0"},
          {"NCCL_PROBE_ENABLE", "0"}};
}

// GPUs behind NVLink switches, and NVLS for all it can do.
const Environment nvls = {{"CCLD_CPU_DEVICE_NVSWITCH", "1"},
                          {"NCCL_ALGO", "RING;allreduce:NVLS;allgather:NVLS;reducescatter:NVLS"},
                          {"NCCL_NVLS_NCHANNELS", "1"},
                          {"NCCL_NVLS_CHUNKSIZE", "32768"}};

// A network in software, with a device for each of `heads` GPUs of a node.
Environment software_network(int heads) {
  return {{"NCCL_NET_PLUGIN", CCLD_TEST_COLLNET}, {"CCLD_TEST_NET_DEVICES", std::to_string(heads)}};
}

Environment collnet(int heads, const std::string& algorithms) {
  return with(software_network(heads), {{"NCCL_COLLNET_ENABLE", "1"}, {"NCCL_ALGO", algorithms}});
}

// NVLS where trees join the heads of nodes; NCCL wants two heads at least.
Environment nvls_tree(int heads) {
  return with(with(nvls, software_network(heads)), {{"NCCL_ALGO", "RING;allreduce:NVLSTREE"}});
}

// The tuner's own log proves that the algorithm and protocol under test were the ones that ran.
bool used_only(const std::string& log_path, const std::string& collective, const std::string& algorithm,
               const std::string& protocol) {
  std::ifstream log(log_path);
  int seen = 0;
  for (std::string line; std::getline(log, line);) {
    if (line.find(collective + ": ") == std::string::npos || line.find("-> Algo") == std::string::npos) continue;
    ++seen;
    if (line.find("Algo " + algorithm + " ") == std::string::npos ||
        line.find("proto " + protocol + " ") == std::string::npos) {
      fprintf(stderr, "expected %s %s: %s\n", algorithm.c_str(), protocol.c_str(), line.c_str());
      return false;
    }
  }
  if (seen == 0) fprintf(stderr, "the tuner did not log any %s\n", collective.c_str());
  return seen != 0;
}

const std::vector<std::string> only_all_reduce = {"AllReduce"};
const std::vector<std::string> what_switches_do = {"AllReduce", "AllGather", "ReduceScatter"};

// Runs the job; that algorithm and protocol must be the ones of all these collectives.
bool run_and_look(JobSpec job, const std::string& algorithm, const std::string& protocol,
                  const std::vector<std::string>& collectives) {
  const TemporaryFolder folder;
  job.environment =
      with(job.environment,
           {{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_SUBSYS", "TUNING"}, {"NCCL_DEBUG_FILE", folder.path() + "/log.%p"}});
  std::string rank_zero;
  job.meanwhile = [&](const std::vector<pid_t>& pids) { rank_zero = std::to_string(pids[0]); };
  if (!run_job(job)) return false;
  std::string protocol_in_log = protocol;
  for (char& c : protocol_in_log) c = static_cast<char>(toupper(c));
  bool good = true;
  for (const std::string& collective : collectives)
    good = used_only(folder.path() + "/log." + rank_zero, collective, algorithm, protocol_in_log) && good;
  return good;
}

bool run_matrix_job(const std::string& algorithm, const std::string& protocol, int ranks, const std::string& suite,
                    const Environment& more) {
  JobSpec job;
  job.name = algorithm + " " + protocol;
  for (const auto& [name, value] : more) job.name += " " + name + "=" + value;
  job.suite = suite;
  job.ranks = ranks;
  const Environment forced = {{"NCCL_ALGO", algorithm == "TREE" ? "RING;allreduce:TREE" : "RING"},
                              {"NCCL_PROTO", protocol}};
  job.environment = with(with(basics(1), forced), more);
  return run_and_look(job, algorithm, protocol, only_all_reduce);
}

bool nvls_job(int ranks, const Environment& more) {
  JobSpec job;
  job.name = "NVLS of " + std::to_string(ranks);
  job.suite = "nvls";
  job.ranks = ranks;
  job.environment = with(with(basics(1), nvls), more);
  return run_and_look(job, "NVLS", "Simple", what_switches_do);
}

// On nodes of so many ranks.
bool job_of_nodes(const std::string& algorithm, int ranks, int ranks_of_node, const Environment& environment,
                  const std::vector<std::string>& collectives = only_all_reduce) {
  JobSpec job;
  job.name = algorithm + " of " + std::to_string(ranks) + ", " + std::to_string(ranks_of_node) + " to a node";
  job.suite = collectives.size() == 1 ? "float_sums" : "float_collectives";
  job.ranks = ranks;
  job.ranks_of_node = ranks_of_node;
  job.environment = with(basics(2), environment);
  return run_and_look(job, algorithm, "Simple", collectives);
}

bool matrix_test(const std::string& algorithm) {
  bool good = true;
  for (const char* protocol : {"Simple", "LL", "LL128"}) {
    good = run_matrix_job(algorithm, protocol, 4, algorithm == "TREE" ? "all_reduce" : "every_collective", {}) && good;
  }
  return good;
}

bool ring_test() { return matrix_test("RING"); }
bool tree_test() { return matrix_test("TREE"); }

bool warp_order_test() {
  bool good = true;
  for (const char* seed : {"1", "20260"}) {
    for (const char* protocol : {"Simple", "LL", "LL128"}) {
      good = run_matrix_job("RING", protocol, 3, "smoke", {{"CCLD_CPU_DEVICE_ORDER_SEED", seed}}) && good;
    }
    good = run_matrix_job("TREE", "LL128", 4, "smoke", {{"CCLD_CPU_DEVICE_ORDER_SEED", seed}}) && good;
  }
  return good;
}

bool simple_job(const std::string& name, const std::string& suite, int ranks, const Environment& more,
                int channels = 2) {
  JobSpec job;
  job.name = name;
  job.suite = suite;
  job.ranks = ranks;
  job.environment = with(basics(channels), more);
  return run_job(job);
}

bool transports_test() {
  bool good = true;
  good = simple_job("P2P over cuMem", "smoke", 3, {{"NCCL_P2P_LEVEL", "SYS"}}) && good;
  good = simple_job("P2P over cudaIpc", "smoke", 3, {{"NCCL_P2P_LEVEL", "SYS"}, {"NCCL_CUMEM_ENABLE", "0"}}) && good;
  good = simple_job("SHM", "smoke", 3, {{"NCCL_P2P_DISABLE", "1"}}) && good;
  good = simple_job("default stream", "default_stream", 2, {}) && good;
  good = simple_job("sockets", "smoke", 3, {{"NCCL_P2P_DISABLE", "1"}, {"NCCL_SHM_DISABLE", "1"}}) && good;
  return good;
}

bool graph_test() {
  bool good = true;
  good = simple_job("graph", "graph", 3, {}) && good;
  good = simple_job("graph over sockets", "graph", 2, {{"NCCL_P2P_DISABLE", "1"}, {"NCCL_SHM_DISABLE", "1"}}) && good;
  return good;
}

bool nvls_test() {
  bool good = true;
  for (int ranks : {2, 3, 8}) good = nvls_job(ranks, {}) && good;
  good = nvls_job(4, {{"CCLD_CPU_DEVICE_ORDER_SEED", "7"}}) && good;
  good = simple_job("NVLS in one process", "nvls_one_process", 1, nvls, 1) && good;
  good = simple_job("NVLS on registered memory", "nvls_registered", 3, nvls, 1) && good;
  // NCCL sets NVLS up with a cudaMemset(), which is not allowed while a stream is captured.
  return simple_job("NVLS in a graph", "graph", 3, with(nvls, {{"NCCL_RUNTIME_CONNECT", "0"}}), 1) && good;
}

bool nvls_tree_test() {
  bool good = true;
  good = job_of_nodes("NVLS_TREE", 4, 2, nvls_tree(2)) && good;
  good = job_of_nodes("NVLS_TREE", 8, 4, nvls_tree(4)) && good;
  good = job_of_nodes("NVLS_TREE", 16, 4, nvls_tree(2)) && good;
  return good;
}

bool collnet_test() {
  const Environment switches = {{"CCLD_CPU_DEVICE_NVSWITCH", "1"}};
  const std::string direct = "RING;allreduce:COLLNETDIRECT;allgather:COLLNETDIRECT;reducescatter:COLLNETDIRECT";
  bool good = true;
  good = job_of_nodes("COLLNET_CHAIN", 4, 2, collnet(1, "RING;allreduce:COLLNETCHAIN")) && good;
  good = job_of_nodes("COLLNET_CHAIN", 16, 4, collnet(1, "RING;allreduce:COLLNETCHAIN")) && good;
  good = job_of_nodes("COLLNET_DIRECT", 8, 4, with(switches, collnet(1, direct))) && good;
  // Every GPU a head.
  good = job_of_nodes("COLLNET_DIRECT", 4, 2, with(switches, collnet(2, direct)), what_switches_do) && good;
  return good;
}

// Nobody says which algorithm to take.
bool nvls_by_itself_test() {
  JobSpec job;
  job.name = "NVLS by NCCL's own choice";
  job.suite = "large_sum";
  job.ranks = 8;
  job.environment = with(basics(2), {{"CCLD_CPU_DEVICE_NVSWITCH", "1"}, {"NCCL_NVLS_NCHANNELS", "2"}});
  return run_and_look(job, "NVLS", "Simple", only_all_reduce);
}

bool left_out_test() { return simple_job("a function that is not built", "left_out", 2, {}); }
bool partly_built_test() {
  // Each process is a node, and trees are fast between nodes.
  const Environment nodes = {{"CCLD_SHARE_GPUS", "1"}};
  bool good = simple_job("a tree that is not built", "partly_built", 4, nodes, 1);
  good = simple_job("a tree that is not built, or a ring", "partly_built", 4, with(nodes, {{"NCCL_ALGO", "TREE,RING"}}),
                    1) &&
         good;
  return simple_job("a tree that is not built, forced", "forced_and_not_built", 4, with(nodes, {{"NCCL_ALGO", "TREE"}}),
                    1) &&
         good;
}
bool one_process_test() { return simple_job("four GPUs in one process", "one_process", 1, {}); }

bool abort_test() {
  bool good = true;
  for (const char* protocol : {"Simple", "LL", "LL128"}) {
    const TemporaryFolder folder;
    good = simple_job(std::string("abort ") + protocol, "abort", 3,
                      {{"NCCL_ALGO", "RING"}, {"NCCL_PROTO", protocol}, {meeting_folder_variable, folder.path()}}) &&
           good;
  }
  return good;
}

bool kill_job(const std::string& name, const Environment& environment) {
  JobSpec job;
  job.name = name;
  job.suite = "kill";
  job.ranks = 4;
  job.environment = environment;
  job.killed_ranks = {1};
  return run_job(job);
}

bool kill_test() { return kill_job("kill", basics(2)); }

// A job of checked AllReduces; `disturb` runs in the middle of them and must hold one up for more than 1.2 s.
bool disturbed_test(const std::string& name, const Environment& environment,
                    const std::function<void(pid_t rank_one, const std::string& control_file)>& disturb) {
  const TemporaryFolder folder;
  const std::string fifo_path = folder.path() + "/ready", control_file = folder.path() + "/control";
  if (mkfifo(fifo_path.c_str(), 0600) != 0) abort();
  const int fifo = open(fifo_path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  JobSpec job;
  job.name = name;
  job.suite = "disturbed";
  job.ranks = 3;
  job.environment = with(environment, {{ready_variable, fifo_path}});
  job.control_rank_file = control_file;
  job.meanwhile = [&](const std::vector<pid_t>& pids) {
    pollfd ready{fifo, POLLIN, 0};
    if (poll(&ready, 1, 30000) == 1) disturb(pids[1], control_file);
  };
  const bool good = run_job(job);
  close(fifo);
  return good;
}

constexpr useconds_t disturbance_us =
    3000000;  // far more than the suite looks for: a rank may be late for the round that it holds up

void stop_and_continue(pid_t rank_one, const std::string&) {
  kill(rank_one, SIGSTOP);
  usleep(disturbance_us);
  kill(rank_one, SIGCONT);
}

bool stop_test() { return disturbed_test("stop and continue", basics(1), stop_and_continue); }

bool freeze_test(const std::string& name, const std::string& line) {
  return disturbed_test(name, basics(2), [&](pid_t, const std::string& control_file) {
    std::ofstream(control_file) << line << '\n';
    usleep(disturbance_us);
    unlink(control_file.c_str());
  });
}

bool frozen_channel_test() { return freeze_test("frozen channel", "freeze_block 1"); }
bool frozen_device_test() { return freeze_test("frozen device", "freeze_device"); }

// The suite "disturbed" agrees on its end with an AllReduce that NVLS cannot do.
bool nvls_faults_test() {
  const TemporaryFolder folder;
  bool good = simple_job("abort NVLS", "abort", 3, with(nvls, {{meeting_folder_variable, folder.path()}}), 1);
  good = kill_job("kill in NVLS", with(basics(1), nvls)) && good;
  return disturbed_test("stop and continue NVLS", with(basics(1), with(nvls, {{"NCCL_ALGO", "NVLS,RING"}})),
                        stop_and_continue) &&
         good;
}

}  // namespace

int run_test(const std::string& name) {
  static const std::map<std::string, bool (*)()> tests = {
      {"ring", ring_test},
      {"tree", tree_test},
      {"warp_order", warp_order_test},
      {"transports", transports_test},
      {"graph", graph_test},
      {"nvls", nvls_test},
      {"nvls_faults", nvls_faults_test},
      {"nvls_by_itself", nvls_by_itself_test},
      {"nvls_tree", nvls_tree_test},
      {"collnet", collnet_test},
      {"abort", abort_test},
      {"kill", kill_test},
      {"stop", stop_test},
      {"frozen_channel", frozen_channel_test},
      {"frozen_device", frozen_device_test},
      {"one_process", one_process_test},
      {"left_out", left_out_test},
      {"partly_built", partly_built_test},
  };
  const auto found = tests.find(name);
  if (found == tests.end()) return -1;
  return found->second() ? 0 : 1;
}

}  // namespace ccld::cpu_device_matrix
