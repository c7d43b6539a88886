// What ccld-validate hears over its port, which has no keys, and NCCL's log of it. The first byte says which: what a
// rank says of itself, what it is told to do and what it answers; the log; a whole plan, whose ranks answer with the
// rest, text by text.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "decision/validate/messages.h"
#include "decision/validate/nccl_log.h"
#include "decision/validate/plan.h"
#include "test/fuzz/bytes.h"
#include "test/fuzz/require.h"

namespace ccld::decision::validate {
namespace {

constexpr absl::string_view view(std::string_view text) { return {text.data(), text.size()}; }

// What was understood can be said, and is understood as the same.
template <class Message, class Parse>
void require_same_again(const Message& message, const Parse& parse) {
  const std::string text = to_text(message);
  const auto again = parse(text);
  FUZZ_REQUIRE(again.ok());
  FUZZ_REQUIRE(to_text(*again) == text);
}

void hear_hello(std::string_view text) {
  const auto hello = parse_hello(view(text));
  if (!hello.ok()) return;
  FUZZ_REQUIRE(hello->member.rank >= 0 && hello->member.rank < hello->ranks && hello->ranks <= ranks_max);
  require_same_again(*hello, [](const std::string& t) { return parse_hello(t); });
}

void hear_step(std::string_view text, int ranks) {
  const auto step = parse_step(view(text), ranks);
  if (!step.ok()) return;
  FUZZ_REQUIRE(step->pairs.size() <= static_cast<size_t>(ranks) / 2 && step->repetitions <= repetitions_max);
  for (const Pair& p : step->pairs) FUZZ_REQUIRE(p.from >= 0 && p.from < ranks && p.to >= 0 && p.to < ranks);
  require_same_again(*step, [ranks](const std::string& t) { return parse_step(t, ranks); });
}

void hear_answer(std::string_view text, int ranks) {
  const auto answer = parse_answer(view(text), ranks);
  if (!answer.ok()) return;
  FUZZ_REQUIRE(answer->rank >= 0 && answer->rank < ranks);
  for (const Sample& s : answer->samples) FUZZ_REQUIRE(s.rank >= 0 && s.rank < ranks && s.peer < ranks);
  require_same_again(*answer, [ranks](const std::string& t) { return parse_answer(t, ranks); });
}

void read_log(std::string_view text, int rank) {
  const NcclLog log = read_nccl_log(view(text), rank);
  FUZZ_REQUIRE(log.channels.size() <= 64);
  FUZZ_REQUIRE(!log.sends_to.contains(rank));
}

// Ranks that answer each step with the next texts; who has none left does not answer.
class Liars final : public Group {
 public:
  Liars(fuzz::ByteReader texts, int ranks) : texts_(texts) {
    for (int rank = 0; rank < ranks; ++rank) {
      Member m;
      m.rank = m.gpu = rank;
      m.host = rank % 2 == 0 ? "a" : "b";
      m.bus_id = std::to_string(rank);
      m.model = "GPU";
      members_.push_back(m);
    }
  }
  const std::vector<Member>& members() const override { return members_; }
  Answers perform(const Step&) override {
    Answers out;
    const int ranks = static_cast<int>(members_.size());
    for (int rank = 0; rank < ranks; ++rank) {
      auto answer = parse_answer(view(texts_.text_to_zero()), ranks);
      if (!answer.ok()) {
        out.missing.push_back(rank);
        continue;
      }
      answer->rank = rank;  // Meeting knows them by their connections
      out.all.push_back(*std::move(answer));
    }
    return out;
  }

 private:
  fuzz::ByteReader texts_;
  std::vector<Member> members_;
};

void carry_out_plan(fuzz::ByteReader texts, int ranks) {
  Liars group(texts, ranks);
  Outcome out;
  out.now_ns = 1'700'000'000 * ns_per_s;
  run_plan(group, {.id = "00", .job = "job", .past = {}, .thresholds = {}}, out);
  const int status = exit_status(out);
  FUZZ_REQUIRE(status == exit_healthy || status == exit_suspect || status == exit_not_measured);
  FUZZ_REQUIRE(ccld::fuzz::is_harmless(outcome_text(out, true)));
  FUZZ_REQUIRE(!report::to_line(outcome_json(out)).empty());
  (void)past_of(out);
}

}  // namespace
}  // namespace ccld::decision::validate

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld::decision::validate;
  ccld::fuzz::ByteReader bytes(data, size);
  const unsigned kind = bytes.byte() % 5;
  const int number = bytes.byte();
  switch (kind) {
    case 0: hear_hello(bytes.rest()); break;
    case 1: hear_step(bytes.rest(), 1 + number); break;
    case 2: hear_answer(bytes.rest(), 1 + number); break;
    case 3: read_log(bytes.rest(), number); break;
    default: carry_out_plan(bytes, 2 + number % 4); break;
  }
  return 0;
}
