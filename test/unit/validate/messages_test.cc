#include "decision/validate/messages.h"

#include <catch2/catch.hpp>

#include "test/support/json/hostile.h"

namespace ccld::decision::validate {
namespace {

TEST_CASE("Messages come back as they were") {
  Step s;
  s.kind = StepKind::pass;
  s.pairs = {{1, 2, true}};
  s.repetitions = 7;
  s.before_op_seq = 77;
  s.within_s = 2.5;
  const auto step = parse_step(to_text(s), 3);
  REQUIRE(step.ok());
  CHECK(step->before_op_seq == 77);
  CHECK(step->within_s == 2.5);
  CHECK(step->pairs == s.pairs);
  CHECK(step->repetitions == 7);

  Answer a;
  a.rank = 2;
  a.channels = {{0, 1, -1}};
  a.hung = {{0, 1}};
  a.operations = 12;
  a.operations_per_s = 3.5;
  a.holds = Holds::passed;
  a.id = "00ff";
  a.samples.push_back({Check::link, 1, 2, "NET/IB", "mlx5_0", 64, -1, {1.5, 2}});
  const auto answer = parse_answer(to_text(a), 3);
  REQUIRE(answer.ok());
  CHECK(answer->channels[0].ring_next == 1);
  CHECK(answer->hung == a.hung);
  CHECK(answer->operations == 12);
  CHECK(answer->operations_per_s == 3.5);
  CHECK(answer->holds == Holds::passed);
  CHECK(answer->id == "00ff");
  CHECK(answer->samples[0].ms == a.samples[0].ms);
  CHECK(answer->samples[0].net == "mlx5_0");
}

TEST_CASE("What is nested deep is refused, whatever it is sent as") {
  for (const std::string& text : {test::nested(100'000), R"({"rank": )" + test::nested(100'000) + "}"}) {
    CHECK_FALSE(parse_hello(text).ok());
    CHECK_FALSE(parse_step(text, 2).ok());
    CHECK_FALSE(parse_answer(text, 2).ok());
  }
}

TEST_CASE("A number that no integer holds is refused in every place of one") {
  const auto refused = [](std::string text, const std::string& field, const auto& parse) {
    const size_t at = text.find(field);
    REQUIRE(at != std::string::npos);
    for (const char* number : {"1e30", "-1e30", "0.5", "18446744073709551615", "[]"}) {
      std::string changed = text;
      changed.replace(at + field.size(), 1, number);
      INFO(changed);
      CHECK_FALSE(parse(changed).ok());
    }
  };
  Hello h;
  h.ranks = 2;
  h.member.gpu = 0;
  for (const char* field : {"\"rank\":", "\"pid\":", "\"gpu\":", "\"ranks\":"})
    refused(to_text(h), field, [](const std::string& text) { return parse_hello(text); });
  Answer a;
  a.channels = {{0, 0, 0}};
  a.hung = {{1, 0}};
  for (const char* field : {"\"rank\":", "\"operations\":", "\"channels\":[[", "\"hung\":[["})
    refused(to_text(a), field, [](const std::string& text) { return parse_answer(text, 2); });
}

TEST_CASE("The longest pass fits into a message, and a longer one is refused") {
  Step s;
  s.kind = StepKind::pass;
  for (int rank = 0; rank < ranks_max; rank += 2)
    s.pairs.push_back({ranks_max - 1 - rank, ranks_max - 2 - rank, false});
  const std::string text = to_text(s);
  CHECK(text.size() <= message_bytes_max);
  CHECK(parse_step(text, ranks_max)->pairs == s.pairs);
  s.pairs.push_back({1, 2, false});  // both are in a pair already
  CHECK_FALSE(parse_step(to_text(s), ranks_max).ok());
}

TEST_CASE("Whatever anybody sends is refused, not believed") {
  for (const char* text : {"", "{", "[]", "null", "{}", "\xff\xfe", R"({"rank": 0})"}) {
    CHECK_FALSE(parse_hello(text).ok());
    CHECK_FALSE(parse_step(text, 2).ok());
    CHECK_FALSE(parse_answer(text, 2).ok());
  }
  const auto answer = [](const std::string& samples, const std::string& hung = "[]",
                         const std::string& channels = "[]") {
    return parse_answer(
               R"({"rank": 0, "error": "", "operations": 0, "operations_per_s": 0, "holds": "holds", "id": "", "channels": )" +
                   channels + R"(, "samples": )" + samples + R"(, "hung": )" + hung + "}",
               2)
        .ok();
  };
  const auto sample = [](const std::string& check, int rank, int peer, const std::string& ms) {
    return R"([{"check": ")" + check + R"(", "rank": )" + std::to_string(rank) + R"(, "peer": )" +
           std::to_string(peer) + R"(, "kind": "", "net": "", "bytes": 1, "ms": )" + ms + "}]";
  };
  CHECK(answer("[]"));
  CHECK(answer(sample("link", 0, 1, "[1]")));
  CHECK_FALSE(answer(sample("link", 0, 2, "[1]")));
  CHECK_FALSE(answer(sample("link", 0, -1, "[1]")));
  CHECK_FALSE(answer(sample("gemm", 0, 1, "[1]")));
  CHECK_FALSE(answer(sample("gemm", 0, -1, "[-1]")));
  CHECK_FALSE(answer(sample("gemm", 0, -1, "[null]")));
  CHECK_FALSE(answer(sample("ping", 0, -1, "[1]")));
  CHECK_FALSE(answer("[]", "[[0, 2]]"));
  CHECK_FALSE(answer("[]", "[]", "[[0, 7, -1]]"));
  CHECK_FALSE(
      parse_step(
          R"({"step": "pass", "before_op_seq": 0, "within_s": 0, "id": "", "check": "gemm", "pairs": [{"from": 0, "to": 0, "back": false}], "repetitions": 3})",
          2)
          .ok());
}

}  // namespace
}  // namespace ccld::decision::validate
