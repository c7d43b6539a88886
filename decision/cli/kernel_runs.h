// Kernels as the rows of a frame show them: which have begun, which have ended, and which calls are therefore in
// flight. (Paper, section 5.1.)
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "schemas/abi/frame_reader.h"

namespace ccld::decision::frames {

inline bool has_channel(uint64_t mask, uint32_t channel) { return (mask >> channel & 1) != 0; }

// Of a kernel on one channel.
struct Run {
  uint32_t run = 0;
  bool ended = false;
  uint32_t replay = 0;  // only on the lowest channel of its kernel
};

// The newest run of every kernel whose row is still there, by channel and token.
class Runs {
 public:
  explicit Runs(const abi::FrameView&);

  const Run* find(uint32_t channel, uint32_t token) const;

  struct Kernel {
    bool begun = false, ended = true;  // on any channel; on all of them
    uint32_t replay = 0;
  };
  Kernel kernel(uint32_t token, uint64_t mask) const;

 private:
  bool passed(uint32_t channel, uint32_t token) const;

  struct Channel {
    std::map<uint32_t, Run> by_token;
    uint32_t newest_token = 0;
    bool any = false;
  };
  std::vector<Channel> channels_;
};

// Where a call stands whose record this is.
struct Standing {
  bool in_flight = false, running = false;
  uint32_t replay = 0;
};
Standing standing_of(const abi::FrameView&, const Runs&, const abi::OpRecord&);
Standing standing_of(const abi::FrameView&, const Runs&, const abi::P2pRecord&);

}  // namespace ccld::decision::frames
