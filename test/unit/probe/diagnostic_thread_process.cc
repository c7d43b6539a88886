// One life of the diagnostic thread per case: it starts and ends with a process, so each case is a process. Exit status
// 0: as expected.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zmq.h>

#include "probe/agent/clock.h"
#include "probe/device/frame_writer_device.h"
#include "probe/frames/comm.h"
#include "probe/frames/frame_file.h"
#include "probe/probe.h"
#include "probe/settings.h"
#include "schemas/wire/telemetry_generated.h"
#include "test/unit/probe/tsan_suppressions.h"

namespace ccld::probe {
namespace {

namespace fs = std::filesystem;

#define EXPECT(condition)                                                            \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::_Exit(1);                                                                 \
    }                                                                                \
  } while (false)

std::vector<std::string> warnings;
std::string folder;

void make_folder() {
  char name[] = "/tmp/ccld-probe-process-XXXXXX";
  EXPECT(mkdtemp(name) != nullptr);
  folder = name;
  setenv("NCCL_PROBE_FRAMES_DIR", name, 1);
}

size_t frames_left() {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

uint64_t now_ns() { return SystemClock().now().monotonic_ns; }

// Waits for an event with a generous limit; polling is for states that nobody signals.
template <class Condition>
bool eventually(Condition condition, uint64_t limit_ms = 20000) {
  const uint64_t end = now_ns() + limit_ms * ns_per_ms;
  while (!condition()) {
    if (now_ns() > end) return false;
    usleep(1000);
  }
  return true;
}

// Tasks of this process with that name.
std::vector<int> threads_named(const std::string& wanted) {
  std::vector<int> result;
  for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "comm");
    std::string name;
    std::getline(file, name);
    if (name == wanted) result.push_back(std::stoi(entry.path().filename()));
  }
  return result;
}

Comm* start_communicator(uint64_t uid = 5) {
  set_log([](LogLevel level, const char* line) {
    if (level == LogLevel::warning) warnings.push_back(line);
  });
  Comm* comm = comm_create({0, 2, 0, 2, 22907});
  EXPECT(comm != nullptr);
  CommIdentity identity{};
  identity.comm_uid = uid;
  identity.host = "node0";
  comm_ready(comm, identity);
  return comm;
}

void end_communicator(Comm* comm) {
  comm_end(comm, abi::CommState::destroyed);
  comm_release(comm);
}

struct Operation_ {
  uint64_t op_seq;
  uint32_t token;
};

Operation_ launch(Comm* comm) {
  const Operation_ o{
      operation_entered(comm, {abi::Function::all_reduce, abi::Datatype::float32, abi::Reduction::sum, 0, -1, 1024}),
      plan_begins(comm)};
  operation_planned(comm, o.op_seq, o.token, abi::Algorithm::ring, abi::Protocol::simple, 2, 3);
  plan_launched(comm, o.token, true);
  return o;
}

void begin(Comm* comm, const Operation_& o) {
  for (unsigned c = 0; c < 2; ++c) {
    device::round_begins(comm->channels + c, o.token, now_ns());
    device::lane_opens(comm->channels + c, device::direction_send, 0, 0, o.token, 0,
                       device::pack_peer_and_warps(1, 0, 4));
    device::lane_opens(comm->channels + c, device::direction_recv, 0, 0, o.token, 0,
                       device::pack_peer_and_warps(1, 0, 4));
  }
}

void end(Comm* comm, const Operation_& o) {
  for (unsigned c = 0; c < 2; ++c) device::round_ends(comm->channels + c, o.token, 0, now_ns());
}

uint64_t completed(const Comm* comm) {
  return __atomic_load_n(&comm->header->agent.completed_op_seq, __ATOMIC_ACQUIRE);
}

class Service {
 public:
  Service() {
    const int timeout_ms = 20000;
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    EXPECT(zmq_bind(socket_, "tcp://127.0.0.1:*") == 0);
    char text[128];
    size_t size = sizeof text;
    EXPECT(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text, &size) == 0);
    setenv("NCCL_PROBE_ENDPOINT", text, 1);
  }
  // Counts payloads by kind until one of that kind has come.
  void wait_for(wire::Payload kind) {
    while (seen[kind] == 0) {
      zmq_msg_t message;
      zmq_msg_init(&message);
      EXPECT(zmq_msg_recv(&message, socket_, 0) >= 0);
      const auto* bytes = static_cast<const uint8_t*>(zmq_msg_data(&message));
      flatbuffers::Verifier verifier(bytes, zmq_msg_size(&message));
      EXPECT(wire::VerifyBatchBuffer(verifier));
      const wire::Batch* batch = wire::GetBatch(bytes);
      EXPECT(batch->batch_seq() == ++batches);
      EXPECT(batch->pid() == static_cast<uint32_t>(getpid()));
      for (const wire::Message* m : *batch->messages()) {
        ++seen[m->payload_type()];
        if (const auto* r = m->payload_as_Rounds()) {
          rounds += r->op_seq()->size();
          steps += r->send_steps()->Get(r->send_steps()->size() - 1);
        }
      }
      zmq_msg_close(&message);
    }
  }
  std::map<wire::Payload, int> seen;
  uint64_t batches = 0, rounds = 0, steps = 0;

 private:
  void* context_ = zmq_ctx_new();
  void* socket_ = zmq_socket(context_, ZMQ_PULL);
};

