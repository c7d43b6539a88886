// A small text file of /proc or /sys that is opened once and read again and again: half the cost of opening it each
// time.
//
// Contract: nothing throws; what cannot be read is empty. Numbers are decimal. Threads: one for each file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ccld::probe {

class KernelFile {
 public:
  KernelFile() = default;
  // True if it can be opened.
  bool open(const std::string& path);
  bool is_open() const { return fd_ >= 0; }
  // The whole text, at most 4 KiB. A copy: a buffer of each thread would need room in the static thread storage, which
  // a library that is loaded late does not get.
  std::string read() const;
  // The number that the text begins with.
  std::optional<uint64_t> read_number() const;

  KernelFile(KernelFile&& other) noexcept;
  KernelFile& operator=(KernelFile&& other) noexcept;
  KernelFile(const KernelFile&) = delete;
  KernelFile& operator=(const KernelFile&) = delete;
  ~KernelFile();

 private:
  int fd_ = -1;
};

// The number at the start of `text`, behind blanks.
std::optional<uint64_t> number_at(std::string_view text);
// The number that follows `key` at the start of a line or behind a blank: "nr_throttled 17", "some avg10=0.00 total=5".
std::optional<uint64_t> number_after(std::string_view text, std::string_view key);
// The line that starts with `key`.
std::string_view line_of(std::string_view text, std::string_view key);
// Text without the white space at its end.
std::string_view trimmed(std::string_view text);

}  // namespace ccld::probe
