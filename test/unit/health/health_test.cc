// What is said of the process, its host, GPUs and ports, on trees of files and an NVML of the test's own.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "probe/frames/frame_file.h"
#include "probe/health/gpu_part.h"
#include "probe/health/health_thread.h"
#include "probe/health/host_part.h"
#include "probe/health/neighbours.h"
#include "probe/health/port_part.h"
#include "probe/health/process_part.h"
#include "probe/health/run_delay_part.h"
#include "probe/health/sampler.h"
#include "probe/health/thread_run.h"
#include "probe/process/proxy_threads.h"
#include "test/unit/frames/temporary_folder.h"

namespace ccld::probe {
namespace {

using abi::MetricId;

class FakeTree {
 public:
  HealthRoots roots() const { return {folder_.path() + "/proc", folder_.path() + "/sys"}; }
  // `path` starts with /proc or /sys.
  void put(const std::string& path, const std::string& text) {
    const std::string full = folder_.path() + path;
    std::filesystem::create_directories(std::filesystem::path(full).parent_path());
    std::ofstream(full) << text;
  }

 private:
  TemporaryFolder folder_;
};

template <class Part>
Metrics read_once(Part& part, uint64_t now_ns = 1) {
  Metrics metrics;
  part.read({now_ns, 0}, &metrics);
  return metrics;
}

std::optional<int64_t> value_of(const Metrics& metrics, MetricId id, const std::string& instance = "") {
  for (const MetricValue& metric : metrics) {
    if (metric.id == id && metric.instance == instance) return metric.value;
  }
  return std::nullopt;
}

const char stat_line[] =
    "4242 (a (strange) name) S 1 4242 4242 0 -1 4194560 900 0 17 0 250 75 0 0 20 0 3 0 123456 1000000 512 184467 1 1 0";

TEST_CASE("The process: main thread, faults, times and memory, whatever its name looks like") {
  FakeTree tree;
  tree.put("/proc/self/stat", stat_line);
  ProcessPart part(tree.roots());
  std::vector<std::string> absent;
  REQUIRE(part.open(&absent));
  const Metrics metrics = read_once(part);
  CHECK(value_of(metrics, MetricId::process_main_thread_state) == 'S');
  CHECK(value_of(metrics, MetricId::process_major_faults) == 17);
  const int64_t tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
  CHECK(value_of(metrics, MetricId::process_user_ns) == 250 * tick_ns);
  CHECK(value_of(metrics, MetricId::process_system_ns) == 75 * tick_ns);
  CHECK(value_of(metrics, MetricId::process_resident_bytes) == 512 * sysconf(_SC_PAGESIZE));
  CHECK(absent.empty());
}

TEST_CASE("Threads are counted by state") {
  FakeTree tree;
  const char* states[] = {"R", "S", "S", "D", "T", "t", "Z", "I"};
  int thread = 100;
  for (const char* state : states) {
    tree.put("/proc/self/task/" + std::to_string(thread) + "/stat",
             std::to_string(thread) + " (worker) " + state + " 1 1");
    ++thread;
  }
  ThreadsPart part(tree.roots());
  std::vector<std::string> absent;
  REQUIRE(part.open(&absent));
  for (int look = 0; look < 2; ++look) {
    const Metrics metrics = read_once(part);
    CHECK(value_of(metrics, MetricId::process_threads_running) == 1);
    CHECK(value_of(metrics, MetricId::process_threads_sleeping) == 3);
    CHECK(value_of(metrics, MetricId::process_threads_disk_wait) == 1);
    CHECK(value_of(metrics, MetricId::process_threads_stopped) == 2);
    CHECK(value_of(metrics, MetricId::process_threads_zombie) == 1);
  }
}

// Makes a thread known as a progress thread and lets it end.
pid_t noted_thread() {
  pid_t id = 0;
  std::thread([&id] {
    id = static_cast<pid_t>(syscall(SYS_gettid));
    note_proxy_thread();
    note_proxy_thread();  // knows itself
  }).join();
  return id;
}

TEST_CASE("The wait for a processor is the second number of schedstat, unless the kernel counts nothing") {
  CHECK(run_delay_ns("80891 12345 17\n") == uint64_t{12345});
  CHECK(run_delay_ns("80891 0 1\n") == uint64_t{0});
  CHECK_FALSE(run_delay_ns("0 0 0\n"));
  CHECK_FALSE(run_delay_ns("80891"));
  CHECK_FALSE(run_delay_ns(""));
}

TEST_CASE("Main thread and progress threads: how long they waited for a processor") {
  FakeTree tree;
  const auto put = [&tree](pid_t thread, uint64_t delay_ns) {
    tree.put("/proc/self/task/" + std::to_string(thread) + "/schedstat", "5 " + std::to_string(delay_ns) + " 1\n");
  };
  tree.put("/proc/self/schedstat", "1000 700 3\n");
  RunDelayPart part(tree.roots());
  std::vector<std::string> absent;
  REQUIRE(part.open(&absent));
  CHECK(absent.empty());
  Metrics metrics = read_once(part);
  CHECK(value_of(metrics, MetricId::process_main_run_delay_ns) == 700);
  CHECK_FALSE(value_of(metrics, MetricId::process_proxy_run_delay_ns));

  const pid_t first = noted_thread();
  put(first, 100);
  metrics = read_once(part);
  CHECK(value_of(metrics, MetricId::process_proxy_run_delay_ns) == 100);
  CHECK(value_of(metrics, MetricId::process_proxy_threads) == 1);
  put(first, 300);
  CHECK(value_of(read_once(part), MetricId::process_proxy_run_delay_ns) == 300);

  // Of two it is the mean.
  forget_proxy_thread(first);
  std::thread second([&] {
    note_proxy_thread();
    put(static_cast<pid_t>(syscall(SYS_gettid)), 400);
    std::thread([&] {
      note_proxy_thread();
      put(static_cast<pid_t>(syscall(SYS_gettid)), 200);
      metrics = read_once(part);
    }).join();
  });
  second.join();
  CHECK(value_of(metrics, MetricId::process_proxy_threads) == 2);
  CHECK(value_of(metrics, MetricId::process_proxy_run_delay_ns) == 600);

  // Threads that have ended are forgotten; the sum stays for who comes next.
  for (const pid_t thread : proxy_threads()) tree.put("/proc/self/task/" + std::to_string(thread) + "/schedstat", "");
  CHECK_FALSE(value_of(read_once(part), MetricId::process_proxy_run_delay_ns));
  CHECK(proxy_threads().empty());
}

// A thread of a fake tree, whose files are as the kernel writes them.
struct FakeThread {
  FakeThread(FakeTree& t, pid_t i, std::string n) : tree(t), id(i), name(std::move(n)) { put(); }
  void put() {
    const std::string folder = "/proc/self/task/" + std::to_string(id);
    tree.put(folder + "/schedstat",
             std::to_string(ran_ns) + " " + std::to_string(waited_ns) + " " + std::to_string(times) + "\n");
    tree.put(folder + "/stat", std::to_string(id) + " (" + name + ") " + state +
                                   " 1 4242 4242 0 -1 4194560 900 0 17 0 " + std::to_string(ran_ns / 10000000) +
                                   " 0 0 0 20 0 3 0 123456 1000000 512\n");
  }
  void is(char letter) { state = letter, put(); }
  void runs(uint64_t ns, uint64_t after_ns = 0) { ran_ns += ns, waited_ns += after_ns, ++times, put(); }
  FakeTree& tree;
  pid_t id;
  std::string name;
  char state = 'R';
  uint64_t ran_ns = 5 * ns_per_ms, waited_ns = 100 * ns_per_ms, times = 1;
};

constexpr uint64_t second = ns_per_s;

TEST_CASE("A wait for a processor counts while it lasts, and not again when the kernel counts it") {
  FakeTree tree;
  FakeThread thread(tree, 77, "any (name) R");
  const std::string folder = tree.roots().proc + "/self/task/77";
  ThreadRun run;
  REQUIRE(run.open(folder + "/schedstat", folder + "/stat"));
  const auto look = [&run] {
    const auto seen = run.look(second);
    REQUIRE(seen);
    return *seen;
  };
  CHECK(look().delay_ns == 100 * ns_per_ms);
  // Ready at both looks, and it has not run.
  CHECK(look().delay_ns == 100 * ns_per_ms + second);
  CHECK(look().starved);
  CHECK(look().delay_ns == 100 * ns_per_ms + 3 * second);
  thread.runs(20 * ns_per_ms, 3 * second + 600 * ns_per_ms);
  ThreadRun::Look seen = look();
  CHECK(seen.delay_ns == 3 * second + 700 * ns_per_ms);
  CHECK_FALSE(seen.starved);
  // Late looks may have counted too much of it: what was told does not fall.
  look();
  look();
  thread.runs(20 * ns_per_ms, second);
  CHECK(look().delay_ns == 5 * second + 700 * ns_per_ms);
  thread.runs(20 * ns_per_ms, 2 * second);
  CHECK(look().delay_ns == 6 * second + 700 * ns_per_ms);
}

TEST_CASE("Who waits for most of the time and hardly ever runs starves") {
  FakeTree tree;
  FakeThread thread(tree, 77, "worker");
  const std::string folder = tree.roots().proc + "/self/task/77";
  ThreadRun run;
  REQUIRE(run.open(folder + "/schedstat", folder + "/stat"));
  CHECK_FALSE(run.look(0)->starved);
  for (int i = 0; i < 3; ++i) {
    thread.runs(second / ThreadRun::hardly / 2, second * 6 / 10);
    CHECK(run.look(second)->starved);
  }
  thread.runs(second / ThreadRun::hardly / 2, second * 4 / 10);
  CHECK_FALSE(run.look(second)->starved);
}

TEST_CASE("Who sleeps, runs, is stopped or has just woken does not wait for a processor") {
  FakeTree tree;
  FakeThread thread(tree, 77, "worker");
  const std::string folder = tree.roots().proc + "/self/task/77";
  ThreadRun run;
  REQUIRE(run.open(folder + "/schedstat", folder + "/stat"));
  const auto starves = [&run] { return run.look(second)->starved; };
  SECTION("asleep all the time") {
    thread.is('S');
    for (int i = 0; i < 4; ++i) CHECK_FALSE(starves());
  }
  SECTION("stopped, by a signal or a tracer") {
    starves();
    thread.is('T');
    CHECK_FALSE(starves());
    thread.is('t');
    CHECK_FALSE(starves());
  }
  SECTION("woken since the look before") {
    thread.is('S');
    starves();
    thread.is('R');
    CHECK_FALSE(starves());
    CHECK(starves());
  }
  SECTION("it runs a little") {
    for (int i = 0; i < 4; ++i) {
      thread.runs(1);
      CHECK_FALSE(starves());
    }
  }
  SECTION("it waits for most of the time, and gets a fair part beside a hundred others") {
    for (int i = 0; i < 4; ++i) {
      thread.runs(second / ThreadRun::hardly, second - second / ThreadRun::hardly);
      CHECK_FALSE(starves());
    }
  }
  SECTION("it waits for most of the time, and polls twice") {
    for (int i = 0; i < 4; ++i) {
      thread.runs(1, second / 2);
      thread.runs(1, second / 2 - 2);
      CHECK_FALSE(starves());
    }
  }
  SECTION("it runs without a tick, which its processor time tells alone") {
    for (int i = 0; i < 4; ++i) {
      tree.put("/proc/self/task/77/stat",
               "77 (worker) R 1 1 1 0 -1 0 0 0 0 0 " + std::to_string(100 * i) + " 0 0 0 20 0");
      CHECK_FALSE(starves());
    }
  }
  SECTION("its state is not known") {
    tree.put("/proc/self/task/77/stat", "");
    for (int i = 0; i < 4; ++i) CHECK_FALSE(starves());
  }
  CHECK(run.look(second)->delay_ns >= 100 * ns_per_ms);
  tree.put("/proc/self/task/77/schedstat", "");
  CHECK_FALSE(run.look(second));
}

TEST_CASE(
    "The time in which a thread that moves steps hardly ran counts once, for progress threads and threads of a GPU") {
  FakeTree tree;
  FakeThread application(tree, getpid(), "python");
  tree.put("/proc/self/schedstat", "5000000 100000000 1\n");
  FakeThread block(tree, 201, "ccld-block"), stream(tree, 202, "ccld-stream"), other(tree, 203, "worker");
  const auto gpu_threads = std::make_shared<std::vector<pid_t>>();
  ThreadsPart threads(tree.roots(), gpu_threads);
  RunDelayPart part(tree.roots(), gpu_threads);
  std::vector<std::string> absent;
  REQUIRE(threads.open(&absent));
  REQUIRE(part.open(&absent));
  uint64_t now_ns = 100 * second;
  using Starved = std::pair<std::optional<int64_t>, std::optional<int64_t>>;  // of the GPU, of proxies, in seconds
  Metrics metrics;
  const auto starved = [&] {
    read_once(threads, now_ns);
    metrics = read_once(part, now_ns);
    now_ns += second;
    const auto seconds = [](std::optional<int64_t> ns) {
      return ns ? std::optional(*ns / int64_t{second}) : std::nullopt;
    };
    return Starved{seconds(value_of(metrics, MetricId::process_gpu_starved_ns)),
                   seconds(value_of(metrics, MetricId::process_starved_ns))};
  };
  const auto all_run = [&] { block.runs(1), stream.runs(1); };
  CHECK(starved() == Starved{0, {}});
  std::vector<pid_t> found = *gpu_threads;
  std::sort(found.begin(), found.end());
  CHECK(found == std::vector<pid_t>{201, 202});
  all_run();
  CHECK(starved() == Starved{0, {}});
  CHECK(starved() == Starved{1, {}});  // both of them
  stream.runs(1);
  CHECK(starved() == Starved{2, {}});
  all_run();
  CHECK(starved() == Starved{2, {}});
  // The main thread launches, and moves nothing.
  for (int i = 0; i < 3; ++i) {
    all_run();
    CHECK(starved() == Starved{2, {}});
  }
  CHECK(value_of(metrics, MetricId::process_main_run_delay_ns) >= int64_t{3 * second});
  // One that has ended waits for nothing; a progress thread does.
  block.is('S');
  stream.is('S');
  starved();
  FakeThread proxy(tree, noted_thread(), "any");
  starved();
  CHECK(starved() == Starved{2, 1});
  for (const pid_t id : {block.id, stream.id, proxy.id}) {
    tree.put("/proc/self/task/" + std::to_string(id) + "/schedstat", "");
    tree.put("/proc/self/task/" + std::to_string(id) + "/stat", "");
  }
  CHECK(starved() == Starved());
  CHECK(proxy_threads().empty());
}

TEST_CASE("How often threads that serve operations got a processor adds up, from when each was first seen") {
  FakeTree tree;
  FakeThread application(tree, getpid(), "python"), block(tree, 201, "ccld-block"), proxy(tree, noted_thread(), "any");
  tree.put("/proc/self/schedstat", "5000000 100000000 7\n");
  const auto gpu_threads = std::make_shared<std::vector<pid_t>>(std::vector<pid_t>{201});
  RunDelayPart part(tree.roots(), gpu_threads);
  std::vector<std::string> absent;
  REQUIRE(part.open(&absent));
  uint64_t now_ns = 100 * second;
  CHECK_FALSE(value_of(read_once(part, now_ns), MetricId::process_turns));
  tree.put("/proc/self/schedstat", "5000000 102000000 8\n");
  block.runs(1, 3 * ns_per_ms);
  proxy.runs(1, 4 * ns_per_ms);
  proxy.runs(1, 4 * ns_per_ms);
  Metrics metrics = read_once(part, now_ns += second);
  CHECK(value_of(metrics, MetricId::process_turns) == 4);
  CHECK(value_of(metrics, MetricId::process_turn_waits_ns) == int64_t{13 * ns_per_ms});
  // One that ends keeps its part.
  gpu_threads->clear();
  tree.put("/proc/self/schedstat", "6000000 102000000 9\n");
  proxy.runs(1, ns_per_ms);
  metrics = read_once(part, now_ns += second);
  CHECK(value_of(metrics, MetricId::process_turns) == 6);
  CHECK(value_of(metrics, MetricId::process_turn_waits_ns) == int64_t{14 * ns_per_ms});
  forget_proxy_thread(proxy.id);
}

TEST_CASE("How long threads ran is told with their waits, and when that was read") {
  FakeTree tree;
  FakeThread application(tree, getpid(), "python");
  tree.put("/proc/self/schedstat", "5000000 100000000 1\n");
  RunDelayPart part(tree.roots());
  std::vector<std::string> absent;
  REQUIRE(part.open(&absent));
  FakeThread proxy(tree, noted_thread(), "any");
  proxy.ran_ns = 7 * ns_per_ms;
  proxy.put();
  const Metrics metrics = read_once(part);
  CHECK(value_of(metrics, MetricId::process_main_run_ns) == int64_t{5 * ns_per_ms});
  CHECK(value_of(metrics, MetricId::process_proxy_run_ns) == int64_t{7 * ns_per_ms});
  CHECK(value_of(metrics, MetricId::process_run_read_monotonic_ns));
  forget_proxy_thread(proxy.id);
}

TEST_CASE("The waits of all threads add up, and a thread that ends keeps its part") {
  FakeTree tree;
  const std::string tasks = "/proc/self/task/";
  tree.put("/proc/self/schedstat", "1000 700 3\n");
  tree.put(tasks + "100/schedstat", "1000 700 3\n");
  tree.put(tasks + "101/schedstat", "1000 50 3\n");
  ThreadsDelayPart part(tree.roots());
  std::vector<std::string> absent;
  REQUIRE(part.open(&absent));
  CHECK(value_of(read_once(part), MetricId::process_run_delay_ns) == 750);
  tree.put(tasks + "101/schedstat", "");
  tree.put(tasks + "102/schedstat", "1 20 1\n");
  CHECK(value_of(read_once(part), MetricId::process_run_delay_ns) == 770);
  tree.put(tasks + "102/schedstat", "1 5 1\n");  // another thread with its number
  CHECK(value_of(read_once(part), MetricId::process_run_delay_ns) == 775);
}

TEST_CASE("At most so many threads are read at a time") {
  FakeTree tree;
  tree.put("/proc/self/schedstat", "1000 1 3\n");
  for (unsigned thread = 0; thread < 2 * ThreadsDelayPart::threads_max; ++thread)
    tree.put("/proc/self/task/" + std::to_string(1000 + thread) + "/schedstat", "1 1 1\n");
  ThreadsDelayPart part(tree.roots());
  std::vector<std::string> absent;
  REQUIRE(part.open(&absent));
  CHECK(value_of(read_once(part), MetricId::process_run_delay_ns) == ThreadsDelayPart::threads_max);
}

TEST_CASE("A kernel that does not count waits for processors gives no values, and one line says so") {
  FakeTree tree;
  tree.put("/proc/self/schedstat", "0 0 0\n");
  tree.put("/proc/self/task/100/schedstat", "0 0 0\n");
  std::vector<std::string> absent;
  CHECK_FALSE(RunDelayPart(tree.roots()).open(&absent));
  CHECK_FALSE(ThreadsDelayPart(tree.roots()).open(&absent));
  CHECK(absent.size() == 1);
}

TEST_CASE("The control group: throttling and memory; no limit is no value; files are read again") {
  FakeTree tree;
  tree.put("/proc/self/cgroup", "0::/slice/job.scope\n");
  const std::string group = "/sys/fs/cgroup/slice/job.scope";
  tree.put(group + "/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec 12345\n");
  tree.put(group + "/memory.current", "7340032\n");
  tree.put(group + "/memory.max", "max\n");
  tree.put(group + "/memory.events", "low 0\nhigh 3\nmax 0\noom 1\noom_kill 2\n");
  CgroupPart part(tree.roots());
  std::vector<std::string> absent;
  REQUIRE(part.open(&absent));
  CHECK(absent.empty());
  Metrics metrics = read_once(part);
  CHECK(value_of(metrics, MetricId::cgroup_throttled_periods) == 4);
  CHECK(value_of(metrics, MetricId::cgroup_throttled_us) == 12345);
  CHECK(value_of(metrics, MetricId::cgroup_memory_bytes) == 7340032);
  CHECK_FALSE(value_of(metrics, MetricId::cgroup_memory_limit_bytes));
  CHECK(value_of(metrics, MetricId::cgroup_oom_kills) == 2);
  CHECK(value_of(metrics, MetricId::cgroup_memory_high_events) == 3);
  tree.put(group + "/memory.max", "9000\n");
  tree.put(group + "/memory.current", "8000\n");
  metrics = read_once(part);
  CHECK(value_of(metrics, MetricId::cgroup_memory_limit_bytes) == 9000);
  CHECK(value_of(metrics, MetricId::cgroup_memory_bytes) == 8000);
}

TEST_CASE("In a container the group at the root is taken") {
  FakeTree tree;
  tree.put("/proc/self/cgroup", "0::/../../elsewhere\n");
  tree.put("/sys/fs/cgroup/cpu.stat", "nr_throttled 1\n");
  CgroupPart part(tree.roots());
  std::vector<std::string> absent;
  REQUIRE(part.open(&absent));
  CHECK(value_of(read_once(part), MetricId::cgroup_throttled_periods) == 1);
  CHECK(absent.size() == 1);  // no memory controller
}

TEST_CASE("The host: pressure, load and memory") {
  FakeTree tree;
  tree.put("/proc/pressure/cpu", "some avg10=1.00 avg60=0.50 avg300=0.00 total=111\nfull avg10=0.00 total=5\n");
  tree.put("/proc/pressure/memory", "some avg10=0.00 total=22\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=33\n");
  tree.put("/proc/pressure/io", "some avg10=0.00 total=44\nfull avg10=0.00 total=55\n");
  tree.put("/proc/loadavg", "3.00 2.00 1.00 4/500 999\n");
  tree.put("/proc/meminfo", "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    500 kB\n");
  HostPart part(tree.roots());
  std::vector<std::string> absent;
  REQUIRE(part.open(&absent));
  const Metrics metrics = read_once(part);
  CHECK(value_of(metrics, MetricId::pressure_cpu_some_us) == 111);
  CHECK(value_of(metrics, MetricId::pressure_memory_some_us) == 22);
  CHECK(value_of(metrics, MetricId::pressure_memory_full_us) == 33);
  CHECK(value_of(metrics, MetricId::pressure_io_full_us) == 55);
  CHECK(value_of(metrics, MetricId::host_load_per_mille) == 3000 / sysconf(_SC_NPROCESSORS_ONLN));
  CHECK(value_of(metrics, MetricId::host_memory_available_bytes) == 512000);
  CHECK(value_of(metrics, MetricId::host_runnable_tasks) == 4);
  CHECK(value_of(metrics, MetricId::host_processors) == sysconf(_SC_NPROCESSORS_ONLN));
}

TEST_CASE("Ports of InfiniBand and interfaces: state, rate and counters in bytes; loopback is none") {
  FakeTree tree;
  const std::string port = "/sys/class/infiniband/mlx5_0/ports/1";
  tree.put(port + "/state", "4: ACTIVE\n");
  tree.put(port + "/rate", "100 Gb/sec (4X EDR)\n");
  tree.put(port + "/counters/port_xmit_data", "250\n");
  tree.put(port + "/counters/link_downed", "2\n");
  tree.put(port + "/hw_counters/out_of_sequence", "9\n");
  tree.put("/sys/class/net/lo/operstate", "unknown\n");
  tree.put("/sys/class/net/eth0/operstate", "up\n");
  tree.put("/sys/class/net/eth0/speed", "25000\n");
  tree.put("/sys/class/net/eth0/statistics/rx_bytes", "77\n");
  tree.put("/sys/class/net/eth1/operstate", "down\n");
  tree.put("/sys/class/net/eth1/speed", "-1\n");
  PortPart part(tree.roots());
  std::vector<std::string> absent;
  REQUIRE(part.open(&absent));
  CHECK(absent.empty());
  Metrics metrics = read_once(part);
  CHECK(value_of(metrics, MetricId::port_state, "mlx5_0:1") == 4);
  CHECK(value_of(metrics, MetricId::port_rate_mbps, "mlx5_0:1") == 100000);
  CHECK(value_of(metrics, MetricId::port_sent_bytes, "mlx5_0:1") == 1000);
  CHECK(value_of(metrics, MetricId::port_link_downed, "mlx5_0:1") == 2);
  CHECK(value_of(metrics, MetricId::port_out_of_sequence, "mlx5_0:1") == 9);
  CHECK_FALSE(value_of(metrics, MetricId::port_symbol_errors, "mlx5_0:1"));
  CHECK(value_of(metrics, MetricId::port_state, "eth0") == 4);
  CHECK(value_of(metrics, MetricId::port_rate_mbps, "eth0") == 25000);
  CHECK(value_of(metrics, MetricId::port_received_bytes, "eth0") == 77);
  CHECK(value_of(metrics, MetricId::port_state, "eth1") == 1);
  CHECK_FALSE(value_of(metrics, MetricId::port_rate_mbps, "eth1"));
  CHECK_FALSE(value_of(metrics, MetricId::port_state, "lo"));
  // A port that goes down is seen at the next look, one that appears within a minute.
  tree.put(port + "/state", "1: DOWN\n");
  tree.put("/sys/class/net/eth2/operstate", "up\n");
  metrics = read_once(part, 2);
  CHECK(value_of(metrics, MetricId::port_state, "mlx5_0:1") == 1);
  CHECK_FALSE(value_of(metrics, MetricId::port_state, "eth2"));
  metrics = read_once(part, 2 + 2 * PortPart::list_again_ns);
  CHECK(value_of(metrics, MetricId::port_state, "eth2") == 4);
}

TEST_CASE("Ports of hardware are looked at before virtual ones, whatever they are called") {
  FakeTree tree;
  const auto device = [&tree](const std::string& name) {
    tree.put("/sys/class/infiniband/" + name + "/device/vendor", "0x15b3\n");
    tree.put("/sys/class/infiniband/" + name + "/ports/1/state", "4: ACTIVE\n");
  };
  const auto interface = [&tree](const std::string& name) {
    tree.put("/sys/class/net/" + name + "/operstate", "up\n");
  };
  for (int i = 0; i < 18; ++i) device("mlx5_" + std::to_string(i));
  device("mlx5_100");
  tree.put("/sys/class/infiniband/mlx5_100/device/physfn", "");
  for (int i = 0; i < 20; ++i) interface("cali" + std::to_string(i));
  interface("eth0");
  tree.put("/sys/class/net/eth0/device/vendor", "0x15b3\n");
  PortPart part(tree.roots());
  std::vector<std::string> absent;
  SECTION("those of hardware have room") {
    REQUIRE(part.open(&absent));
    CHECK(absent.empty());
    const Metrics metrics = read_once(part);
    for (int i = 0; i < 18; ++i)
      CHECK(value_of(metrics, MetricId::port_state, ("mlx5_" + std::to_string(i) + ":1").c_str()) == 4);
    CHECK(value_of(metrics, MetricId::port_state, "eth0") == 4);
    CHECK_FALSE(value_of(metrics, MetricId::port_state, "mlx5_100:1"));
    CHECK_FALSE(value_of(metrics, MetricId::port_state, "cali0"));
  }
  SECTION("and those that have none are counted") {
    for (int i = 18; i < 50; ++i) device("mlx5_" + std::to_string(i));
    REQUIRE(part.open(&absent));
    CHECK(absent == std::vector<std::string>{"3 network ports beyond the first 48"});
  }
}

TEST_CASE("Every source that does not exist is named once, and nothing is said of it") {
  FakeTree tree;
  std::vector<std::string> absent;
  SystemClock clock;
  Sampler sampler({}, clock);
  sampler.add(std::make_unique<ProcessPart>(tree.roots()), false, &absent);
  sampler.add(std::make_unique<ThreadsPart>(tree.roots()), false, &absent);
  sampler.add(std::make_unique<CgroupPart>(tree.roots()), false, &absent);
  sampler.add(std::make_unique<HostPart>(tree.roots()), true, &absent);
  sampler.add(std::make_unique<PortPart>(tree.roots()), true, &absent);
  CHECK(absent.size() == 9);
  sampler.tick(true);
  CHECK(sampler.values().empty());
  CHECK(sampler.source_count() == 0);
}

// ---- GPUs ----------------------------------------------------------------------------------------------------------

struct FakeNvml {
  unsigned xids_waiting = 0;
  bool power_supported = true;
} nvml;

NvmlFunctions fake_nvml() {
  nvml = FakeNvml{};
  NvmlFunctions f;
  f.init = [] { return 0; };
  f.device_count = [](unsigned* count) { return *count = 2, 0; };
  f.device_by_index = [](unsigned index, void** device) {
    return *device = reinterpret_cast<void*>(uintptr_t{index + 1}), 0;
  };
  f.pci_info = [](void* device, NvmlFunctions::Pci* pci) {
    pci->domain = 0;
    pci->bus = 0x10 * static_cast<unsigned>(reinterpret_cast<uintptr_t>(device));
    pci->device = 0;
    return 0;
  };
  f.clock = [](void*, unsigned kind, unsigned* mhz) { return *mhz = kind == NvmlFunctions::clock_sm ? 1410 : 1593, 0; };
  f.throttle_reasons = [](void*, unsigned long long* reasons) { return *reasons = 0x40, 0; };
  f.power = [](void*, unsigned* mw) { return *mw = 350000, nvml.power_supported ? 0 : 3; };
  f.utilization = [](void*, unsigned* use) { return use[0] = 97, use[1] = 40, 0; };
  f.event_set_create = [](void** set) { return *set = &nvml, 0; };
  f.register_events = [](void* device, unsigned long long, void*) {
    return reinterpret_cast<uintptr_t>(device) == 2 ? 0 : 3;
  };
  f.event_set_wait = [](void*, NvmlFunctions::Event* event, unsigned timeout_ms) {
    if (timeout_ms != 0 || nvml.xids_waiting == 0) return 10;
    --nvml.xids_waiting;
    event->device = reinterpret_cast<void*>(uintptr_t{2});
    event->type = NvmlFunctions::event_xid;
    event->data = 79;
    return 0;
  };
  return f;
}

TEST_CASE("GPUs: what NVML says of each, by bus id, and its XIDs counted as they come") {
  const NvmlFunctions functions = fake_nvml();
  GpuPart part(&functions);
  std::vector<std::string> absent;
  REQUIRE(part.open(&absent));
  CHECK(part.source_count() == 2);
  Metrics metrics = read_once(part);
  CHECK(value_of(metrics, MetricId::gpu_sm_clock_mhz, "0000:10:00.0") == 1410);
  CHECK(value_of(metrics, MetricId::gpu_memory_clock_mhz, "0000:20:00.0") == 1593);
  CHECK(value_of(metrics, MetricId::gpu_throttle_reasons, "0000:10:00.0") == 0x40);
  CHECK(value_of(metrics, MetricId::gpu_power_mw, "0000:10:00.0") == 350000);
  CHECK(value_of(metrics, MetricId::gpu_utilization_percent, "0000:10:00.0") == 97);
  CHECK_FALSE(value_of(metrics, MetricId::gpu_temperature_c, "0000:10:00.0"));  // this NVML cannot say
  CHECK_FALSE(value_of(metrics, MetricId::gpu_xid_count, "0000:10:00.0"));
  CHECK(value_of(metrics, MetricId::gpu_xid_count, "0000:20:00.0") == 0);
  nvml.xids_waiting = 3;
  nvml.power_supported = false;
  metrics = read_once(part);
  CHECK(value_of(metrics, MetricId::gpu_xid_count, "0000:20:00.0") == 3);
  CHECK(value_of(metrics, MetricId::gpu_xid_last, "0000:20:00.0") == 79);
  CHECK_FALSE(value_of(metrics, MetricId::gpu_power_mw, "0000:10:00.0"));
}

// ---- the sampler ---------------------------------------------------------------------------------------------------

class FakeClock final : public Clock {
 public:
  Instant now() const override { return {now_ns, 0}; }
  uint64_t thread_cpu_ns() const override { return cpu_ns; }
  uint64_t now_ns = ns_per_s;
  uint64_t cpu_ns = 0;
};

class CostlyPart final : public HealthPart {
 public:
  CostlyPart(FakeClock* clock, uint64_t cost_ns, unsigned* reads) : clock_(clock), cost_ns_(cost_ns), reads_(reads) {}
  bool open(std::vector<std::string>*) override { return true; }
  void read(Instant, Metrics* out) override {
    clock_->cpu_ns += cost_ns_;
    ++*reads_;
    add_metric(out, MetricId::host_load_per_mille, static_cast<int64_t>(*reads_));
  }
  unsigned source_count() const override { return 1; }

