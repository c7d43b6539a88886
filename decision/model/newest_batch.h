// Which image of a process sent a batch. A program that calls exec stays the same process, and numbers its batches from 1
// again: a number that is not higher than the newest one and was sent later is another image's. What the image before it had
// sent may come after that: a higher number that was sent earlier.
// Contract: plain state.
#pragma once

#include <cstdint>

namespace ccld::decision {

enum class Image : uint8_t { same, next, before };

// The batch with the highest number of the image that speaks.
struct NewestBatch {
  uint64_t seq = 0;
  uint64_t sent_ns = 0;  // by the sender's monotonic clock, which goes on over an exec

  Image take(uint64_t batch_seq, uint64_t batch_sent_ns) {
    const bool higher = batch_seq > seq;
    if (higher && batch_sent_ns < sent_ns) return Image::before;
    const Image image = !higher && batch_sent_ns > sent_ns ? Image::next : Image::same;
    if (higher || image == Image::next) seq = batch_seq, sent_ns = batch_sent_ns;
    return image;
  }
};

}  // namespace ccld::decision
