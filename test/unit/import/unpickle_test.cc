#include "decision/import/unpickle.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "decision/import/limits.h"

namespace ccld::decision::dumps {
namespace {

std::string bytes(std::initializer_list<int> list) { return std::string(list.begin(), list.end()); }
const std::string begin = bytes({0x80, 2});

std::string error_of(const std::string& pickle) {
  const auto result = unpickle(pickle);
  REQUIRE_FALSE(result.ok());
  return std::string(result.status().message());
}
void check_error(const std::string& pickle, const std::string& needle) {
  const std::string error = error_of(pickle);
  INFO(error);
  CHECK(absl::StrContains(error, needle));
}
ValuePtr value_of(const std::string& pickle) {
  const auto result = unpickle(pickle);
  INFO(result.status().message());
  REQUIRE(result.ok());
  return *result;
}

// {"a": [1, -2, 2**40, True, None, 1.5, ("b",)]} as Python's protocol 2 writes it.
const std::string sample = begin + "}q" + bytes({0}) + "X" + bytes({1, 0, 0, 0}) + "aq" + bytes({1}) + "]q" +
                           bytes({2}) + "(K" + bytes({1}) + "J" + bytes({0xfe, 0xff, 0xff, 0xff}) +
                           bytes({0x8a, 6, 0, 0, 0, 0, 0, 1}) + bytes({0x88}) + "NG" +
                           bytes({0x3f, 0xf8, 0, 0, 0, 0, 0, 0}) + "X" + bytes({1, 0, 0, 0}) + "bq" + bytes({3, 0x85}) +
                           "q" + bytes({4}) + "es.";

TEST_CASE("plain data of protocol 2 is read") {
  const ValuePtr v = value_of(sample);
  const Value* a = v->find("a");
  REQUIRE(a != nullptr);
  const List& items = *a->list();
  REQUIRE(items.size() == 7);
  CHECK(*items[0]->integer() == 1);
  CHECK(*items[1]->integer() == -2);
  CHECK(*items[2]->integer() == int64_t{1} << 40);
  CHECK(*items[3]->boolean());
  CHECK(items[4]->is_none());
  double d = 0;
  CHECK(items[5]->number(d));
  CHECK(d == 1.5);
  CHECK(*(*items[6]->list())[0]->text() == "b");
  CHECK(v->depth() == 4);
}

TEST_CASE("a pickle cut off at any byte is an error that names a byte") {
  for (size_t size = 0; size < sample.size(); ++size)
    CHECK(absl::StartsWith(error_of(sample.substr(0, size)), "byte "));
}

TEST_CASE("any byte of a pickle may be wrong without harm") {
  for (size_t at = 0; at < sample.size(); ++at)
    for (int c = 0; c < 256; ++c) {
      std::string damaged = sample;
      damaged[at] = static_cast<char>(c);
      (void)unpickle(damaged);
    }
}

TEST_CASE("negative and short long integers keep their sign") {
  CHECK(*value_of(begin + bytes({0x8a, 1, 0xff}) + ".")->integer() == -1);
  CHECK(*value_of(begin + bytes({0x8a, 0}) + ".")->integer() == 0);
  CHECK(*value_of(begin + bytes({0x8a, 2, 0xff, 0}) + ".")->integer() == 255);
  check_error(begin + bytes({0x8a, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1}) + ".", "64 bits");
}

TEST_CASE("opcodes that run code are refused with their offset and name") {
  check_error(begin + "cos\nsystem\n(X" + bytes({2, 0, 0, 0}) + "idtR.", "byte 2: opcode GLOBAL (0x63)");
  check_error(begin + "NR.", "byte 3: opcode REDUCE (0x52)");
  check_error(begin + "NNb.", "byte 4: opcode BUILD (0x62)");
  check_error(begin + bytes({0x93}) + ".", "STACK_GLOBAL");
  check_error(begin + bytes({0xff}) + ".", "opcode 0xff is not known");
  for (int c = 0; c < 256; ++c) (void)unpickle(begin + std::string(1, static_cast<char>(c)));
}

TEST_CASE("lengths beyond the file are refused before memory is taken") {
  check_error(begin + "X" + bytes({0xff, 0xff, 0xff, 0xff}) + "a.", "byte 2: the file ends within a value");
  check_error(begin + bytes({0x8d, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), "the file ends within a value");
}

TEST_CASE("deep nesting is refused, by marks, by tuples and by lists") {
  check_error(begin + std::string(1000, '(') + ".", "deep");
  check_error(begin + ")" + std::string(1000, '\x85') + ".", "deep");
  check_error(begin + std::string(1000, ']') + std::string(999, 'a') + ".", "deep");
}

TEST_CASE("a container that contains itself is refused") {
  check_error(begin + "]q" + bytes({0}) + "h" + bytes({0}) + "a.", "contains itself");
  check_error(begin + "}q" + bytes({0}) + "K" + bytes({1}) + "h" + bytes({0}) + "s.", "contains itself");
}

TEST_CASE("values that are shared within one container are read") {
  const ValuePtr v = value_of(begin + "]q" + bytes({0}) + "h" + bytes({0}) + bytes({0x86}) + ".");
  CHECK((*v->list())[0] == (*v->list())[1]);
}

TEST_CASE("a list cannot be changed after it has become part of another") {
  // [[]] with the inner one remembered, recalled and appended to.
  check_error(begin + "]]q" + bytes({0}) + "a" + "h" + bytes({0}) + "K" + bytes({1}) + "a.", "became part of another");
}

TEST_CASE("shared values count as often as they are used, so small files cannot become large") {
  // Each level holds the one before 32 times: 32^8 values in 600 bytes.
  std::string pickle = begin + ")q" + bytes({0});
  for (int level = 1; level <= 8; ++level) {
    pickle += "(";
    for (int i = 0; i < 32; ++i) pickle += "h" + bytes({level - 1});
    pickle += "tq" + bytes({level});
  }
  check_error(pickle + "00.", "written out");
}

TEST_CASE("the memo has no gaps") {
  check_error(begin + "Nq" + bytes({1}) + ".", "memo entry 1 follows entry 0");
  check_error(begin + "Nr" + bytes({0xff, 0xff, 0xff, 0xff}) + ".", "memo entry");
  check_error(begin + "h" + bytes({0}) + ".", "was never made");
}

TEST_CASE("values may not be taken from below a mark, nor be left over") {
  check_error(begin + "N(\x85.", "stack is empty");
  check_error(begin + "NN.", "left over");
  check_error(begin + ".", "stack is empty");
  check_error(begin + "N.N", "after the end");
  check_error(begin + "}(Nu.", "a key has no value");
  check_error(begin + "}]Ns.", "the key of a dict is a list");
}

TEST_CASE("other protocols are refused") {
  check_error("(lp0\n.", "no pickle of protocol 2");
  check_error(bytes({0x80, 5}) + "N.", "protocol 5");
  check_error("", "no pickle");
}

}  // namespace
}  // namespace ccld::decision::dumps