// ---- cases
// -------------------------------------------------------------------------------------------------------------

void runs_and_reports() {
  Service service;
  Comm* comm = start_communicator();
  // Named, and deaf to every signal that can be blocked.
  EXPECT(eventually([] { return threads_named("ccld-probe").size() == 1; }));
  std::ifstream status("/proc/self/task/" + std::to_string(threads_named("ccld-probe")[0]) + "/status");
  std::string line, blocked;
  while (std::getline(status, line))
    if (line.rfind("SigBlk:", 0) == 0) blocked = line.substr(8);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM, SIGPROF})
    EXPECT((std::stoull(blocked, nullptr, 16) >> (signal - 1) & 1) != 0);
  service.wait_for(wire::Payload::CommUp);
  service.wait_for(wire::Payload::InFlight);
  const Operation_ o = launch(comm);
  begin(comm, o);
  device::lane_posts(comm->channels, device::direction_send, 0, 0, 7);
  end(comm, o);
  service.wait_for(wire::Payload::Rounds);
  EXPECT(service.rounds == 1);
  EXPECT(service.steps == 7);
  service.wait_for(wire::Payload::AgentHealth);
  // A second communicator shares the thread.
  Comm* second = start_communicator(6);
  EXPECT(threads_named("ccld-probe").size() == 1);
  end_communicator(second);
  service.wait_for(wire::Payload::CommDown);
  end_communicator(comm);
  EXPECT(frames_left() == 0);
  EXPECT(warnings.empty());
}

void ends_without_being_told() {
  // Nobody ends the communicator; exit() does the rest (see main).
  static Comm* const comm = start_communicator();
  launch(comm);
  EXPECT(frames_left() == 1);
}

// A static object of the program that ends its communicator after everything else has ended.
struct LastOwner {
  Comm* comm = nullptr;
  ~LastOwner() {
    if (comm != nullptr) end_communicator(comm);
  }
};
LastOwner& last_owner() {
  static LastOwner owner;
  return owner;
}

void ends_in_static_destructor() {
  last_owner();  // constructed before the thread starts: destroyed after it has stopped
  last_owner().comm = start_communicator();
}

void no_service() {
  setenv("NCCL_PROBE_ENDPOINT", "tcp://127.0.0.1:9", 1);
  Comm* comm = start_communicator();
  for (int i = 0; i < 100; ++i) {
    const Operation_ o = launch(comm);
    begin(comm, o);
    end(comm, o);
    EXPECT(eventually([&] { return completed(comm) == o.op_seq; }));
  }
  const uint64_t before = now_ns();
  end_communicator(comm);
  EXPECT(now_ns() - before < 2 * ns_per_s);  // nobody waits for the service
  EXPECT(warnings.empty());
}

void one_warning_and_frames_work(const char* what) {
  Comm* comm = start_communicator();
  EXPECT(eventually([] { return !warnings.empty(); }));
  const Operation_ o = launch(comm);
  begin(comm, o);
  end(comm, o);
  EXPECT(eventually([&] { return completed(comm) == o.op_seq; }));
  end_communicator(comm);
  EXPECT(warnings.size() == 1);
  EXPECT(warnings[0].find(what) != std::string::npos);
}

void bad_endpoint() {
  setenv("NCCL_PROBE_ENDPOINT", "gopher://127.0.0.1:70", 1);
  one_warning_and_frames_work("NCCL_PROBE_ENDPOINT");
}

void wrong_setting() {
  setenv("NCCL_PROBE_ENDPOINT", "nonsense", 1);  // not even an endpoint: refused by the settings
  one_warning_and_frames_work("NCCL_PROBE_ENDPOINT=\"nonsense\"");
}

void survives_fork() {
  Comm* comm = start_communicator();
  EXPECT(eventually([] { return threads_named("ccld-probe").size() == 1; }));
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    // It has no thread, and ending its copies does not touch the parent's frame; exit() must not hang either.
    EXPECT(threads_named("ccld-probe").empty());
    comm_end(comm, abi::CommState::destroyed);
    std::exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT(frames_left() == 1);
  EXPECT(comm->header->state.state == static_cast<uint32_t>(abi::CommState::ready));
  const Operation_ o = launch(comm);
  begin(comm, o);
  end(comm, o);
  EXPECT(eventually([&] { return completed(comm) == o.op_seq; }));
  end_communicator(comm);
}

