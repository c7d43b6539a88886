#include "probe/process/process_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "probe/agent/sources.h"
#include "probe/counters/log.h"
#include "probe/frames/frame_file.h"
#include "probe/frames/new_file.h"
#include "probe/monotonic.h"
#include "probe/settings.h"
#include "schemas/abi/process_build.h"
#include "schemas/build_id/build_id.h"

namespace ccld::probe {
namespace {

template <size_t size>
std::string text_of(const char (&field)[size]) {
  return std::string(field, strnlen(field, size));
}

void fill_identity(const ProcessFileOptions& options, ProcessFile& file) {
  const ProcessIdentity& process = process_identity();
  abi::ProcessIdentityPart& identity = file.header->identity;
  const auto offset = [&file](const void* part) {
    return static_cast<uint32_t>(static_cast<const char*>(part) - static_cast<const char*>(file.memory));
  };
  identity.abi_major = abi::process_abi_major;
  identity.abi_minor = abi::process_abi_minor;
  identity.file_bytes = static_cast<uint32_t>(file.bytes);
  identity.pid = process.name.pid;
  identity.pid_namespace = process.name.pid_namespace;
  identity.pid_start_ticks = process.start_ticks;
  identity.created_monotonic_ns = monotonic_ns();
  identity.metrics_offset = offset(file.metrics);
  identity.inits_offset = offset(file.inits);
  identity.inits_stride = sizeof(abi::InitRecord);
  identity.nets_offset = offset(file.nets);
  identity.nets_stride = sizeof(abi::NetRecord);
  copy_text(identity.host, options.host);
  copy_text(identity.boot_id, process.boot_id);
  copy_text(identity.job, options.job);
  auto* build = reinterpret_cast<abi::ProcessBuild*>(file.nets + abi::nets_max);
  copy_text(build->release, release_version());
  copy_text(build->build_id, build_id());
  identity.end_marker = abi::process_magic;
  store_release(identity.magic, abi::process_magic);
}

std::string host_name() {
  if (const char* given = getenv("NCCL_HOSTID")) return given;
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) return "";
  return name;
}

std::mutex create_mutex;
std::atomic<ProcessFile*> current{nullptr};
std::atomic<bool> settled{false};  // made, or never to be made

// The child's copy of the mapping is its parent's file. Kept where tools that look for lost memory find it.
std::atomic<ProcessFile*> of_parent{nullptr};
void leave_to_parent() {
  of_parent.store(current.exchange(nullptr, std::memory_order_relaxed), std::memory_order_relaxed);
  settled.store(true, std::memory_order_relaxed);
}

void remove_at_exit() {
  if (ProcessFile* file = current.load(std::memory_order_acquire)) process_file_unlink(*file);
}

ProcessFile* create_for_process() {
  if (!settings().enable) return nullptr;
  remove_files_of_previous_image(settings().frames_dir);
  std::string error;
  ProcessFile* file = process_file_create({settings().frames_dir, settings().job, host_name(), settings().frames_shared}, &error);
  if (!error.empty()) warn_once(Warning::frame_file, "no process file: " + error);
  if (file == nullptr) return nullptr;
  pthread_atfork(nullptr, nullptr, leave_to_parent);
  std::atexit(remove_at_exit);
  return file;
}

// Whether the file at `path` says that it belongs to this very process. `Header` begins with the fields of Identity.
template <class Identity>
bool is_ours(const std::string& path, uint32_t magic, Identity* identity) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  const ssize_t got = pread(file, identity, sizeof(*identity), 0);
  close(file);
  const ProcessIdentity& process = process_identity();
  return got == static_cast<ssize_t>(sizeof(*identity)) && identity->magic == magic && identity->pid == process.name.pid &&
         identity->pid_namespace == process.name.pid_namespace &&
         identity->pid_start_ticks == process.start_ticks && process.start_ticks != 0 &&
         text_of(identity->boot_id) == process.boot_id;
}

class Board final : public ProcessBoard {
 public:
  explicit Board(ProcessFile* file) : file_(file) {}

  void set_metric(abi::MetricId id, uint64_t value) override { metric_set(file_, id, value); }
  uint64_t metric(abi::MetricId id) const override { return metric_get(file_, id); }

  bool read_control(uint64_t seen_sequence, ControlWish* out) const override {
    const abi::ControlLine& line = file_->header->control;
    const uint64_t sequence = load_acquire(line.sequence);
    if (sequence == seen_sequence || sequence == 0 || sequence % 2 != 0) return false;
    out->sequence = sequence;
    out->fields = load_relaxed(line.fields);
    out->running = load_relaxed(line.running) != 0;
    out->sample_us = load_relaxed(line.sample_us);
    out->log = load_relaxed(line.log);
    out->budget_ppm = load_relaxed(line.budget_ppm);
    char endpoint[sizeof(line.endpoint)];
    for (size_t i = 0; i < sizeof(endpoint); ++i) endpoint[i] = load_relaxed(line.endpoint[i]);
    out->endpoint.assign(endpoint, strnlen(endpoint, sizeof(endpoint)));
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return load_relaxed(line.sequence) == sequence;  // else it was being written: next time
  }