 private:
  FakeClock* clock_;
  uint64_t cost_ns_;
  unsigned* reads_;
};

TEST_CASE("A cheap part is read every second, a costly one as often as its share allows") {
  FakeClock clock;
  unsigned cheap = 0, costly = 0;
  Sampler sampler({}, clock);
  std::vector<std::string> absent;
  sampler.add(std::make_unique<CostlyPart>(&clock, 10000, &cheap), false, &absent);
  sampler.add(std::make_unique<CostlyPart>(&clock, 2000000, &costly), false, &absent);
  constexpr unsigned seconds = 1000, ticks_per_s = 100;
  for (unsigned i = 0; i < seconds * ticks_per_s; ++i) {
    sampler.tick(false);
    clock.now_ns += ns_per_s / ticks_per_s;
  }
  CHECK(cheap >= seconds * 97 / 100);
  CHECK(cheap <= seconds * 103 / 100);
  CHECK(costly >= 10);  // 2 ms every 100 s
  CHECK(costly <= 11);
  CHECK(clock.cpu_ns < seconds * (ns_per_s / 1000000) * 40);
}

TEST_CASE("What comes and goes in a rhythm that divides the period is not met at the same point of it each time") {
  FakeClock clock;
  unsigned reads = 0;
  Sampler sampler({}, clock);
  std::vector<std::string> absent;
  sampler.add(std::make_unique<CostlyPart>(&clock, 10000, &reads), false, &absent);
  constexpr uint64_t rhythm_ns = 50 * ns_per_ms;
  constexpr unsigned parts = 5;
  std::array<unsigned, parts> met{};
  for (unsigned i = 0; i < 100; ++i) {
    const uint64_t before_ns = clock.now_ns;
    REQUIRE(sampler.tick(false));
    ++met[clock.now_ns % rhythm_ns * parts / rhythm_ns];
    clock.now_ns = sampler.next_due_ns();
    REQUIRE(clock.now_ns - before_ns >= ns_per_s * 7 / 8);
    REQUIRE(clock.now_ns - before_ns <= ns_per_s * 9 / 8);
  }
  for (unsigned part : met) CHECK(part >= 5);
}

TEST_CASE("What concerns the host is read only by the process that speaks for it") {
  FakeClock clock;
  unsigned reads = 0;
  Sampler sampler({}, clock);
  std::vector<std::string> absent;
  sampler.add(std::make_unique<CostlyPart>(&clock, 1, &reads), true, &absent);
  CHECK_FALSE(sampler.tick(false));
  CHECK(sampler.values().empty());
  clock.now_ns += 2 * ns_per_s;
  CHECK(sampler.tick(true));
  CHECK(sampler.values().size() == 1);
  clock.now_ns += 2 * ns_per_s;
  CHECK(sampler.tick(false));  // another process took over: old values are not repeated
  CHECK(sampler.values().empty());
  CHECK(reads == 1);
}

// The file of this process, which lives, as others see it.
class Neighbourhood {
 public:
  Neighbourhood() {
    std::string error;
    file_ = process_file_create({folder_.path(), "job", "host"}, &error);
    REQUIRE(!file_->path.empty());
  }
  ~Neighbourhood() { process_file_release(file_); }
  NeighbourOptions seen_by(uint32_t pid) const {
    return {folder_.path(), {pid, process_identity().name.pid_namespace}, process_identity().boot_id, 10 * ns_per_s};
  }
  uint32_t pid() const { return file_->header->identity.pid; }
  ProcessFile* file() { return file_; }
  size_t files() const { return folder_.file_names().size(); }

