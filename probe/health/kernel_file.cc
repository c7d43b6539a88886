#include "probe/health/kernel_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <utility>

namespace ccld::probe {

bool KernelFile::open(const std::string& path) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  return fd_ >= 0;
}

std::string KernelFile::read() const {
  if (fd_ < 0) return {};
  char buffer[4096];
  const ssize_t size = pread(fd_, buffer, sizeof(buffer), 0);
  return size > 0 ? std::string(buffer, static_cast<size_t>(size)) : std::string();
}

std::optional<uint64_t> KernelFile::read_number() const { return number_at(read()); }

KernelFile::KernelFile(KernelFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

KernelFile& KernelFile::operator=(KernelFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

KernelFile::~KernelFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<uint64_t> number_at(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + start, text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::string_view line_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (line.substr(0, key.size()) == key) return line;
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return {};
}

std::optional<uint64_t> number_after(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at == 0 || text[at - 1] == '\n' || text[at - 1] == ' ') return number_at(text.substr(at + key.size()));
  }
  return std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t\n");
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

}  // namespace ccld::probe
