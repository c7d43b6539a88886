// Range checks of the fields of one message, and of how much memory it may ask for.
//
// Contract: every field that is later used as an index, a size or a time goes through one of them. The status names the
// first field that is wrong. Plain state; one object for each message.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "decision/ingest/batch_decoder.h"
#include "decision/ingest/limits.h"
#include "decision/model/events.h"
#include "decision/model/printable.h"
#include "flatbuffers/flatbuffers.h"

namespace ccld::decision::ingest {

constexpr uint8_t direction_max = static_cast<uint8_t>(abi::Direction::send);

template <class T>
size_t length(const flatbuffers::Vector<T>* v) {
  return v == nullptr ? 0 : v->size();
}

// A builder may store equal strings once; more sharing than this is not honest.
constexpr size_t sharing_max = 4;

// A row of packed columns, decoded; and how much longer than on the wire other elements become. An offset to a text, of
// 4 bytes, becomes a string of 32.
constexpr size_t row_bytes_max = 128, decoded_factor = 8;
static_assert(row_bytes_max >= std::max({sizeof(Round), sizeof(P2pRound), sizeof(LinkStages), sizeof(Metric),
                                         sizeof(NetQueue), sizeof(Sibling), sizeof(Signature)}));

// The message under decoding and the first thing found wrong with it. Checks after a failure are harmless, and a decode
// function leaves as soon as it would have to rely on one.
class Decoder {
 public:
  explicit Decoder(size_t message_bytes)
      : budget_at_first_bytes_(message_bytes * sharing_max), budget_bytes_(budget_at_first_bytes_) {}

  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  bool fail(const char* field, const std::string& what) {
    if (status_.ok()) status_ = rejection(RejectReason::field, field, absl::StrCat(field, " ", what));
    return false;
  }

  template <class Value>
  bool within(const char* field, Value value, Value low, Value high) {
    if (value >= low && value <= high) return true;
    return fail(field, absl::StrCat("is ", +value, ", outside ", +low, "..", +high));
  }

  // Every vector is charged at its size on the wire. An honest message has room for each; one that refers to the same
  // vector again and again has not, and is stopped before it fills the memory.
  template <class T>
  bool vector(const char* field, const flatbuffers::Vector<T>* v, size_t length_max) {
    const size_t n = length(v);
    if (n > length_max) return fail(field, absl::StrCat("has ", n, " elements, more than ", length_max));
    // The verifier looks at where the length lies, not at the elements behind it.
    using Element = std::remove_cv_t<std::remove_pointer_t<T>>;
    if (n > 0 && reinterpret_cast<uintptr_t>(v->Data()) % alignof(Element) != 0) return fail(field, "is not aligned");
    return charge(field, n * flatbuffers::IndirectHelper<T>::element_stride);
  }

  // Rows of packed columns, which may take next to nothing on the wire: so many of them in all messages of a batch.
  bool rows(const char* field, size_t n, size_t in_all_max) {
    if (n > in_all_max || rows_ + n > in_all_max)
      return fail(field, absl::StrCat("has ", n, " rows, more than ", in_all_max, " in all"));
    rows_ += n;
    return true;
  }
  // What a row has besides: a name of its own that many have in common on the wire.
  void row_text(const std::string& text) { row_texts_bytes_ += text.size(); }

  // What was decoded takes no more memory, but for the payloads themselves.
  size_t memory_bytes() const {
    return decoded_factor * (budget_at_first_bytes_ - budget_bytes_) + rows_ * row_bytes_max + row_texts_bytes_;
  }

  // How many more there may be.
  size_t rows_left(size_t in_all_max) const { return in_all_max - std::min(rows_, in_all_max); }

  bool text(const char* field, const flatbuffers::String* s, std::string& out) {
    const size_t n = s == nullptr ? 0 : s->size();
    if (n > text_bytes_max) return fail(field, absl::StrCat("has ", n, " bytes, more than ", text_bytes_max));
    if (!charge(field, n)) return false;
    out = printable(absl::string_view(n == 0 ? "" : s->c_str(), n));
    return true;
  }

  // Texts that each end with a zero byte.
  bool texts(const char* field, const flatbuffers::String* s, size_t count_max, std::vector<std::string>& out) {
    const size_t n = s == nullptr ? 0 : s->size();
    if (!charge(field, n)) return false;
    absl::string_view rest(n == 0 ? "" : s->c_str(), n);
    for (size_t end; (end = rest.find('\0')) != absl::string_view::npos; rest.remove_prefix(end + 1)) {
      if (end > text_bytes_max) return fail(field, absl::StrCat("has ", end, " bytes, more than ", text_bytes_max));
      if (out.size() == count_max) return fail(field, absl::StrCat("has more than ", count_max, " elements"));
      out.push_back(printable(rest.substr(0, end)));
    }
    return rest.empty() || fail(field, "does not end with a zero byte");
  }

  bool rank(const char* field, int32_t value) { return within<int32_t>(field, value, 0, rank_count_max - 1); }
  bool optional_rank(const char* field, int32_t value) { return within<int32_t>(field, value, -1, rank_count_max - 1); }
  bool channel(const char* field, uint16_t value) { return within<uint16_t>(field, value, 0, abi::channels_max - 1); }
  bool net_device(const char* field, int32_t value) { return within<int32_t>(field, value, -1, net_devices_max - 1); }
  bool direction(const char* field, uint8_t value) { return within<uint8_t>(field, value, 0, direction_max); }
  bool group(const char* field, uint8_t value) { return within<uint8_t>(field, value, 0, abi::lane_groups - 1); }
  bool time(const char* field, uint64_t value) { return within<uint64_t>(field, value, 0, time_ns_max); }
  // Of something that was seen before the batch was sent, by the same clock: one from the future would outlast all that
  // comes after it.
  void sent_at(uint64_t sent_ns) { sent_ns_ = sent_ns; }
  bool time_before_sending(const char* field, uint64_t value) {
    return within<uint64_t>(field, value, 0, std::min(sent_ns_ + sample_ahead_ns_max, time_ns_max));
  }
  bool signed_time(const char* field, int64_t value) {
    return within<int64_t>(field, value, -static_cast<int64_t>(time_ns_max), static_cast<int64_t>(time_ns_max));
  }
  bool op_seq(const char* field, uint64_t value) { return within<uint64_t>(field, value, 1, sequence_max); }
  bool optional_op_seq(const char* field, uint64_t value) { return within<uint64_t>(field, value, 0, sequence_max); }
  bool comm(const char* field, uint64_t value) { return value != 0 || fail(field, "is 0"); }

 private:
  bool charge(const char* field, size_t bytes) {
    if (bytes > budget_bytes_) return fail(field, "refers to data that other fields refer to as well");
    budget_bytes_ -= bytes;
    return true;
  }

  absl::Status status_;
  size_t budget_at_first_bytes_, budget_bytes_;
  size_t rows_ = 0, row_texts_bytes_ = 0;
  uint64_t sent_ns_ = time_ns_max;
};

}  // namespace ccld::decision::ingest
