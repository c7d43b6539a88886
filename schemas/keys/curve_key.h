// Keys of telemetry (ZeroMQ's CURVE), as text and in files: what the probe and the service both read.
//
// Contract
//   A key is 32 bytes, written as 40 characters of Z85 (ZeroMQ's RFC 32). A secret key and a public one look alike, so
//   a file says which it holds:
//
//     # a comment
//     secret KEY
//
//   `public KEY` likewise; a key alone may be either. A file holds one key. No key begins with #: five characters of
//   which it is the first would be more than four bytes.
// Pure, no allocation. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ccld::keys {

constexpr size_t key_chars = 40;
// Longer than any file of one key with its comments.
constexpr size_t key_file_bytes_max = 4096;

constexpr std::string_view z85_characters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
static_assert(z85_characters.size() == 85);

// Five characters are four bytes: some of their combinations are more than that.
constexpr bool is_key(std::string_view text) {
  if (text.size() != key_chars) return false;
  uint64_t word = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digit = z85_characters.find(text[i]);
    if (digit == std::string_view::npos) return false;
    word = word * 85 + digit;
    if (i % 5 != 4) continue;
    if (word > UINT32_MAX) return false;
    word = 0;
  }
  return true;
}

enum class KeyKind : uint8_t { unnamed, secret, open };

struct FileKey {
  KeyKind kind = KeyKind::unnamed;
  std::string_view key;  // within the text; empty: the text does not hold one key
};

namespace internal {
constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
constexpr std::string_view stripped(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}
}  // namespace internal

// `text`: of the whole file.
constexpr FileKey key_in(std::string_view text) {
  FileKey found;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = internal::stripped(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    KeyKind kind = KeyKind::unnamed;
    const size_t word = line.find(' ');
    if (word != std::string_view::npos) {
      const std::string_view name = line.substr(0, word);
      kind = name == "secret" ? KeyKind::secret : name == "public" ? KeyKind::open : KeyKind::unnamed;
      if (kind != KeyKind::unnamed) line = internal::stripped(line.substr(word));
    }
    if (!is_key(line) || !found.key.empty()) return {};
    found = {kind, line};
  }
  return found;
}

}  // namespace ccld::keys
