#include "decision/import/fields.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "decision/import/limits.h"

namespace ccld::decision::dumps {

Fields::Fields(const Value* value, std::string place, absl::Status& status)
    : value_(value), place_(std::move(place)), status_(status) {
  if (value_ != nullptr && value_->dict() != nullptr) return;
  if (status_.ok())
    status_ = absl::DataLossError(absl::StrCat(place_.empty() ? "the document" : place_, ": a dict is expected, found ",
                                               value_ == nullptr ? "nothing" : value_->kind()));
  value_ = nullptr;
}

std::string Fields::place_of(absl::string_view key) const {
  return absl::StrCat(place_, place_.empty() ? "" : ".", key);
}

void Fields::refuse(absl::string_view key, absl::string_view why) {
  if (status_.ok()) status_ = absl::DataLossError(absl::StrCat(place_of(key), ": ", why));
}

void Fields::wrong(absl::string_view key, const char* wanted, const Value& found) {
  refuse(key, absl::StrCat(wanted, " is expected, found ", found.kind()));
}

const Value* Fields::optional(const char* key) const {
  const Value* v = value_ == nullptr ? nullptr : value_->find(key);
  return v == nullptr || v->is_none() ? nullptr : v;
}

const Value* Fields::required(const char* key) {
  const Value* v = optional(key);
  if (v == nullptr) refuse(key, "this is missing");
  return v;
}

int64_t Fields::integer(const char* key) { return required(key) == nullptr ? 0 : integer_or(key, 0); }

int64_t Fields::integer_or(const char* key, int64_t fallback) {
  const Value* v = optional(key);
  if (v == nullptr) return fallback;
  if (v->integer() != nullptr) return *v->integer();
  int64_t number = 0;
  if (v->text() != nullptr && absl::SimpleAtoi(*v->text(), &number)) return number;
  wrong(key, "an integer", *v);
  return fallback;
}

bool Fields::boolean_or(const char* key, bool fallback) {
  const Value* v = optional(key);
  if (v == nullptr) return fallback;
  if (v->boolean() != nullptr) return *v->boolean();
  wrong(key, "true or false", *v);
  return fallback;
}

double Fields::number_or(const char* key, double fallback) {
  const Value* v = optional(key);
  double number = 0;
  if (v == nullptr) return fallback;
  if (v->number(number)) return number;
  wrong(key, "a number", *v);
  return fallback;
}

std::string Fields::checked(const char* key, const Value& v) {
  if (v.text() == nullptr) {
    wrong(key, "a text", v);
    return "";
  }
  if (v.text()->size() > text_bytes_max) {
    refuse(key, absl::StrCat("a text of ", v.text()->size(), " bytes is too long"));
    return "";
  }
  return *v.text();
}

std::string Fields::text(const char* key) {
  const Value* v = required(key);
  return v == nullptr ? "" : checked(key, *v);
}

std::string Fields::text_or(const char* key, std::string fallback) {
  const Value* v = optional(key);
  return v == nullptr ? fallback : checked(key, *v);
}

const List& Fields::list(const char* key) {
  static const List none;
  const Value* v = optional(key);
  if (v == nullptr) return none;
  if (v->list() != nullptr) return *v->list();
  wrong(key, "a list", *v);
  return none;
}

}  // namespace ccld::decision::dumps
