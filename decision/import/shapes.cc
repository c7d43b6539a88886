#include "decision/import/shapes.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "decision/model/digits.h"
#include "decision/model/signature.h"

namespace ccld::decision::dumps {
namespace {

using Tensors = std::vector<std::vector<int64_t>>;
using Types = std::vector<std::string>;

struct FunctionRow {
  absl::string_view type;
  abi::Function function;
};
// By the longest name that the type contains: "_all_gather_base" and "all_gather" are one function.
constexpr FunctionRow functions[] = {{"reduce_scatter", abi::Function::reduce_scatter},
                                     {"REDUCE_SCATTER", abi::Function::reduce_scatter},
                                     {"all_gather", abi::Function::all_gather},
                                     {"ALLGATHER", abi::Function::all_gather},
                                     {"all_reduce", abi::Function::all_reduce},
                                     {"allreduce", abi::Function::all_reduce},
                                     {"barrier", abi::Function::all_reduce},
                                     {"broadcast", abi::Function::broadcast},
                                     {"all_to_all", abi::Function::all_to_all},
                                     {"scatter", abi::Function::scatter},
                                     {"gather", abi::Function::gather},
                                     {"reduce", abi::Function::reduce},
                                     {"send", abi::Function::send},
                                     {"recv", abi::Function::recv}};

struct TypeRow {
  absl::string_view name;
  abi::Datatype type;
};
constexpr TypeRow types[] = {{"Float", abi::Datatype::float32},
                             {"Half", abi::Datatype::float16},
                             {"BFloat16", abi::Datatype::bfloat16},
                             {"Double", abi::Datatype::float64},
                             {"Int", abi::Datatype::int32},
                             {"Long", abi::Datatype::int64},
                             {"Byte", abi::Datatype::uint8},
                             {"Bool", abi::Datatype::uint8},
                             {"Char", abi::Datatype::int8},
                             {"Float8_e4m3fn", abi::Datatype::float8_e4m3},
                             {"Float8_e5m2", abi::Datatype::float8_e5m2}};

bool ends_with_any(absl::string_view type, std::initializer_list<absl::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [type](absl::string_view e) { return absl::EndsWith(type, e); });
}

// Ranks may give different sizes, or give them on one rank only.
bool sizes_are_free(const Shape& s) {
  return is_all_to_all(s) || ends_with_any(s.type, {"_v", "coalesced", "barrier", "split", "new_window"}) ||
         s.type == "scatter" || s.type == "gather";
}

// The elements and types of one side, compared; empty lists say nothing.
std::string side_difference(const char* side, const Tensors& usual_sizes, const Types& usual_types,
                            const Tensors& sizes, const Types& types) {
  if (!usual_sizes.empty() && !sizes.empty()) {
    const int64_t a = elements(usual_sizes), b = elements(sizes);
    if (a != b) return absl::StrCat(side, " elements differ: ", b, " against ", a);
  }
  const std::set<std::string> a(usual_types.begin(), usual_types.end()), b(types.begin(), types.end());
  if (!a.empty() && !b.empty() && a != b)
    return absl::StrCat(side, " data types differ: ", absl::StrJoin(b, ", "), " against ", absl::StrJoin(a, ", "));
  return "";
}

}  // namespace

bool is_all_to_all(const Shape& s) { return absl::StrContains(s.type, "all_to_all"); }

int64_t elements(const Tensors& tensors) {
  constexpr int64_t highest = std::numeric_limits<int64_t>::max();
  int64_t sum = 0;
  for (const auto& sizes : tensors) {
    int64_t product = 1;
    for (const int64_t d : sizes)
      if (__builtin_mul_overflow(product, d, &product)) return highest;
    if (__builtin_add_overflow(sum, product, &sum)) return highest;
  }
  return sum;
}

std::string difference(const Shape& usual, const Shape& other) {
  if (usual.type != other.type) return absl::StrCat("type differs: ", other.type, " against ", usual.type);
  if (sizes_are_free(usual)) return "";
  if (std::string out = side_difference("input", usual.inputs, usual.input_types, other.inputs, other.input_types);
      !out.empty())
    return out;
  return side_difference("output", usual.outputs, usual.output_types, other.outputs, other.output_types);
}

std::string transfer_difference(const Shape& send, const Shape& receive) {
  if (send.inputs.empty() || receive.outputs.empty()) return "";
  const int64_t a = elements(send.inputs), b = elements(receive.outputs);
  if (a != b) return absl::StrCat("elements differ: ", a, " sent, ", b, " expected");
  const std::set<std::string> from(send.input_types.begin(), send.input_types.end()),
      to(receive.output_types.begin(), receive.output_types.end());
  if (!from.empty() && !to.empty() && from != to)
    return absl::StrCat("data types differ: ", absl::StrJoin(from, ", "), " sent, ", absl::StrJoin(to, ", "),
                        " expected");
  return "";
}

std::string shape_text(const Shape& s) {
  const bool use_outputs = s.inputs.empty() || s.type == "recv";
  const Tensors& sizes = use_outputs ? s.outputs : s.inputs;
  const Types& kinds = use_outputs ? s.output_types : s.input_types;
  if (sizes.empty()) return s.type;
  return absl::StrCat(s.type, " of ", grouped(static_cast<uint64_t>(elements(sizes))),
                      kinds.empty() ? " elements" : absl::StrCat(" ", kinds[0]));
}

Signature signature_of(const Shape& s) {
  Signature out;
  out.function = abi::Function::other;
  for (const FunctionRow& row : functions)
    if (absl::StrContains(s.type, row.type)) {
      out.function = row.function;
      break;
    }
  const bool use_outputs = s.inputs.empty() || s.type == "recv";
  out.count = static_cast<uint64_t>(elements(use_outputs ? s.outputs : s.inputs));
  const Types& kinds = use_outputs ? s.output_types : s.input_types;
  for (const TypeRow& row : types)
    if (!kinds.empty() && kinds[0] == row.name) out.datatype = row.type;
  return out;
}

bool needs_all(const Shape& s) { return needs_everybody(signature_of(s).function); }

}  // namespace ccld::decision::dumps