  void show_control(const ControlInForce& state) override {
    if (file_->guard.lost())
      warn_once(Warning::file_lost, "nobody sees this process from outside any more: somebody has truncated " + file_->path);
    abi::ControlStateLine& line = file_->header->control_state;
    store_relaxed(line.refused_fields, state.refused_fields);
    store_relaxed(line.running, state.running ? 1u : 0u);
    store_relaxed(line.sample_us, state.sample_us);
    store_relaxed(line.log, state.log);
    store_relaxed(line.budget_ppm, state.budget_ppm);
    store_relaxed(line.period_us, state.period_us);
    copy_text(line.endpoint, state.endpoint);
    // Last: who waits for it finds the rest.
    store_release(line.applied_sequence, state.applied_sequence);
  }

 private:
  ProcessFile* const file_;
};

}  // namespace

ProcessFile* process_file_create(const ProcessFileOptions& options, std::string* error) {
  auto* file = new (std::nothrow) ProcessFile;
  if (file == nullptr) {
    *error = "out of memory";
    return nullptr;
  }
  const abi::ProcessName& name = process_identity().name;
  file->bytes = abi::process_file_bytes_with_build();
  file->path = options.folder + "/" + abi::process_file_name(name);
  // Under another name until it is complete: who lists the folder never meets half a file.
  const std::string unfinished = options.folder + "/." + abi::file_prefix(name) + ".unfinished";
  // The control line is for its user to write.
  file->memory =
      map_new_file(unfinished, file->bytes, options.shared ? Access::write_and_read_by_all : Access::write, error);
  const bool has_file = file->memory != nullptr;
  if (has_file) file->guard = abi::BusGuard::over(file->memory, file->bytes);
  if (!has_file) {
    file->memory = map_without_file(file->bytes);
    if (file->memory == nullptr) {
      delete file;
      return nullptr;
    }
  }
  file->header = static_cast<abi::ProcessHeader*>(file->memory);
  file->metrics = reinterpret_cast<uint64_t*>(file->header + 1);
  file->inits = reinterpret_cast<abi::InitRecord*>(file->metrics + abi::metrics_max);
  file->nets = reinterpret_cast<abi::NetRecord*>(file->inits + abi::inits_max);
  fill_identity(options, *file);
  if (has_file && rename(unfinished.c_str(), file->path.c_str()) != 0) {
    *error = "cannot create " + file->path + ": " + strerror(errno);
    unlink(unfinished.c_str());
    file->path.clear();
  }
  if (!has_file) file->path.clear();
  return file;
}

void process_file_unlink(ProcessFile& file) {
  if (!file.path.empty()) unlink(file.path.c_str());
}

void process_file_release(ProcessFile* file) {
  if (file == nullptr) return;
  file->guard = abi::BusGuard();
  munmap(file->memory, file->bytes);
  delete file;
}

unsigned remove_files_of_previous_image(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  if (listing == nullptr) return 0;
  const abi::ProcessName& own = process_identity().name;
  unsigned removed = 0;
  while (const dirent* entry = readdir(listing.get())) {
    abi::ProcessName name;
    uint32_t comm_number = 0;
    const std::string path = folder + "/" + entry->d_name;
    abi::ProcessIdentityPart process;
    abi::FrameIdentity frame;
    const bool stale =
        (abi::parse_frame_file_name(entry->d_name, &name, &comm_number) && name == own &&
         is_ours(path, abi::frame_magic, &frame)) ||
        (abi::parse_spare_file_name(entry->d_name, &name) && name == own && is_ours(path, abi::frame_magic, &frame)) ||
        (abi::parse_process_file_name(entry->d_name, &name) && name == own &&
         is_ours(path, abi::process_magic, &process));
    if (stale && unlink(path.c_str()) == 0) ++removed;
  }
  return removed;
}

ProcessFile* process_file() {
  if (settled.load(std::memory_order_acquire)) return current.load(std::memory_order_acquire);
  std::lock_guard<std::mutex> lock(create_mutex);
  if (!settled.load(std::memory_order_acquire)) {
    current.store(create_for_process(), std::memory_order_release);
    settled.store(true, std::memory_order_release);
  }
  return current.load(std::memory_order_acquire);
}

ProcessBoard* process_board() {
  ProcessFile* file = process_file();
  if (file == nullptr) return nullptr;
  static auto* const board = new Board(file);  // never destroyed: the thread may outlive static objects
  return board;
}

}  // namespace ccld::probe
