#include "probe/agent/last_operations.h"

#include <algorithm>
#include <memory>
#include <new>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ccld::probe {
namespace {

constexpr size_t alignment = 16;  // FrameView asks for it, and new gives it
static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= alignment);

// The token of the newest kernel that the GPU has begun; 0: none.
uint32_t newest_begun(const abi::FrameView& frame) {
  uint32_t newest = 0;
  for (uint32_t c = 0; c < frame.channel_count(); ++c) {
    abi::RoundBegin begin;
    const uint32_t run = frame.newest_run(c);
    if (run == 0 || frame.read_begin(c, run, &begin) != abi::Found::yes) continue;
    if (newest == 0 || abi::distance(newest, begin.token) > 0) newest = begin.token;
  }
  return newest;
}

}  // namespace

std::optional<LastOperations> last_operations(const abi::FrameView& frame) {
  if (frame.state() < abi::CommState::ready || frame.identity().comm_uid == 0) return std::nullopt;
  LastOperations last;
  last.comm_uid = frame.identity().comm_uid;
  last.rank = frame.identity().rank;
  last.launched_op_seq = frame.launched_op_seq();
  last.entered_op_seq = frame.entered_op_seq();
  const uint32_t kernel = newest_begun(frame), stream = frame.stream_begun_token();
  const uint64_t oldest = last.entered_op_seq - std::min<uint64_t>(last.entered_op_seq, abi::ops_max);
  for (uint64_t op = last.entered_op_seq; op > oldest; --op) {
    abi::OpRecord record;
    if (frame.read_operation(op, &record) != abi::Found::yes) continue;
    // A graph runs it when it likes.
    if (record.plan == 0 || (record.flags & (abi::op_captured | abi::op_no_kernel)) != 0) continue;
    const uint32_t begun = (record.signals & abi::signal_stream) != 0 ? stream : kernel;
    if (begun == 0 || abi::distance(record.plan, begun) < 0) continue;
    last.begun_op_seq = op;
    break;
  }
  return last;
}

std::optional<LastOperations> read_last_operations(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  struct stat status {};
  std::unique_ptr<unsigned char[]> memory;
  size_t bytes = 0;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() && status.st_size > 0 &&
      static_cast<size_t>(status.st_size) <= frame_bytes_max)
    memory.reset(new (std::nothrow) unsigned char[static_cast<size_t>(status.st_size)]);
  while (memory != nullptr && bytes < static_cast<size_t>(status.st_size)) {
    const ssize_t n = read(fd, memory.get() + bytes, static_cast<size_t>(status.st_size) - bytes);
    if (n <= 0) break;
    bytes += static_cast<size_t>(n);
  }
  close(fd);
  const auto frame = abi::FrameView::open(memory.get(), bytes, nullptr);
  return frame ? last_operations(*frame) : std::nullopt;
}

}  // namespace ccld::probe
