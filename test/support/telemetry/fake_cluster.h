// A scripted training job: processes on nodes, communicators over them, rounds that complete and operations that hang.
// It tells an Analyzer what real agents would tell, under a simulated clock, through a channel that may lose, repeat,
// delay and reorder.
//
//   Cluster cluster(settings, options);
//   Comm& comm = cluster.add_comm({0, 1, 2, 3});
//   comm.rounds(100);
//   comm.hang(plan);
//   cluster.run_s(10);
//   cluster.incidents();
//
// Seeded: equal options give equal telemetry.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "decision/analyzer.h"
#include "decision/measure/edges.h"
#include "test/support/telemetry/fake_steps.h"

namespace ccld::fake {

using namespace ccld::decision;

// Where a step may be between the sending and the receiving GPU.
enum class Stage : uint8_t {
  sender_proxy,    // posted by the sender's GPU, not yet handed to the network
  sender_nic,      // handed to the network, which has not said sent
  wire,            // said sent, not yet arrived
  receiver_proxy,  // arrived, not yet handed to the receiver's GPU
  receiver_gpu,    // handed to the receiver's GPU, not yet consumed
  gpu_to_gpu,      // no proxy between: posted by one GPU, not yet consumed by the other
};

struct ClusterOptions {
  int processes = 8;
  int processes_per_node = 4;
  uint64_t seed = 1;
  double loss = 0, duplicates = 0;  // probability for each batch
  Nanoseconds delay_max_ns = 0;     // extra delay of a batch, uniform; batches overtake each other
  bool reads_frames = false;        // siblings say what the frames of stopped and lost processes say
  int processes_per_job = 0;        // 0: all are of one
  std::string job = "job";          // its name, with a number if there are several
};

Signature all_reduce(uint64_t count = 1 << 16, abi::Algorithm algorithm = abi::Algorithm::ring);

// What a completed round looks like; every function may be left as it is.
struct RoundShape {
  Signature signature = all_reduce();
  Nanoseconds comm_ns = 4 * ns_per_ms;                       // from the last start to the end
  Nanoseconds jitter_ns = 200'000;                           // of gaps and durations
  std::function<Nanoseconds(int rank, uint64_t op)> gap_ns;  // default 10 ms; since the end of the process's last
                                                             // operation, of whatever communicator, on its slowest rank
  std::function<Signature(int rank, uint64_t op)> signature_of;  // default `signature`
  std::function<Nanoseconds(int rank, uint64_t op)> early_ns;    // by how much it leaves before the last one; default 0
  std::set<int> host_late;                                 // ranks whose extra gap is before the launch, not after it
  Nanoseconds ahead_ns = 0;                                // by how much earlier all hosts launch: kernels queue
  std::map<std::pair<Edge, Stage>, Nanoseconds> stage_ns;  // mean residency where it is not the usual one; channel 0
  // In which the proxy of an end had work and did not look.
  std::map<std::pair<Edge, abi::Direction>, Nanoseconds> away_ns;
  bool links = true;  // rows of link stages
  bool barrier = false;
};

struct HangPlan {
  Signature signature = all_reduce();
  std::function<Signature(int rank)> signature_of;
  std::set<int> not_called, called_only, launched_only;  // ranks that do not get to run the kernel
  std::map<int, Breakage> channels;                      // what is broken, by channel
  int loops = 28;                                        // steps of each edge
  std::set<int> proxy_stuck;                             // ranks whose proxy stands still
  std::set<int> nic_stuck;                               // ranks whose network device takes nothing more
  bool vague_waits = false;                              // LL: only that a group polls is known
  uint8_t signals = signals_default;                     // what is measured of the operation
  uint32_t replay = 0;                                   // != 0: it is a replay of the newest operation
  std::set<int> stopped_probes;                          // ranks whose probe an operator has stopped
};

class Cluster;

class Comm {
 public:
  Comm(Cluster&, uint64_t uid, std::vector<int> processes, abi::Algorithm, int channels);

  void announce();
  void rounds(int count, const RoundShape& = {});
  // The next operation hangs; nothing more happens on its own.
  void hang(const HangPlan&);
  // The operation that hangs gets on, and hangs anew.
  void hang_further(const HangPlan&);
  // The operation that hangs completes everywhere.
  void recover();
  // Calls without completion: further operations pile up.
  void leave(int rank, abi::CommState = abi::CommState::destroyed);
  void set_first_step(uint32_t step) { first_step_ = step; }

  CommUid uid() const { return uid_; }
  uint64_t op() const { return op_; }
  int ranks() const { return static_cast<int>(processes_.size()); }
  Topology topology() const;

