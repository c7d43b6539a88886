// Structs of telemetry.fbs, packed word by word: each word as the difference to the same word of a row shortly before.
// For states of which there are many alike: connection endpoints, proxies.
//
// Bytes: how many rows before (1 byte), then a column for each word (number_columns.h).
//
// Contract: pure; unpack() takes any bytes. Little-endian machines only, as the schema's structs are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "schemas/wire/number_columns.h"

namespace ccld::wire {

std::vector<uint8_t> pack_words(const void* rows, size_t count, size_t words);
bool unpack_words(const uint8_t* bytes, size_t size, void* rows, size_t count, size_t words);

template <class Struct>
constexpr size_t words_of = sizeof(Struct) / sizeof(uint32_t);

template <class Struct>
std::vector<uint8_t> pack(const std::vector<Struct>& rows) {
  static_assert(sizeof(Struct) % sizeof(uint32_t) == 0 && words_of<Struct> <= few_columns);
  return pack_words(rows.data(), rows.size(), words_of<Struct>);
}
// False: the bytes are not so many rows.
template <class Struct>
bool unpack(const uint8_t* bytes, size_t size, std::vector<Struct>& rows) {
  return unpack_words(bytes, size, rows.data(), rows.size(), words_of<Struct>);
}

}  // namespace ccld::wire
