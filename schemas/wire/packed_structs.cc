#include "schemas/wire/packed_structs.h"

#include <algorithm>
#include <cstring>

#include "schemas/wire/residuals.h"

namespace ccld::wire {
namespace {

// Ends of connections alternate between directions, peers and channels.
constexpr size_t distances[] = {1, 2, 4};

class Words {
 public:
  Words(void* rows, size_t words) : bytes_(static_cast<uint8_t*>(rows)), words_(words) {}
  uint32_t get(size_t row, size_t word) const {
    uint32_t value;
    std::memcpy(&value, at(row, word), sizeof value);
    return value;
  }
  void set(size_t row, size_t word, uint32_t value) { std::memcpy(at(row, word), &value, sizeof value); }

 private:
  uint8_t* at(size_t row, size_t word) const { return bytes_ + (row * words_ + word) * sizeof(uint32_t); }
  uint8_t* bytes_;
  size_t words_;
};

// Packs or unpacks, as `code` does.
template <class Code>
void each_word(Code& code, Words rows, size_t count, size_t words, size_t distance) {
  for (size_t word = 0; word < words; ++word)
    each_of(code, 0, count, [&](size_t row) {
      const uint32_t before = row < distance ? 0 : rows.get(row - distance, word);
      // In either direction, modulo 2^32.
      auto difference = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(rows.get(row, word) - before)));
      code(difference, 0);
      rows.set(row, word, before + static_cast<uint32_t>(difference));
    });
}

}  // namespace

std::vector<uint8_t> pack_words(const void* rows, size_t count, size_t words) {
  std::vector<uint8_t> copy(count * words * sizeof(uint32_t)), best;
  if (count > 0) std::memcpy(copy.data(), rows, copy.size());
  for (size_t distance : distances) {
    if (!best.empty() && distance >= count) break;
    ResidualWriter writer;
    each_word(writer, Words(copy.data(), words), count, words, distance);
    std::vector<uint8_t> packed = writer.finish();
    if (!best.empty() && packed.size() + 1 >= best.size()) continue;
    best.assign(1, static_cast<uint8_t>(distance));
    best.insert(best.end(), packed.begin(), packed.end());
  }
  return best;
}

bool unpack_words(const uint8_t* bytes, size_t size, void* rows, size_t count, size_t words) {
  if (size == 0 || bytes[0] == 0) return false;
  ResidualReader reader(bytes + 1, size - 1, count);
  each_word(reader, Words(rows, words), count, words, bytes[0]);
  return reader.good() && reader.ended();
}

}  // namespace ccld::wire
