#include "decision/import/value.h"

#include <algorithm>
#include <limits>

#include "absl/strings/string_view.h"

namespace ccld::decision::dumps {
namespace {

uint64_t saturated_sum(uint64_t a, uint64_t b) {
  constexpr uint64_t highest = std::numeric_limits<uint64_t>::max();
  return a > highest - b ? highest : a + b;
}

}  // namespace

Value::Value(Data data) : data_(std::move(data)) {
  const auto contain = [this](const Value& v) {
    depth_ = std::max(depth_, v.depth_ + 1);
    expanded_ = saturated_sum(expanded_, v.expanded_);
  };
  if (const List* items = list())
    for (const ValuePtr& v : *items) contain(*v);
  if (const Dict* items = dict())
    for (const auto& [key, v] : *items) {
      contain(*key);
      contain(*v);
    }
}

bool Value::number(double& out) const {
  if (const int64_t* n = integer())
    out = static_cast<double>(*n);
  else if (const double* d = std::get_if<double>(&data_))
    out = *d;
  else
    return false;
  return true;
}

const Value* Value::find(absl::string_view key) const {
  const Dict* items = dict();
  if (items == nullptr) return nullptr;
  const auto found = std::find_if(items->rbegin(), items->rend(), [key](const auto& item) {
    const std::string* text = item.first->text();
    return text != nullptr && *text == key;
  });
  return found == items->rend() ? nullptr : found->second.get();
}

const char* Value::kind() const {
  static constexpr const char* names[] = {"nothing", "a truth value", "an integer", "a number",
                                          "a text",  "a list",        "a dict"};
  return names[data_.index()];
}

}  // namespace ccld::decision::dumps
