// Readable names of the values a verdict speaks of. The strings are part of the JSON and of the golden tests.
#pragma once

#include "decision/model/verdict.h"
#include "schemas/abi/frame.h"

namespace ccld::decision {

const char* name(abi::Function);   // "AllReduce"
const char* name(abi::Datatype);   // "float32"
const char* name(abi::Reduction);  // "sum"
const char* name(abi::Algorithm);  // "Ring"
const char* name(abi::Protocol);   // "Simple"

unsigned datatype_bytes(abi::Datatype);  // 0: unknown

}  // namespace ccld::decision
