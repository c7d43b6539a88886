// Finished calls of one communicator on one rank, packed: what is likely of a call is what the last one of its kind was
// and did, and only the difference is written (number_columns.h). A training loop makes the same few kinds of calls in
// the same order, so most columns are zeros and times are a few bytes.
//
// Contract: pure; unpack() takes any bytes. Nothing is rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ccld::wire {

// A row of Rounds or P2pRounds (telemetry.fbs), with their meanings and units.
struct CallRow {
  uint64_t number = 0;  // op_seq or pair_seq
  uint32_t kind = 0;    // of the message's signatures or peers
  uint32_t replay = 0;
  uint32_t plan = 0;  // 0: not told
  uint64_t enter_monotonic_ns = 0, launch_monotonic_ns = 0;
  uint64_t begin_device_ns = 0, end_device_ns = 0;
  uint32_t send_steps = 0, recv_steps = 0;
  uint32_t send_changes = 0, recv_changes = 0;
  uint32_t samples = 0;
  uint8_t flags = 0;    // RoundFlags
  uint8_t signals = 0;  // Signal
};

// What a number counts: all calls of the communicator, or those of the row's kind.
enum class Numbering { of_all, of_kind };

// Of each row, `kind` is less than `kinds`.
std::vector<uint8_t> pack(std::vector<CallRow> rows, size_t kinds, Numbering);
// False: the bytes are not so many rows, or a row is of no such kind.
bool unpack(const uint8_t* bytes, size_t size, size_t kinds, Numbering, std::vector<CallRow>& rows);

}  // namespace ccld::wire
