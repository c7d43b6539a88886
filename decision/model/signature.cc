#include "decision/model/signature.h"

#include "absl/strings/str_cat.h"
#include "decision/model/names.h"

namespace ccld::decision {

const char* name(SignatureField f) {
  switch (f) {
    case SignatureField::none: return "none";
    case SignatureField::function: return "function";
    case SignatureField::count: return "count";
    case SignatureField::datatype: return "datatype";
    case SignatureField::reduction: return "reduction";
    case SignatureField::root: return "root";
    case SignatureField::algorithm: return "algorithm";
    case SignatureField::protocol: return "protocol";
    case SignatureField::channels: return "channels";
  }
  return "?";
}

SignatureField difference(const Signature& a, const Signature& b) {
  if (a.function != b.function) return SignatureField::function;
  switch (a.function) {
    case abi::Function::send:
    case abi::Function::recv:
    case abi::Function::all_gather_v:
    case abi::Function::other: return SignatureField::none;
    default: break;
  }
  if (a.count != b.count) return SignatureField::count;
  if (a.datatype != b.datatype) return SignatureField::datatype;
  if (a.reduction != b.reduction) return SignatureField::reduction;
  if (a.root != b.root) return SignatureField::root;
  if (a.algorithm != b.algorithm && a.algorithm != abi::Algorithm::unknown && b.algorithm != abi::Algorithm::unknown)
    return SignatureField::algorithm;
  if (a.protocol != b.protocol && a.protocol != abi::Protocol::unknown && b.protocol != abi::Protocol::unknown)
    return SignatureField::protocol;
  if (a.channels != b.channels && a.channels != 0 && b.channels != 0) return SignatureField::channels;
  return SignatureField::none;
}

std::string field_text(const Signature& s, SignatureField f) {
  switch (f) {
    case SignatureField::none: return "";
    case SignatureField::function: return name(s.function);
    case SignatureField::count: return absl::StrCat(s.count);
    case SignatureField::datatype: return name(s.datatype);
    case SignatureField::reduction: return name(s.reduction);
    case SignatureField::root: return absl::StrCat(s.root);
    case SignatureField::algorithm: return name(s.algorithm);
    case SignatureField::protocol: return name(s.protocol);
    case SignatureField::channels: return absl::StrCat(s.channels);
  }
  return "";
}

bool needs_everybody(abi::Function f) {
  switch (f) {
    case abi::Function::all_reduce:
    case abi::Function::all_gather:
    case abi::Function::reduce_scatter:
    case abi::Function::all_to_all: return true;
    default: return false;
  }
}

bool is_barrier(const Signature& s, uint64_t bytes_max) {
  const uint64_t size = datatype_bytes(s.datatype);
  return s.function == abi::Function::all_reduce && size > 0 && s.count <= bytes_max / size;
}

Signature completed(Signature known, const Signature& other) {
  if (known.algorithm == abi::Algorithm::unknown) known.algorithm = other.algorithm;
  if (known.protocol == abi::Protocol::unknown) known.protocol = other.protocol;
  if (known.channels == 0) known.channels = other.channels;
  return known;
}

}  // namespace ccld::decision
