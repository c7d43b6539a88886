// Plain data out of a dump: what JSON and pickles have in common. Values are shared where a pickle shares them and
// never change once they are made, so there are no circles.
//
// Contract
//   depth() and expanded() are known when a value is made: a builder refuses what is too deep or, written out, too
//   large (limits.h). Freeing one recurses at most depth_max times.
// Threads: any number of readers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace ccld::decision::dumps {

class Value;
using ValuePtr = std::shared_ptr<const Value>;
struct None {};
using List = std::vector<ValuePtr>;                       // tuples too
using Dict = std::vector<std::pair<ValuePtr, ValuePtr>>;  // of equal keys the last one counts

class Value {
 public:
  using Data = std::variant<None, bool, int64_t, double, std::string, List, Dict>;
  explicit Value(Data data);

  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const std::string* text() const { return std::get_if<std::string>(&data_); }
  const List* list() const { return std::get_if<List>(&data_); }
  const Dict* dict() const { return std::get_if<Dict>(&data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  // A number of either kind; false: it is none.
  bool number(double& out) const;
  // Of a dict, by a key that is a text; nullptr: it has none, or is no dict.
  const Value* find(absl::string_view key) const;

  int depth() const { return depth_; }
  uint64_t expanded() const { return expanded_; }
  const char* kind() const;  // "a list"

 private:
  Data data_;
  int depth_ = 1;
  uint64_t expanded_ = 1;
};

}  // namespace ccld::decision::dumps
