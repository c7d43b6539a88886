#include "decision/import/parse_json.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "decision/import/limits.h"
#include "nlohmann/json.hpp"

namespace ccld::decision::dumps {
namespace {

// Called by the parser for each piece of the text; false ends it.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return add(None{}); }
  bool boolean(bool b) override { return add(b); }
  bool number_integer(number_integer_t n) override { return add(int64_t{n}); }
  bool number_unsigned(number_unsigned_t n) override {
    if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return add(static_cast<double>(n));
    return add(static_cast<int64_t>(n));
  }
  bool number_float(number_float_t d, const string_t&) override { return add(d); }
  bool string(string_t& s) override { return add(std::move(s)); }
  bool binary(binary_t&) override { return refuse("binary data"); }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(string_t& s) override {
    open_.back().key = std::make_shared<const Value>(std::move(s));
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    status_ = absl::DataLossError(absl::StrCat("byte ", position, ": this is no JSON, or it ends too early"));
    return false;
  }

  absl::StatusOr<ValuePtr> result() const {
    if (!status_.ok()) return status_;
    if (!result_) return absl::DataLossError("byte 0: this is no JSON");
    return result_;
  }

 private:
  struct Open {
    bool is_dict = false;
    ValuePtr key;
    List items;
    Dict pairs;
  };
  bool refuse(std::string what) {
    status_ = absl::DataLossError(absl::StrCat("value ", values_, ": ", what));
    return false;
  }
  bool open(bool is_dict) {
    if (open_.size() >= static_cast<size_t>(depth_max))
      return refuse(absl::StrCat("containers are nested more than ", depth_max, " deep"));
    open_.emplace_back().is_dict = is_dict;
    return true;
  }
  bool close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    return done.is_dict ? add(std::move(done.pairs)) : add(std::move(done.items));
  }
  bool add(Value::Data data) {
    if (++values_ > values_max) return refuse(absl::StrCat("more than ", values_max, " values"));
    auto value = std::make_shared<const Value>(std::move(data));
    if (open_.empty())
      result_ = std::move(value);
    else if (open_.back().is_dict)
      open_.back().pairs.emplace_back(std::move(open_.back().key), std::move(value));
    else
      open_.back().items.push_back(std::move(value));
    return true;
  }

  std::vector<Open> open_;
  size_t values_ = 0;
  ValuePtr result_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<ValuePtr> parse_json(absl::string_view text) {
  Builder builder;
  nlohmann::json::sax_parse(text, &builder);
  return builder.result();
}

}  // namespace ccld::decision::dumps
