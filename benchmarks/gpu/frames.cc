#include "benchmarks/gpu/frames.h"

#include <dirent.h>
#include <unistd.h>

#include <set>
#include <stdexcept>

#include "schemas/abi/names.h"

namespace ccld::gpu {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string operation_text(int rank, uint64_t op_seq) {
  return "rank " + std::to_string(rank) + ", operation " + std::to_string(op_seq) + ": ";
}

// The run of a kernel on a channel, by its token.
uint32_t run_of(const abi::FrameView& view, uint32_t channel, uint32_t token) {
  const uint32_t newest = view.newest_run(channel);
  for (uint32_t back = 0; back < abi::rounds_max && back < newest; ++back) {
    abi::RoundBegin begin;
    if (view.read_begin(channel, newest - back, &begin) == abi::Found::yes && begin.token == token) return begin.run;
  }
  return 0;
}

}  // namespace

Frames::Frames(const std::string& folder) {
  const std::string prefix = "ccld-" + std::to_string(getpid()) + "-";
  DIR* entries = opendir(folder.c_str());
  if (entries == nullptr) throw std::runtime_error("the folder of frames, " + folder + ", cannot be read");
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    if (name.rfind(prefix, 0) != 0 || !ends_with(name, ".frame")) continue;
    std::string error;
    std::optional<abi::MappedFrame> frame = abi::MappedFrame::open(folder + "/" + name, &error);
    if (!frame) {
      closedir(entries);
      throw std::runtime_error(name + ": " + error);
    }
    const int rank = frame->view().identity().rank;
    frames_.emplace(rank, std::move(*frame));
  }
  closedir(entries);
}

const abi::FrameView& Frames::view(int rank) const {
  const auto found = frames_.find(rank);
  if (found == frames_.end()) throw std::runtime_error("rank " + std::to_string(rank) + " has no probing frame");
  return found->second.view();
}

Shown Frames::shown(int rank) const {
  const abi::FrameView& frame = view(rank);
  Shown shown;
  for (uint32_t channel = 0; channel < frame.channel_count(); ++channel) {
    abi::RoundEnd end;
    const uint32_t run = frame.newest_run(channel);
    shown.times |= run != 0 && frame.read_end(channel, run, &end) == abi::Found::yes;
    for (const abi::Direction direction : {abi::Direction::recv, abi::Direction::send}) {
      for (uint32_t i = 0; i < abi::lanes_per_direction; ++i) {
        abi::Lane lane;
        shown.steps |= frame.read_lane(channel, direction, i, &lane) && lane.current_step != lane.base_step;
      }
    }
  }
  return shown;
}

uint64_t Frames::newest_operation(int rank) const { return view(rank).entered_op_seq(); }

std::string Frames::newest_ran_as(int rank) const {
  const auto found = frames_.find(rank);
  if (found == frames_.end()) return "";
  abi::OpRecord operation;
  const abi::FrameView& frame = found->second.view();
  if (frame.read_operation(frame.entered_op_seq(), &operation) != abi::Found::yes) return "";
  return std::string(abi::name_of(static_cast<abi::Algorithm>(operation.algorithm))) + " " +
         abi::name_of(static_cast<abi::Protocol>(operation.protocol));
}

KernelCounts Frames::counts_of(int rank, uint64_t op_seq) const {
  const abi::FrameView& frame = view(rank);
  abi::OpRecord operation;
  if (frame.read_operation(op_seq, &operation) != abi::Found::yes || (operation.flags & abi::op_launched) == 0) {
    throw std::runtime_error(operation_text(rank, op_seq) + "its record does not say that it was launched");
  }
  KernelCounts sum;
  for (uint32_t channel = 0; channel < frame.channel_count(); ++channel) {
    if ((operation.channel_mask >> channel & 1) == 0) continue;
    const uint32_t run = run_of(frame, channel, operation.plan);
    abi::RoundCounts counts;
    abi::RoundEnd end;
    if (run == 0 || frame.read_counts(channel, run, &counts) != abi::Found::yes ||
        frame.read_end(channel, run, &end) != abi::Found::yes || end.flags != 0) {
      throw std::runtime_error(operation_text(rank, op_seq) + "channel " + std::to_string(channel) +
                               " has no row of a kernel that ended");
    }
    sum.sent += counts.send_steps;
    sum.received += counts.recv_steps;
  }
  return sum;
}

int Frames::only_receiver(int rank, uint32_t channel) const {
  const abi::FrameView& frame = view(rank);
  const uint32_t run = frame.newest_run(channel);
  std::set<int> peers;
  for (uint32_t i = 0; i < abi::lanes_per_direction; ++i) {
    abi::Lane lane;
    if (!frame.read_lane_of(channel, abi::Direction::send, i, run, &lane)) continue;
    peers.insert(static_cast<int>(abi::lane_peer(lane.peer_and_warps)));
  }
  return peers.size() == 1 ? *peers.begin() : -1;
}

}  // namespace ccld::gpu
