// Turns messages into one wire::Batch. (Figure 10 of the paper, step 4: metrics are pushed to the decision analyzer.)
//
// Contract: add() messages, then finish() once; the bytes stay valid until the next add(). Never fails. Finished calls
// of communicators that were added one after the other become one message, also where states of operations in flight
// were between them: those come behind it. A batch is read without the ones before it, which may be lost. Threads: one
// object, one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "probe/transport/call_bundle.h"
#include "probe/transport/messages.h"
#include "schemas/wire/packed_structs.h"

namespace ccld::probe {

constexpr uint16_t wire_schema_version = 4;

class BatchEncoder {
 public:
  void add(const Message&);
  bool empty() const {
    return finished_ || (messages_.empty() && behind_calls_.empty() && rounds_.empty() && p2p_.empty());
  }
  // So far, without the batch's own fields; roughly, as long as finished calls are not packed.
  size_t bytes() const { return builder_.GetSize() + rounds_.bytes() + p2p_.bytes(); }

  struct Bytes {
    const uint8_t* data;
    size_t size;
  };
  Bytes finish(const Sender&, uint64_t batch_seq, int64_t realtime_ns, uint64_t monotonic_ns, bool acknowledge = false);

 private:
  void begin();
  void take(const RoundsMessage& m) { rounds_.add(m); }
  void take(const P2pRoundsMessage& m) { p2p_.add(m); }
  void take(const CommUpMessage&);
  void take(const InFlightMessage&);
  template <class Other>
  void take(const Other&);
  template <class Table>
  flatbuffers::Offset<wire::Message> message(flatbuffers::Offset<Table>);
  void pack_calls();

  flatbuffers::FlatBufferBuilder builder_{4096};
  std::vector<flatbuffers::Offset<wire::Message>> messages_;
  CallBundle rounds_{wire::words_of<wire::OpSignature>, wire::Numbering::of_all};
  CallBundle p2p_{wire::words_of<wire::P2pKind>, wire::Numbering::of_kind};
  std::vector<flatbuffers::Offset<wire::Message>> behind_calls_;
  bool finished_ = false;
};

}  // namespace ccld::probe