 private:
  friend class Cluster;
  struct RankState {
    uint64_t entered = 0, launched = 0, completed = 0, movement = 0;
    bool begun = false, left = false;
    Nanoseconds moved_ns = 0, entered_ns = 0;
    uint64_t device_offset_ns = 0;
    std::vector<Round> rounds;
    std::vector<LinkStages> links;
  };
  InFlight snapshot(int rank) const;
  LastOperations last_operations(int rank) const;
  void add_links(uint64_t op, const RoundShape&, Nanoseconds duration_ns);
  Signature signature_at(int rank) const {
    return plan_ && plan_->signature_of ? plan_->signature_of(rank) : plan_ ? plan_->signature : Signature{};
  }

  Cluster& cluster_;
  CommUid uid_;
  std::vector<int> processes_;  // by rank
  abi::Algorithm algorithm_;
  int channels_;
  uint64_t op_ = 0;
  uint32_t first_step_ = 1000;
  std::vector<RankState> ranks_;
  std::optional<HangPlan> plan_;
  std::map<int, std::vector<FakeChannel>> steps_;  // by channel
  Nanoseconds hung_ns_ = 0;
};

class Cluster {
 public:
  explicit Cluster(const Settings& = {}, const ClusterOptions& = {});

  Comm& add_comm(std::vector<int> processes, abi::Algorithm = abi::Algorithm::ring, int channels = 2);
  Comm& add_comm_of_all(abi::Algorithm = abi::Algorithm::ring, int channels = 2);
  // These processes, by rank, sit being initialized of a communicator of so many ranks, until end_initialization().
  void make(uint64_t comm_hash, int rank_count, std::map<int, int> processes);
  void end_initialization(uint64_t comm_hash) { initializations_.erase(comm_hash); }

  // Time passes; agents report; the analyzer looks ten times a second.
  void run_ns(Nanoseconds);
  void run_s(double seconds) { run_ns(static_cast<Nanoseconds>(seconds * 1e9)); }

  void stop_process(int process) { state_of(process, 'T'); }
  void kill_process(int process) { state_of(process, 'X'); }
  void continue_process(int process) { state_of(process, 'S'); }
  void silence_process(int process) { processes_[process].silent = true; }
  void silence_all() {
    for (auto& p : processes_) p.silent = true;
  }
  // Its telemetry breaks off while training goes on: batches are lost.
  void lose_telemetry(int process, bool lost) { processes_[process].lost = lost; }
  // What it reports besides rounds and snapshots.
  void send(int process, std::vector<Payload>);

  Analyzer& analyzer() { return analyzer_; }
  Nanoseconds now_ns() const { return now_ns_; }
  const std::vector<Incident>& reported() const { return reported_; }  // every line, in order
  std::vector<Incident> incidents() const { return analyzer_.incidents(); }
  std::vector<Incident> open_incidents() const;

 private:
  friend class Comm;
  struct Process {
    ProcessId id;
    char state = 'S';
    bool silent = false, lost = false;
    Nanoseconds state_ns = 0;
    uint64_t batch_seq = 0;
    uint64_t monotonic_offset_ns = 0;  // of its machine
    int64_t realtime_offset_ns = 0;
    Nanoseconds heartbeat_ns = 0, flush_ns = 0;
    Nanoseconds free_ns = 0;  // end of its last operation
    std::vector<Payload> outbox;
    bool talks() const { return state == 'S' && !silent; }
  };
  struct Pending {
    Nanoseconds at_ns;
    Batch batch;
  };
  void state_of(int process, char state);
  void pass(Nanoseconds);  // time in which ranks work
  void tick();
  void collect(int process);
  Nanoseconds jitter(Nanoseconds most) {
    return most <= 0 ? 0 : static_cast<Nanoseconds>(random_() % static_cast<uint64_t>(most));
  }
  bool chance(double p) { return p > 0 && static_cast<double>(random_() % 1'000'000) < p * 1e6; }

  ClusterOptions options_;
  Analyzer analyzer_;
  std::mt19937_64 random_;
  Nanoseconds now_ns_ = 1000 * ns_per_s;
  Nanoseconds ticked_ns_ = now_ns_, idle_ns_ = now_ns_;
  std::vector<Process> processes_;
  std::vector<std::unique_ptr<Comm>> comms_;
  struct Makers {
    int rank_count;
    std::map<int, int> processes;  // by rank
    Nanoseconds since_ns;
  };
  std::map<uint64_t, Makers> initializations_;
  std::vector<Pending> pending_;
  std::vector<Incident> reported_;
};

}  // namespace ccld::fake
