// One life of the diagnostic thread per case: it starts and ends with a process, so each case is a process. Exit status
// 0: as expected.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
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
#include "probe/agent/service_watch.h"
#include "probe/device/frame_writer_device.h"
#include "probe/frames/comm.h"
#include "probe/frames/doorbell.h"
#include "probe/frames/frame_file.h"
#include "probe/frames/recording.h"
#include "probe/probe.h"
#include "probe/process/process_file.h"
#include "probe/settings.h"
#include "schemas/wire/control_generated.h"
#include "schemas/wire/telemetry_generated.h"
#include "test/support/packing/unpacked.h"

// In the place of the C library's, to count.
namespace {
std::atomic<int> handlers_at_exit{0};
}
extern "C" int __cxa_atexit(void (*)(void*), void*, void*) noexcept;
extern "C" int atexit(void (*handler)()) noexcept {
  ++handlers_at_exit;
  return __cxa_atexit([](void* of_the_caller) { reinterpret_cast<void (*)()>(of_the_caller)(); },
                      reinterpret_cast<void*>(handler), nullptr);
}

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

// Written by the diagnostic thread, read by the case.
struct Warnings {
  void add(const char* line) {
    std::lock_guard<std::mutex> lock(mutex);
    lines.emplace_back(line);
  }
  std::vector<std::string> all() {
    std::lock_guard<std::mutex> lock(mutex);
    return lines;
  }
  std::mutex mutex;
  std::vector<std::string> lines;
};
Warnings& warnings() {
  static auto* const kept = new Warnings;  // never destroyed: the thread may outlive static objects
  return *kept;
}
std::string folder;

void make_folder() {
  char name[] = "/tmp/ccld-probe-process-XXXXXX";
  EXPECT(mkdtemp(name) != nullptr);
  folder = name;
  setenv("NCCL_PROBE_FRAMES_DIR", name, 1);
}

size_t files_left(const std::string& ending) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    count += name.size() >= ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
  }
  return count;
}
size_t frames_left() { return files_left(".frame"); }

uint64_t samples_of(const Comm* comm) { return __atomic_load_n(&comm->header->agent.samples, __ATOMIC_RELAXED); }

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
    if (level == LogLevel::warning) warnings().add(line);
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
  Plan plan;
  uint32_t run;
};

Operation_ launch(Comm* comm) {
  Operation_ o{
      operation_entered(comm, {abi::Function::all_reduce, abi::Datatype::float32, abi::Reduction::sum, 0, -1, 1024}),
      plan_begins(comm, false), 0};
  o.run = o.plan.token;  // one kernel after the other, all on both channels
  PlanShape shape{};
  shape.algorithm = abi::Algorithm::ring;
  shape.protocol = abi::Protocol::simple;
  shape.channel_count = 2;
  shape.channel_mask = 3;
  shape.signals = abi::signal_times | abi::signal_steps | abi::signal_waits;
  operation_planned(comm, o.op_seq, o.plan, shape);
  plan_launched(comm, o.plan, true);
  return o;
}

void begin(Comm* comm, const Operation_& o) {
  for (unsigned c = 0; c < 2; ++c) {
    device::round_begins(comm->channels + c, o.run, o.plan.token, now_ns());
    device::lane_opens(comm->channels + c, device::direction_send, 0, 0, o.run, 0,
                       device::pack_peer_and_warps(1, 0, 4));
    device::lane_opens(comm->channels + c, device::direction_recv, 0, 0, o.run, 0,
                       device::pack_peer_and_warps(1, 0, 4));
  }
}

void end(Comm* comm, const Operation_& o, uint32_t steps = 0) {
  static std::map<const Comm*, uint32_t> totals;  // of channel 0
  const uint32_t total = totals[comm] += steps;
  for (unsigned c = 0; c < 2; ++c) {
    const uint64_t begin_ns = device::round_of(comm->channels + c, o.run).begin_device_ns;
    device::round_ends(comm->channels + c, o.run, 0, c == 0 ? total : 0, 0, 0, now_ns() - begin_ns);
  }
}

uint64_t completed(const Comm* comm) {
  return __atomic_load_n(&comm->header->agent.completed_op_seq, __ATOMIC_ACQUIRE);
}

