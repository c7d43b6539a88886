// What `ccld frames` knows about one frame or process file after two looks at it; frames_text and frames_json print it.
// Threads: any. (Paper, section 5.1: the probing frame.)
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "decision/cli/local_processes.h"
#include "decision/report/text_format.h"
#include "schemas/abi/frame_reader.h"
#include "schemas/abi/process_build.h"
#include "schemas/abi/process_reader.h"

namespace ccld::decision::frames {

// A field of text, fit to be shown.
template <size_t N>
std::string text(const char (&field)[N]) {
  return report::printable(abi::FrameView::text(field));
}

struct LaneReport {
  abi::LaneObservation observation;
  bool moves = false;
  // A wait that the lane announced last, without a sign that it still goes on: its process is stopped or gone, or its
  // GPU is silent.
  bool announced_only = false;
};

struct ChannelReport {
  uint32_t channel = 0;
  uint32_t run = 0;  // of the kernel on this channel; 0: it has not begun there, or its row was overwritten
  bool begun = false, ended = false;
  uint32_t send_steps = 0, recv_steps = 0;
  bool overwritten = false;  // a newer kernel has taken lanes: the steps are incomplete
  std::vector<LaneReport> lanes;
};

struct ProxyReport {
  abi::ProxyRecord record{};
  bool moves = false;
  bool visited = false;
};

struct OperationReport {
  abi::OpRecord record{};
  uint32_t replay = 0;  // that runs or ran last; 0: none
  std::optional<double> enter_age_s, launch_age_s;
};

struct P2pReport {
  abi::P2pRecord record{};
  uint32_t replay = 0;
  bool begun = false;
  std::optional<double> enter_age_s, launch_age_s;
};

struct FrameReport {
  std::string path;
  abi::FrameIdentity identity{};
  abi::CommState state = abi::CommState::none;
  uint32_t hidden = 0;  // abi::Hidden
  ProcessState process = ProcessState::gone;
  uint64_t entered = 0, launched = 0, completed = 0;
  uint64_t entered_p2p = 0, launched_p2p = 0;
  uint64_t captured_plans = 0, unseen_while_stopped = 0, lapped_rounds = 0, agent_samples = 0;
  uint64_t summed_kernels = 0, summed_busy_ns = 0, summed_send_steps = 0, summed_recv_steps = 0;  // abi::AgentLine
  std::optional<double> agent_age_s;
  uint64_t operations_in_flight = 0;
  // The one whose kernel runs, else the oldest in flight, else (all) the newest.
  std::optional<OperationReport> operation;
  bool in_flight = false;  // `operation` is
  uint64_t p2p_in_flight = 0;
  std::vector<P2pReport> p2p;           // the oldest of them
  std::vector<ChannelReport> channels;  // of the kernel of `operation`, else of the oldest Send or Recv that runs
  std::vector<ProxyReport> proxies;
};

struct InitReport {
  abi::InitRecord record{};
  std::optional<double> enter_age_s, stage_age_s;
};

struct QueueReport {
  abi::NetRecord record{};
  bool moves = false;
  std::optional<double> post_age_s, complete_age_s;
};

// What the probe knows of the service, and what became of its batches. The four counts are all batches there were.
struct ServiceReport {
  abi::ServiceState state = abi::ServiceState::none;
  std::optional<double> age_s;  // of the state
  uint64_t acknowledged = 0, undelivered = 0, waiting = 0, unconfirmed = 0;
};

struct ProcessReport {
  std::string path;
  abi::ProcessIdentityPart identity{};
  ProcessState process = ProcessState::gone;
  abi::ControlStateLine control{};
  abi::ProcessBuild build{};                               // empty: an older library
  bool control_pending = false;                            // a request that the probe has not taken up
  std::vector<std::pair<std::string, uint64_t>> counters;  // of the probe about itself, those that are not 0
  ServiceReport service;
  std::vector<InitReport> inits;    // all that are remembered, oldest first
  std::vector<QueueReport> queues;  // with something in flight or errors, or (all) all
};

// One look at a frame; two of them tell what moves.
struct Look {
  uint64_t heartbeat_ns = 0;
  std::map<std::tuple<uint32_t, unsigned, uint32_t>, abi::Lane> lanes;  // channel, direction, index
  std::vector<std::array<uint32_t, abi::warps_max>> ticks;
  std::map<uint32_t, abi::ProxyRecord> proxies;
};
Look look_at(const abi::FrameView&);

struct ProcessLook {
  uint64_t samples = 0;
  std::map<unsigned, abi::NetRecord> queues;
};
ProcessLook look_at(const abi::ProcessView&);

FrameReport report_frame(const LocalProcesses&, const std::string& path, const abi::FrameView&, const Look& first,
                         bool all);
ProcessReport report_process(const LocalProcesses&, const std::string& path, const abi::ProcessView&,
                             const ProcessLook& first, bool all);

std::string to_text(const std::vector<FrameReport>&);
std::string to_text(const std::vector<ProcessReport>&);
// {"frames": [...], "processes": [...]}; on one line if `compact`.
std::string to_json(const std::vector<FrameReport>&, const std::vector<ProcessReport>&, bool compact);

__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...);
std::string channel_state(const ChannelReport&);
// "times, steps, waits"
std::vector<std::string> signal_names(uint8_t signals);
// Of an operation that was launched.
bool measures_anything(uint8_t signals);
// "nothing listens there"
const char* service_text(abi::ServiceState);
std::vector<std::string> hidden_names(uint32_t hidden);

}  // namespace ccld::decision::frames
