#include "nccl/cpu_device/control/control_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "nccl/cpu_device/base/clock.h"
#include "nccl/cpu_device/base/diagnostics.h"
#include "nccl/cpu_device/base/settings.h"
#include "nccl/cpu_device/control/fault_plan.h"
#include "nccl/cpu_device/control/faults.h"

namespace ccld::cpu_device {
namespace {

constexpr uint64_t poll_interval_ns = 10'000'000;
constexpr size_t file_bytes_max = 64 * 1024;

}  // namespace

std::string ControlFile::read() const {
  std::string text;
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char buffer[4096];
  for (ssize_t length; text.size() < file_bytes_max && (length = ::read(file, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(length));
  }
  close(file);
  return text;
}

void ControlFile::apply(const std::string& text) {
  const ParsedFaultPlan parsed = parse_fault_plan(text);
  for (const std::string& complaint : parsed.complaints) {
    if (reported_.insert(complaint).second) {
      report("control file %s: %s (line ignored)", path_.c_str(), complaint.c_str());
    }
  }
  set_faults(parsed.plan);
  applied_ = text;
}

void ControlFile::poll() {
  std::string text = read();
  const bool settled = text == last_read_;
  if (settled && text != applied_) apply(text);
  last_read_ = std::move(text);
}

void ControlFile::apply_now() {
  last_read_ = read();
  apply(last_read_);
}

void start_control_file() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (settings().control_path.empty()) return;
    auto* file = new ControlFile(settings().control_path);  // leaked: its thread lives as long as the process
    file->apply_now();
    std::thread([file] {
      pthread_setname_np(pthread_self(), "ccld-control");
      for (;;) {
        sleep_ns(poll_interval_ns);
        file->poll();
      }
    }).detach();
  });
}

}  // namespace ccld::cpu_device