void disabled() {
  setenv("NCCL_PROBE_ENABLE", "0", 1);
  set_log(nullptr);
  EXPECT(!enabled());
  EXPECT(comm_create({0, 2, 0, 2, 22907}) == nullptr);
  comm_ready(nullptr, {});
  EXPECT(operation_entered(nullptr, {}) == 0);
  comm_end(nullptr, abi::CommState::destroyed);
  EXPECT(threads_named("ccld-probe").empty());
}

// Processor time of a thread.
uint64_t cpu_ns_of(int tid) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/schedstat");
  uint64_t ns = 0;
  file >> ns;
  return ns;
}

// Prints what the thread costs at rest; only fails if it is far from nothing.
void idles_cheaply() {
  setenv("NCCL_PROBE_ENDPOINT", "tcp://127.0.0.1:9", 1);
  Comm* comm = start_communicator();
  EXPECT(eventually([] { return threads_named("ccld-probe").size() == 1; }));
  EXPECT(eventually([&] { return __atomic_load_n(&comm->header->agent.samples, __ATOMIC_RELAXED) > 20; }));
  const int tid = threads_named("ccld-probe")[0];
  const uint64_t cpu = cpu_ns_of(tid), time = now_ns(), samples = comm->header->agent.samples;
  sleep(2);
  const double share = static_cast<double>(cpu_ns_of(tid) - cpu) / static_cast<double>(now_ns() - time);
  const uint64_t taken = comm->header->agent.samples - samples;
  std::printf("at rest: %.3f %% of a core, %.1f samples per second\n", 100 * share, static_cast<double>(taken) / 2);
  EXPECT(share < 0.02);
  EXPECT(taken <= 110);
  end_communicator(comm);
}

// The same with a kernel that moves all the time.
void notices_quickly_and_sleeps() {
  setenv("NCCL_PROBE_ENDPOINT", "tcp://127.0.0.1:9", 1);
  Comm* comm = start_communicator();
  EXPECT(eventually([] { return threads_named("ccld-probe").size() == 1; }));
  EXPECT(eventually([&] { return __atomic_load_n(&comm->header->agent.samples, __ATOMIC_RELAXED) > 20; }));
  const int tid = threads_named("ccld-probe")[0];
  const Operation_ o = launch(comm);
  begin(comm, o);
  usleep(50000);
  const uint64_t cpu = cpu_ns_of(tid), time = now_ns(), samples = comm->header->agent.samples;
  while (now_ns() - time < 2 * ns_per_s) {
    for (unsigned c = 0; c < 2; ++c)
      device::lane_posts(comm->channels + c, device::direction_send, 0, 0, (now_ns() - time) / 100000);
    usleep(300);
  }
  const double seconds = static_cast<double>(now_ns() - time) / 1e9;
  const double share = static_cast<double>(cpu_ns_of(tid) - cpu) / 1e9 / seconds;
  const double rate = static_cast<double>(comm->header->agent.samples - samples) / seconds;
  std::printf("in flight: %.2f %% of a core, %.0f samples per second\n", 100 * share, rate);
  EXPECT(rate > 50);  // a thousand on a machine that is not busy
  EXPECT(rate < 1100);
  EXPECT(share < 0.25);
  end(comm, o);
  EXPECT(eventually([&] { return completed(comm) == o.op_seq; }));
  end_communicator(comm);
}

}  // namespace
}  // namespace ccld::probe

int main(int argc, char** argv) {
  using namespace ccld::probe;
  const std::map<std::string, void (*)()> cases = {{"runs_and_reports", runs_and_reports},
                                                   {"ends_without_being_told", ends_without_being_told},
                                                   {"no_service", no_service},
                                                   {"wrong_setting", wrong_setting},
                                                   {"bad_endpoint", bad_endpoint},
                                                   {"survives_fork", survives_fork},
                                                   {"disabled", disabled},
                                                   {"ends_in_static_destructor", ends_in_static_destructor},
                                                   {"idles_cheaply", idles_cheaply},
                                                   {"notices_quickly_and_sleeps", notices_quickly_and_sleeps}};
  const auto found = cases.find(argc > 1 ? argv[1] : "");
  if (found == cases.end()) {
    for (const auto& [name, function] : cases) std::printf("%s\n", name.c_str());
    return 2;
  }
  make_folder();
  // The case runs in a child, so that what it leaves behind after its end can be looked at.
  const pid_t child = fork();
  if (child == 0) {
    alarm(40);
    found->second();
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const bool clean = frames_left() == 0;
  fs::remove_all(folder);
  if (!clean) std::fprintf(stderr, "a frame was left behind\n");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 && clean ? 0 : 1;
}
