// What the records of collective calls and of Send and Recv say of their kernels.
#pragma once

#include <cstdint>

#include "probe/transport/messages.h"
#include "schemas/abi/frame_reader.h"

namespace ccld::probe {

constexpr uint64_t bit(uint32_t channel) { return uint64_t{1} << channel; }
constexpr uint32_t first_channel(uint64_t mask) { return static_cast<uint32_t>(__builtin_ctzll(mask)); }
constexpr uint8_t flag(wire::RoundFlags flags) { return static_cast<uint8_t>(flags); }

// Flags of a call of which no kernel, and nothing else, tells.
constexpr uint8_t never_seen_flags =
    static_cast<uint8_t>(wire::RoundFlags::no_kernel) | static_cast<uint8_t>(wire::RoundFlags::not_measured);

template <class Record>
bool is_launched(const Record& record) {
  return (record.flags & abi::op_launched) != 0;
}

inline wire::OpSignature signature_of(const abi::OpRecord& r) {
  return wire::OpSignature(r.count, r.root, r.function, r.datatype, r.reduction, r.algorithm, r.protocol, r.flags,
                           r.channel_count);
}

inline abi::Found read_record(const abi::FrameView& frame, uint64_t number, abi::OpRecord* record) {
  return frame.read_operation(number, record);
}
inline abi::Found read_record(const abi::FrameView& frame, uint64_t number, abi::P2pRecord* record) {
  return frame.read_p2p(number, record);
}

// Whether the kernel of a call leaves rows in the frame, and on which channels. The frame must outlive it.
class Rows {
 public:
  explicit Rows(const abi::FrameView& frame)
      : frame_(frame), present_mask_(frame.channel_count() >= 64 ? ~uint64_t{0} : bit(frame.channel_count()) - 1) {}

  template <class Record>
  bool expected(const Record& record) const {
    return record.plan != 0 && (record.flags & abi::op_no_kernel) == 0 && (record.signals & abi::signal_times) != 0 &&
           (frame_.identity().mode & abi::mode_steps) != 0 && channels(record) != 0;
  }
  template <class Record>
  uint64_t channels(const Record& record) const {
    return record.channel_mask & present_mask_;
  }

 private:
  const abi::FrameView& frame_;
  const uint64_t present_mask_;  // channels that have room in the frame
};

}  // namespace ccld::probe