 private:
  TemporaryFolder folder_;
  ProcessFile* file_ = nullptr;
};

TEST_CASE("The living process with the lowest id speaks for the host") {
  Neighbourhood there;
  CHECK(Neighbours(there.seen_by(there.pid())).look(1));
  CHECK(Neighbours(there.seen_by(there.pid() - 1)).look(1));
  CHECK_FALSE(Neighbours(there.seen_by(there.pid() + 1)).look(1));
  NeighbourOptions elsewhere = there.seen_by(there.pid() + 1);
  elsewhere.boot_id = "another machine";
  CHECK(Neighbours(elsewhere).look(1));
  NeighbourOptions contained = there.seen_by(there.pid() + 1);
  contained.own.pid_namespace += 1;  // it does not see the other one
  CHECK(Neighbours(contained).look(1));
  there.file()->header->identity.pid_start_ticks -= 1;  // left behind by one that is gone
  CHECK(Neighbours(there.seen_by(there.pid() + 1)).look(1));
  CHECK(Neighbours({"/proc/no-such-folder", {7, 0}, "", 0}).look(1));
}

TEST_CASE("A file of another user keeps nobody from speaking for the host, whichever process it names") {
  if (geteuid() != 0) return;  // only root makes files of others
  Neighbourhood there;
  REQUIRE_FALSE(Neighbours(there.seen_by(there.pid() + 1)).look(1));
  constexpr uid_t somebody = 12345;
  REQUIRE(chown(there.file()->path.c_str(), somebody, somebody) == 0);
  CHECK(Neighbours(there.seen_by(there.pid() + 1)).look(1));
}

TEST_CASE("The file of a process that is gone is removed, but only once its counters have rested for long") {
  Neighbourhood there;
  Neighbours neighbours(there.seen_by(there.pid() + 1));
  neighbours.look(1);
  neighbours.look(100 * ns_per_s);
  CHECK(there.files() == 1);  // it lives
  there.file()->header->identity.pid_start_ticks -= 1;
  neighbours.look(200 * ns_per_s);
  neighbours.look(209 * ns_per_s);
  CHECK(there.files() == 1);
  metric_add(there.file(), MetricId::agent_samples, 1);  // it is in another pid namespace
  neighbours.look(211 * ns_per_s);
  neighbours.look(220 * ns_per_s);
  CHECK(there.files() == 1);
  neighbours.look(222 * ns_per_s);
  CHECK(there.files() == 0);
}

// ---- the thread ----------------------------------------------------------------------------------------------------

TEST_CASE("The health thread starts with the first question, answers later ones, and ends when told") {
  FakeTree tree;
  tree.put("/proc/self/stat", stat_line);
  TemporaryFolder frames;
  std::string error;
  ProcessFile* file = process_file_create({"/proc/no-such-folder", "job", "host"}, &error);
  HealthThread::Options options;
  options.roots = tree.roots();
  options.frames_dir = frames.path();
  options.period_ns = ns_per_ms;
  auto* thread = new HealthThread(options, file);
  SystemClock clock;
  std::vector<Message> messages;
  for (int i = 0; i < 20000 && messages.empty(); ++i) {
    thread->collect(clock.now(), &messages);
    usleep(500);
  }
  REQUIRE(!messages.empty());
  const Metrics metrics = std::get<MetricsMessage>(messages[0]).metrics;
  CHECK(value_of(metrics, MetricId::process_major_faults) == 17);
  CHECK(metric_get(file, MetricId::health_sources) >= 1);
  CHECK(metric_get(file, MetricId::health_cpu_ns) > 0);
  CHECK(thread->stop(2000));
  messages.clear();
  thread->collect(clock.now(), &messages);
  CHECK(messages.empty());
  CHECK(thread->stop(1));
  delete thread;
  process_file_release(file);
}

}  // namespace
}  // namespace ccld::probe