class Service {
 public:
  explicit Service(uint64_t port = 0) {
    const int timeout_ms = 20000;
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    const std::string at = "tcp://127.0.0.1:" + (port == 0 ? std::string("*") : std::to_string(port));
    EXPECT(zmq_bind(socket_, at.c_str()) == 0);
    char text[128];
    size_t size = sizeof text;
    EXPECT(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text, &size) == 0);
    setenv("NCCL_PROBE_ENDPOINT", text, 1);
  }
  void close() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  void ask(const flatbuffers::FlatBufferBuilder& request) {
    EXPECT(zmq_send(socket_, sender.data(), sender.size(), ZMQ_SNDMORE) >= 0);
    EXPECT(zmq_send(socket_, request.GetBufferPointer(), request.GetSize(), 0) >= 0);
  }
  void acknowledge(const wire::Batch& batch) {
    flatbuffers::FlatBufferBuilder builder;
    const auto what = wire::CreateAcknowledgement(builder, 1, batch.batch_seq(), batches);
    wire::ControlRequestBuilder message(builder);
    message.add_acknowledgement(what);
    wire::FinishControlRequestBuffer(builder, message.Finish());
    ask(builder);
  }
  // Counts payloads by kind until one of that kind has come.
  void wait_for(wire::Payload kind) {
    while (seen[kind] == 0) {
      zmq_msg_t message;
      zmq_msg_init(&message);
      EXPECT(zmq_msg_recv(&message, socket_, 0) >= 0);
      sender.assign(static_cast<const char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
      EXPECT(zmq_msg_recv(&message, socket_, 0) >= 0);
      const auto* bytes = static_cast<const uint8_t*>(zmq_msg_data(&message));
      flatbuffers::Verifier verifier(bytes, zmq_msg_size(&message));
      EXPECT(wire::VerifyBatchBuffer(verifier));
      const wire::Batch* batch = wire::GetBatch(bytes);
      EXPECT(batch->batch_seq() == ++batches);
      EXPECT(batch->pid() == static_cast<uint32_t>(getpid()));
      if (batch->acknowledge()) acknowledge(*batch);
      for (const wire::Message* m : *batch->messages()) {
        ++seen[m->payload_type()];
        if (const auto* c = m->payload_as_ControlState()) running = c->running();
        if (const auto* r = m->payload_as_RoundGroups())
          for (const auto& calls : test::calls_of(*r)) {
            rounds += calls.rows.size();
            steps += calls.rows.back().send_steps;
          }
      }
      zmq_msg_close(&message);
    }
  }
  std::map<wire::Payload, int> seen;
  uint64_t batches = 0, rounds = 0, steps = 0;
  bool running = true;
  std::string sender;

 private:
  void* context_ = zmq_ctx_new();
  void* socket_ = zmq_socket(context_, ZMQ_ROUTER);
};

// ---- cases ---------------------------------------------------------------------------------------------------------

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
  end(comm, o, 7);
  service.wait_for(wire::Payload::RoundGroups);
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
  EXPECT(warnings().all().empty());
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
  const uint64_t started = now_ns();
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
  // On a busy machine all this may take longer than the service is given: then that is said, once.
  const bool may_be_said = now_ns() - started >= service_timeout_ns;
  EXPECT(warnings().all().size() <= (may_be_said ? 1 : 0));
}

// The service comes after the warning: what was measured before it came arrives, and the end of the trouble is said.
void service_comes_late() {
  uint64_t port = 0;
  {
    Service finds_a_port;
    port = std::stoull(std::string(getenv("NCCL_PROBE_ENDPOINT")).substr(strlen("tcp://127.0.0.1:")));
    finds_a_port.close();
  }
  Comm* comm = start_communicator();
  const Operation_ o = launch(comm);
  begin(comm, o);
  end(comm, o);
  EXPECT(eventually([&] { return completed(comm) == o.op_seq; }));
  EXPECT(eventually([] { return !warnings().all().empty(); }));
  EXPECT(warnings().all()[0].find("cannot be reached") != std::string::npos);
  Service service(port);
  service.wait_for(wire::Payload::RoundGroups);
  // The question that it answers comes with a heartbeat.
  for (int i = 0; i < 10 && warnings().all().size() < 2; ++i) {
    service.seen[wire::Payload::AgentHealth] = 0;
    service.wait_for(wire::Payload::AgentHealth);
  }
  EXPECT(eventually([] { return warnings().all().size() == 2; }));
  EXPECT(warnings().all()[1].find("is there") != std::string::npos);
  end_communicator(comm);
  EXPECT(warnings().all().size() == 2);
}

