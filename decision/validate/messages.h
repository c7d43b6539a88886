// What ranks and coordinator say to each other: JSON, one document a message.
// Errors: InvalidArgument for a message that is none; every number of ranks, channels and pairs in it is checked
// against limits and `ranks`. Threads: any.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "decision/validate/group.h"

namespace ccld::decision::validate {

constexpr int ranks_max = 65536;
constexpr int repetitions_max = 1000;
// Whoever reaches the port can send that much to a training process, which has some 20 times as much of it in memory
// while it is read. The longest message is a pass: no rank is in two of its pairs, and a pair takes 40 bytes. A
// rank's answer has its own samples: four checks of `repetitions_max` times of 20 digits are 80 kB.
constexpr size_t message_bytes_max = 2 << 20;
constexpr size_t pair_bytes_max = 40;  // {"back":false,"from":65535,"to":65534},
static_assert(ranks_max / 2 * pair_bytes_max + 65536 <= message_bytes_max);

// What every rank calls itself: versions that differ do not understand each other.
std::string program_text();

// The first message of a rank. `program`: program_text().
struct Hello {
  std::string program;
  int ranks = 0;
  Member member;
};

std::string to_text(const Hello&);
std::string to_text(const Step&);
std::string to_text(const Answer&);
absl::StatusOr<Hello> parse_hello(absl::string_view);
absl::StatusOr<Step> parse_step(absl::string_view, int ranks);
absl::StatusOr<Answer> parse_answer(absl::string_view, int ranks);

}  // namespace ccld::decision::validate
