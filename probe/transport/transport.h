// Where encoded batches go. The agent knows this interface; tests put their own behind it.
//
// Contract: send() never blocks and never throws.
// Threads: one object, one thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccld::probe {

enum class SendResult : uint8_t { sent, full, error };

class Transport {
 public:
  virtual ~Transport() = default;
  // `sent`: the transport has taken a copy; it may still be lost on the way, which the service sees as a gap in
  // batch_seq.
  virtual SendResult send(const uint8_t* data, size_t size) = 0;
};

}  // namespace ccld::probe
