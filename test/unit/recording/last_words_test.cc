#include "decision/recording/last_words.h"

#include "test/unit/recording/recordings.h"

namespace ccld::test {
namespace {

Batch batch_of(uint32_t pid, bool topology) {
  Batch b;
  b.process.pid = pid;
  if (topology) b.payloads.emplace_back(CommUp{});
  return b;
}

std::vector<std::string> texts(const LastWords& words) {
  std::vector<std::string> result;
  for (const auto& word : words) result.push_back(word->bytes);
  return result;
}

}  // namespace

TEST_CASE("Of every process the newest message and those that describe its communicators are kept") {
  LastWordsBook book(1000);
  book.heard(batch_of(1, true), bytes_of("up of 1"), 10, 110);
  for (int i = 0; i < 5; ++i) book.heard(batch_of(1, false), bytes_of("progress " + std::to_string(i)), 20 + i, 120);
  book.heard(batch_of(2, false), bytes_of("hello of 2"), 30, 130);
  CHECK(texts(book.collect()) == std::vector<std::string>{"up of 1", "progress 4", "hello of 2"});
  CHECK(book.collect()[1]->clock_ns == 24);
  CHECK(book.bytes() == 7 + 10 + 10);
}

TEST_CASE("Of many descriptions the newest are kept") {
  LastWordsBook book(1000);
  for (int i = 0; i < 100; ++i) book.heard(batch_of(1, true), bytes_of("up " + std::to_string(i)), i, i);
  const auto words = texts(book.collect());
  CHECK(words.size() == 8);
  CHECK(words.back() == "up 99");
  CHECK(book.bytes() == 8 * 5);
}

TEST_CASE("Words beyond the limit are counted, and room comes back with what is forgotten") {
  LastWordsBook book(10);
  book.heard(batch_of(1, false), bytes_of("12345678"), 10, 10);
  book.heard(batch_of(2, false), bytes_of("12345678"), 20, 20);
  CHECK(book.left_out() == 1);
  CHECK(book.collect().size() == 1);
  book.forget(10);
  CHECK(book.bytes() == 8);
  book.forget(11);
  CHECK(book.bytes() == 0);
  book.heard(batch_of(2, false), bytes_of("12345678"), 30, 30);
  CHECK(book.collect().size() == 1);
}

}  // namespace ccld::test