void one_warning_and_frames_work(const char* what) {
  Comm* comm = start_communicator();
  EXPECT(eventually([] { return !warnings().all().empty(); }));
  const Operation_ o = launch(comm);
  begin(comm, o);
  end(comm, o);
  EXPECT(eventually([&] { return completed(comm) == o.op_seq; }));
  end_communicator(comm);
  EXPECT(warnings().all().size() == 1);
  EXPECT(warnings().all()[0].find(what) != std::string::npos);
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

// Memory that waits for another communicator goes with the process that has it, not with a child.
void leaves_no_spare_file() {
  Comm* comm = start_communicator();
  comm_end(comm, abi::CommState::destroyed);
  EXPECT(frames_left() == 0 && files_left(".spare") == 1);
  EXPECT(comm_retire(comm) != nullptr);
  const pid_t child = fork();
  if (child == 0) std::exit(0);
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT(files_left(".spare") == 1);
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
struct Schedstat {
  uint64_t cpu_ns = 0, waited_ns = 0;  // ran; wanted to and had no processor
};
Schedstat schedstat_of(int tid) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/schedstat");
  Schedstat s;
  file >> s.cpu_ns >> s.waited_ns;
  return s;
}
uint64_t cpu_ns_of(int tid) { return schedstat_of(tid).cpu_ns; }

// It rests, and the next operation wakes it: noticed long before the rest would have ended.
void is_woken_from_rest() {
  setenv("NCCL_PROBE_ENDPOINT", "tcp://127.0.0.1:9", 1);
  Comm* comm = start_communicator();
  EXPECT(eventually([] { return doorbell_resting.load() != 0; }));
  const uint64_t before = samples_of(comm);
  const Operation_ o = launch(comm);
  begin(comm, o);
  end(comm, o);
  const uint64_t start = now_ns();
  EXPECT(eventually([&] { return completed(comm) == o.op_seq; }));
  std::printf("woken and read after %.3f ms, %llu samples\n", static_cast<double>(now_ns() - start) / 1e6,
              static_cast<unsigned long long>(samples_of(comm) - before));
  EXPECT(metric_get(process_file(), abi::MetricId::agent_samples) > 0);
  EXPECT(eventually([&] { return metric_get(process_file(), abi::MetricId::agent_wakeups) >= 1; }));
  end_communicator(comm);
}

// The service stops the probe and lets it go on.
void obeys_the_service() {
  Service service;
  Comm* comm = start_communicator();
  service.wait_for(wire::Payload::CommUp);
  for (const bool running : {false, true}) {
    flatbuffers::FlatBufferBuilder request;
    wire::FinishControlRequestBuffer(
        request,
        wire::CreateControlRequestDirect(request, running ? 2 : 1, abi::control_running, running, 0, 0, 0, ""));
    service.ask(request);
    service.seen[wire::Payload::ControlState] = 0;
    service.wait_for(wire::Payload::ControlState);
    EXPECT(service.running == running);
    EXPECT(recording() == running);
    if (!running)
      EXPECT(operation_entered(
                 comm, {abi::Function::all_reduce, abi::Datatype::float32, abi::Reduction::sum, 0, -1, 1024}) == 1);
  }
  const Operation_ o = launch(comm);
  EXPECT(o.op_seq == 2);
  begin(comm, o);
  end(comm, o);
  EXPECT(eventually([&] { return completed(comm) == 2; }));
  end_communicator(comm);
}

// The service sends it to another endpoint again and again: what ends with the process is said once.
void changes_endpoint_often() {
  Service service;
  Comm* comm = start_communicator();
  service.wait_for(wire::Payload::CommUp);
  const std::string one = getenv("NCCL_PROBE_ENDPOINT");
  const size_t colon = one.rfind(':');
  const std::string other = one.substr(0, colon + 1) + "0" + one.substr(colon + 1);  // the same port
  const int registered = handlers_at_exit;
  for (uint64_t i = 1; i <= 6; ++i) {
    flatbuffers::FlatBufferBuilder request;
    wire::FinishControlRequestBuffer(
        request, wire::CreateControlRequestDirect(request, i, abi::control_endpoint, false, 0, 0, 0,
                                                  (i % 2 != 0 ? other : one).c_str()));
    service.ask(request);
    for (const wire::Payload kind : {wire::Payload::ControlState, wire::Payload::CommUp}) {  // the latter over the new one
      service.seen[kind] = 0;
      service.wait_for(kind);
    }
  }
  EXPECT(handlers_at_exit == registered);
  end_communicator(comm);
}

// Prints what the thread costs at rest; only fails if it is far from nothing.
void idles_cheaply() {
  setenv("NCCL_PROBE_ENDPOINT", "tcp://127.0.0.1:9", 1);
  Comm* comm = start_communicator();
  EXPECT(eventually([] { return threads_named("ccld-probe").size() == 1; }));
  EXPECT(eventually([&] { return samples_of(comm) > 20; }));
  const int tid = threads_named("ccld-probe")[0];
  EXPECT(eventually([] { return doorbell_resting.load() != 0; }));
  const uint64_t cpu = cpu_ns_of(tid), time = now_ns(), samples = samples_of(comm);
  sleep(2);
  const double share = static_cast<double>(cpu_ns_of(tid) - cpu) / static_cast<double>(now_ns() - time);
  const uint64_t taken = samples_of(comm) - samples;
  std::printf("at rest: %.3f %% of a core, %.1f samples per second\n", 100 * share, static_cast<double>(taken) / 2);
  EXPECT(share < 0.005);
  EXPECT(taken <= 8);
  end_communicator(comm);
}

// The same with a kernel that moves all the time.
void notices_quickly_and_sleeps() {
  setenv("NCCL_PROBE_ENDPOINT", "tcp://127.0.0.1:9", 1);
  Comm* comm = start_communicator();
  EXPECT(eventually([] { return threads_named("ccld-probe").size() == 1; }));
  EXPECT(eventually([&] { return samples_of(comm) > 20; }));
  const int tid = threads_named("ccld-probe")[0];
  const Operation_ o = launch(comm);
  begin(comm, o);
  usleep(50000);
  const Schedstat before = schedstat_of(tid);
  const uint64_t time = now_ns(), samples = samples_of(comm);
  while (now_ns() - time < 2 * ns_per_s) {
    for (unsigned c = 0; c < 2; ++c)
      device::lane_posts(comm->channels + c, device::direction_send, 0, 0, (now_ns() - time) / 100000);
    usleep(300);
  }
  const double seconds = static_cast<double>(now_ns() - time) / 1e9;
  const Schedstat after = schedstat_of(tid);
  const double share = static_cast<double>(after.cpu_ns - before.cpu_ns) / 1e9 / seconds;
  const double awaited_s = static_cast<double>(after.waited_ns - before.waited_ns) / 1e9;  // for a processor
  const double rate = static_cast<double>(samples_of(comm) - samples) / std::max(seconds - awaited_s, 0.1);
  std::printf("in flight: %.2f %% of a core, %.0f samples per second\n", 100 * share, rate);
  EXPECT(rate > 20);  // a thousand where a pass is cheap: the budget decides
  EXPECT(rate < 1100);
  EXPECT(share < 0.05);
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
                                                   {"service_comes_late", service_comes_late},
                                                   {"wrong_setting", wrong_setting},
                                                   {"bad_endpoint", bad_endpoint},
                                                   {"survives_fork", survives_fork},
                                                   {"disabled", disabled},
                                                   {"leaves_no_spare_file", leaves_no_spare_file},
                                                   {"ends_in_static_destructor", ends_in_static_destructor},
                                                   {"is_woken_from_rest", is_woken_from_rest},
                                                   {"obeys_the_service", obeys_the_service},
                                                   {"changes_endpoint_often", changes_endpoint_often},
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
  const bool clean = files_left("") == 0;
  fs::remove_all(folder);
  if (!clean) std::fprintf(stderr, "a file was left behind\n");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 && clean ? 0 : 1;
}
