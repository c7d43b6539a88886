// Turns messages into one wire::Batch. (Figure 10 of the paper, step 4: metrics are pushed to the decision analyzer.)
//
// Contract: add() messages, then finish() once; the bytes stay valid until the next add(). Never fails.
// Threads: one object, one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "probe/transport/messages.h"

namespace ccld::probe {

constexpr uint16_t wire_schema_version = 3;

class BatchEncoder {
 public:
  void add(const Message&);
  bool empty() const { return finished_ || messages_.empty(); }
  // So far, without the batch's own fields.
  size_t bytes() const { return builder_.GetSize(); }

  struct Bytes {
    const uint8_t* data;
    size_t size;
  };
  Bytes finish(const Sender&, uint64_t batch_seq, int64_t realtime_ns, uint64_t monotonic_ns, bool acknowledge = false);

 private:
  void begin();

  flatbuffers::FlatBufferBuilder builder_{4096};
  std::vector<flatbuffers::Offset<wire::Message>> messages_;
  bool finished_ = false;
};

}  // namespace ccld::probe
