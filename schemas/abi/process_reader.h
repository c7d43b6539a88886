// Reads a process file while it is being written: validation, and reads that refuse a record that is half written.
//
// Contract
//   ProcessView::open checks magic, major version, sizes and that every part lies within the memory; afterwards no
//   index or offset that the file contains can lead outside. It uses the offsets and strides of the header. Nothing
//   here waits, locks, allocates (besides error texts) or throws.
//
// Threads: a view is immutable; any number of threads and processes may read while the writers write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "schemas/abi/frame_reader.h"
#include "schemas/abi/mapped_frame.h"
#include "schemas/abi/process.h"
#include "schemas/abi/process_build.h"

namespace ccld::abi {

class ProcessView {
 public:
  static constexpr size_t bytes_min = sizeof(ProcessHeader);

  // `memory` must be 16-byte aligned and outlive the view. On failure *error says what is wrong, without the file's
  // name.
  static std::optional<ProcessView> open(const void* memory, size_t bytes, std::string* error) {
    const auto fail = [error](std::string text) {
      if (error != nullptr) *error = std::move(text);
      return std::nullopt;
    };
    if (bytes < sizeof(ProcessHeader))
      return fail("truncated: " + std::to_string(bytes) + " bytes, the header alone has " +
                  std::to_string(sizeof(ProcessHeader)));
    const auto* header = static_cast<const ProcessHeader*>(memory);
    if (reading::load(header->identity.magic) != process_magic) return fail("not a process file (or not initialized yet)");
    // A copy: whoever owns the file may change it between a check and a use.
    ProcessIdentityPart id;
    reading::load_words(&header->identity, &id, sizeof id);
    if (id.abi_major != process_abi_major)
      return fail("process file version " + std::to_string(id.abi_major) + "." + std::to_string(id.abi_minor) +
                  ", this program reads " + std::to_string(process_abi_major) + ".x");
    if (id.end_marker != process_magic) return fail("header damaged: end marker missing");
    if (id.file_bytes > bytes)
      return fail("truncated: " + std::to_string(bytes) + " bytes of " + std::to_string(id.file_bytes));
    ProcessView view;
    view.header_ = header;
    view.inits_stride_ = id.inits_stride;
    view.nets_stride_ = id.nets_stride;
    const struct {
      const char* name;
      uint32_t offset;
      uint32_t stride;
      size_t record_bytes;
      uint32_t count;
      const unsigned char** base;
    } parts[] = {
        {"metrics", id.metrics_offset, sizeof(uint64_t), sizeof(uint64_t), metrics_max, &view.metrics_},
        {"communicators being made", id.inits_offset, id.inits_stride, sizeof(InitRecord), inits_max, &view.inits_},
        {"network queues", id.nets_offset, id.nets_stride, sizeof(NetRecord), nets_max, &view.nets_},
    };
    for (const auto& part : parts) {
      const uint64_t end = part.offset + uint64_t{part.stride} * part.count;
      if (part.offset < sizeof(ProcessHeader) || part.offset % 128 != 0 || part.stride % 8 != 0 ||
          part.stride < part.record_bytes || end > id.file_bytes)
        return fail(std::string("header damaged: ") + part.name + " lie outside the file");
      *part.base = static_cast<const unsigned char*>(memory) + part.offset;
    }
    if (const size_t offset = process_build_offset(id)) view.build_ = static_cast<const unsigned char*>(memory) + offset;
    return view;
  }

  // As the file has it now: nothing that leads anywhere is to be taken from it.
  const ProcessIdentityPart& identity() const { return header_->identity; }
  template <size_t N>
  static std::string text(const char (&field)[N]) {
    return std::string(field, strnlen(field, N));
  }

  // Which libnccl is in the process.
  ProcessBuild build() const { return process_build_at(build_); }

  // 0 for ids without a word.
  uint64_t metric(MetricId id) const {
    const auto index = static_cast<unsigned>(id);
    return index < metrics_max ? reading::load(reinterpret_cast<const uint64_t*>(metrics_)[index]) : 0;
  }

  // Slot by slot. False: free, or being written.
  bool read_init(unsigned slot, InitRecord* out) const {
    if (slot >= inits_max) return false;
    const auto* record = reinterpret_cast<const InitRecord*>(inits_ + size_t{slot} * inits_stride_);
    const uint64_t before = reading::load(record->commit);
    if (before == 0) return false;
    // The stage vouches for its time and result, which are stored before it.
    const uint32_t stage = reading::load(record->stage);
    reading::load_words(record, out, sizeof *out);
    out->stage = stage;
    return reading::load(record->commit) == before && out->commit == before;
  }

  // False: free.
  bool read_net(unsigned slot, NetRecord* out) const {
    if (slot >= nets_max) return false;
    reading::load_words(nets_ + size_t{slot} * nets_stride_, out, sizeof *out);
    return out->queue != 0;
  }

  // False: it is being written.
  bool read_control(ControlLine* out) const {
    const uint64_t before = reading::load(header_->control.sequence);
    if (before % 2 != 0) return false;
    reading::load_words(&header_->control, out, sizeof *out);
    return reading::load(header_->control.sequence) == before && out->sequence == before;
  }
  // Word by word: the agent may be changing it.
  ControlStateLine control_state() const {
    ControlStateLine state;
    reading::load_words(&header_->control_state, &state, sizeof state);
    return state;
  }

 private:
  const ProcessHeader* header_ = nullptr;
  const unsigned char* metrics_ = nullptr;
  const unsigned char* inits_ = nullptr;
  const unsigned char* nets_ = nullptr;
  const unsigned char* build_ = nullptr;  // of an older library: there is none
  uint32_t inits_stride_ = 0, nets_stride_ = 0;

  template <class View>
  friend class Mapped;
};

using MappedProcess = Mapped<ProcessView>;

}  // namespace ccld::abi
