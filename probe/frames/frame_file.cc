#include "probe/frames/frame_file.h"

#include <fcntl.h>
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
#include <new>
#include <set>
#include <string>

#include "probe/counters/log.h"
#include "probe/frames/comm.h"
#include "probe/frames/new_file.h"
#include "probe/frames/words.h"
#include "probe/monotonic.h"
#include "probe/process/process_file.h"
#include "probe/settings.h"

namespace ccld::probe {
namespace {

std::atomic<uint32_t> communicators_created{0};

std::string read_line(const char* path) {
  std::string line;
  FILE* file = fopen(path, "re");
  if (file == nullptr) return line;
  char buffer[1024];
  if (fgets(buffer, sizeof(buffer), file) != nullptr) line = buffer;
  fclose(file);
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  return line;
}

// Spare files of this process, which go with it. Never destroyed: communicators may end at the very end.
class SpareFiles {
 public:
  // False: the process is ending.
  bool add(const std::string& path) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return false;
    if (paths_.empty() && !announced_) {
      announced_ = true;
      std::atexit([] { spare_files().remove_all(); });
    }
    paths_.insert(path);
    return true;
  }
  void forget(const std::string& path) {
    std::lock_guard<std::mutex> lock(mutex_);
    paths_.erase(path);
  }
  static SpareFiles& spare_files() {
    static auto* const files = new SpareFiles;
    return *files;
  }

 private:
  void remove_all() {
    if (static_cast<uint32_t>(getpid()) != process_identity().name.pid) return;  // a forked child: they are its parent's
    std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    for (const std::string& path : paths_) unlink(path.c_str());
    paths_.clear();
  }

  std::mutex mutex_;
  std::set<std::string> paths_;
  bool announced_ = false, ended_ = false;
};

void lay_out(Comm& comm) {
  comm.header = static_cast<abi::FrameHeader*>(comm.memory);
  comm.operations = reinterpret_cast<abi::OpRecord*>(comm.header + 1);
  comm.p2ps = reinterpret_cast<abi::P2pRecord*>(comm.operations + abi::ops_max);
  comm.proxies = reinterpret_cast<abi::ProxyRecord*>(comm.p2ps + abi::p2ps_max);
  comm.proxy_times = reinterpret_cast<abi::ProxyTimes*>(comm.proxies + abi::proxies_max);
  comm.channels = reinterpret_cast<abi::DeviceChannel*>(comm.proxy_times + abi::proxies_max);
}

std::string reason(const std::string& what, int error) { return what + ": " + strerror(error); }

void fill_process_part(const FrameOptions& options, const Comm& comm) {
  const ProcessIdentity& process = process_identity();
  abi::FrameIdentity& identity = comm.header->identity;
  identity.abi_major = abi::frame_abi_major;
  identity.abi_minor = abi::frame_abi_minor;
  identity.file_bytes = static_cast<uint32_t>(comm.bytes);
  identity.channel_count = comm.setup.channel_count;
  const auto offset = [&comm](const void* part) {
    return static_cast<uint32_t>(static_cast<const char*>(part) - static_cast<const char*>(comm.memory));
  };
  identity.ops_offset = offset(comm.operations);
  identity.ops_stride = sizeof(abi::OpRecord);
  identity.p2ps_offset = offset(comm.p2ps);
  identity.p2ps_stride = sizeof(abi::P2pRecord);
  identity.proxies_offset = offset(comm.proxies);
  identity.proxies_stride = sizeof(abi::ProxyRecord);
  identity.proxy_times_offset = offset(comm.proxy_times);
  identity.proxy_times_stride = sizeof(abi::ProxyTimes);
  identity.channels_offset = offset(comm.channels);
  identity.channels_stride = sizeof(abi::DeviceChannel);
  identity.nccl_version = comm.setup.nccl_version;
  identity.mode = abi::mode_operations | abi::mode_steps | abi::mode_proxies;
  identity.comm_number = comm.number;
  identity.rank = comm.setup.rank;
  identity.rank_count = comm.setup.rank_count;
  identity.node = -1;
  identity.local_rank = -1;
  identity.cuda_device = comm.setup.cuda_device;
  identity.pid = process.name.pid;
  identity.pid_namespace = process.name.pid_namespace;
  identity.pid_start_ticks = process.start_ticks;
  identity.created_monotonic_ns = monotonic_ns();
  copy_text(identity.boot_id, process.boot_id);
  copy_text(identity.job, options.job);
  copy_text(identity.host, options.host);
  identity.end_marker = abi::frame_magic;
  store_relaxed(comm.header->state.state, static_cast<uint32_t>(abi::CommState::initializing));
  store_release(identity.magic, abi::frame_magic);
}

// Each word is mixed into the state by a 64-bit finalizer.
uint64_t mixed(uint64_t state, uint64_t word) {
  state ^= word + 0x9e3779b97f4a7c15u + (state << 6) + (state >> 2);
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  return state ^ (state >> 31);
}

// The order of the members counts, and all ranks have the same one.
uint64_t hash_of(uint64_t comm_hash, const MemberId* members, size_t member_count) {
  uint64_t state = mixed(mixed(0x243f6a8885a308d3u, comm_hash), member_count);
  for (size_t i = 0; i < member_count; ++i) {
    state = mixed(state, members[i].host_hash);
    state = mixed(state, members[i].pid_hash);
    state = mixed(state, static_cast<uint64_t>(members[i].bus_id));
  }
  return state;
}

}  // namespace

uint64_t process_start_ticks(uint32_t pid) {
  const std::string stat = read_line(("/proc/" + std::to_string(pid) + "/stat").c_str());
  // Field 2 is the program's name in parentheses and may hold anything; field 3 follows the last ')'.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  const char* cursor = stat.c_str() + name_end + 1;
  constexpr int first_field = 3;
  constexpr int start_time_field = 22;
  for (int field = first_field; field < start_time_field; ++field) {
    cursor += strspn(cursor, " ");
    cursor += strcspn(cursor, " ");
  }
  return strtoull(cursor, nullptr, 10);
}

const ProcessIdentity& process_identity() {
  static const ProcessIdentity identity = [] {
    const auto pid = static_cast<uint32_t>(getpid());
    return ProcessIdentity{{pid, abi::pid_namespace_of("/proc", "self")},
                           process_start_ticks(pid),
                           read_line("/proc/sys/kernel/random/boot_id")};
  }();
  return identity;
}

uint64_t CommUids::next(uint64_t comm_hash, const MemberId* members, size_t member_count, int rank) {
  const uint64_t base = hash_of(comm_hash, members, member_count);
  const uint64_t key = mixed(base, static_cast<uint64_t>(rank));
  uint64_t generation = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto [known, is_new] = made_.try_emplace(key, 0);
    generation = known->second++;
    if (is_new) {
      if (order_.size() < remembered_max) {
        order_.push_back(key);
      } else {
        made_.erase(order_[oldest_]);
        order_[oldest_] = key;
        oldest_ = (oldest_ + 1) % remembered_max;
      }
    }
  }
  const uint64_t uid = mixed(base, generation);
  return uid != 0 ? uid : 1;  // 0 means "not known yet"
}

Comm* frame_create(const FrameOptions& options, const CommSetup& setup, std::string* error) {
  if (setup.channel_count == 0 || setup.channel_count > abi::channels_max) {
    *error = "communicator with " + std::to_string(setup.channel_count) + " channels; the frame has room for 1 to " +
             std::to_string(abi::channels_max);
    return nullptr;
  }
  Comm* comm = new (std::nothrow) Comm;
  if (comm == nullptr) {
    *error = "out of memory";
    return nullptr;
  }
  comm->setup = setup;
  comm->setup.spare = nullptr;
  for (std::vector<uint64_t>& peers : comm->user.pair_seqs) peers.resize(setup.rank_count > 0 ? setup.rank_count : 0);
  comm->number = communicators_created.fetch_add(1, std::memory_order_relaxed) + 1;
  comm->bytes = abi::frame_bytes(setup.channel_count);
  comm->path = options.folder + "/" + abi::frame_file_name(process_identity().name, comm->number);
  // Under another name until it is complete: who lists the folder never meets half a frame.
  const std::string unfinished = options.folder + "/." + abi::file_prefix(process_identity().name) + "-" +
                                 std::to_string(comm->number) + ".unfinished";
  std::string present_path = unfinished;
  if (setup.spare != nullptr && setup.spare->bytes >= comm->bytes) {
    comm->memory = setup.spare->memory;
    comm->bytes = setup.spare->bytes;
    comm->borrowed = setup.spare->borrowed;
    comm->guard = std::move(setup.spare->guard);
    present_path = setup.spare->path;
    comm->file = setup.spare->file;
    memset(comm->memory, 0, comm->bytes);
    SpareFiles::spare_files().forget(present_path);
    delete setup.spare;
  } else {
    comm->memory =
        map_new_file(unfinished, comm->bytes, options.shared ? Access::read_by_all : Access::read, error, &comm->file);
    if (comm->memory == nullptr) {
      present_path.clear();
      comm->memory = map_without_file(comm->bytes);
    } else {
      comm->guard = abi::BusGuard::over(comm->memory, comm->bytes);
    }
  }
  const bool has_file = !present_path.empty();
  if (!has_file) comm->path.clear();
  if (comm->memory == nullptr) {
    delete comm;
    return nullptr;
  }
  lay_out(*comm);
  for (auto& of_peers : comm->user.pair_seqs) of_peers.assign(static_cast<size_t>(std::max(setup.rank_count, 0)), 0);
  fill_process_part(options, *comm);
  if (has_file && rename(present_path.c_str(), comm->path.c_str()) != 0) {
    *error = reason("cannot create " + comm->path, errno);
    unlink(present_path.c_str());
    comm->path.clear();
  }
  return comm;
}

void frame_publish_identity(Comm& comm, const CommIdentity& known) {
  abi::FrameIdentity& identity = comm.header->identity;
  store_relaxed(identity.comm_hash, known.comm_hash);
  store_relaxed(identity.parent_uid, known.parent_uid);
  store_relaxed(identity.node, known.node);
  store_relaxed(identity.node_count, known.node_count);
  store_relaxed(identity.local_rank, known.local_rank);
  copy_text(identity.gpu_bus_id, known.gpu_bus_id);
  copy_text(identity.host, known.host);
  copy_text(identity.comm_name, known.comm_name);
  store_relaxed(identity.comm_uid, known.comm_uid);
  frame_set_state(comm, abi::CommState::ready);
}

void frame_set_state(Comm& comm, abi::CommState state) {
  uint32_t& word = comm.header->state.state;
  if (static_cast<uint32_t>(state) > load_relaxed(word)) store_release(word, static_cast<uint32_t>(state));
}

void frame_hide(Comm& comm) {
  if (comm.path.empty() || comm.spare) return;
  const std::string folder = comm.path.substr(0, comm.path.rfind('/') + 1);
  const std::string hidden = folder + abi::spare_file_name(process_identity().name, comm.number);
  if (SpareFiles::spare_files().add(hidden)) {
    if (rename(comm.path.c_str(), hidden.c_str()) == 0) {
      comm.path = hidden;
      comm.spare = true;
      return;
    }
    SpareFiles::spare_files().forget(hidden);
  }
  unlink(comm.path.c_str());
  comm.path.clear();
}

void frame_unlink(Comm& comm) {
  if (!comm.path.empty()) unlink(comm.path.c_str());
}

// ---- probe/probe.h ------------------------------------------------------------------------------------------------

Comm* comm_create(const CommSetup& setup) {
  if (!enabled()) return nullptr;
  ProcessFile* process = process_file();  // before the first frame: it clears away what an earlier program image left
  if (process == nullptr) return nullptr;
  abi::ProcessIdentityPart& identity = process->header->identity;
  store_relaxed(identity.nccl_version, setup.nccl_version);
  store_relaxed(identity.cuda_version, setup.cuda_version);
  store_relaxed(identity.driver_cuda_version, setup.driver_cuda_version);
  std::string error;
  Comm* comm =
      frame_create({settings().frames_dir, settings().job, settings().frames_shared, identity.host}, setup, &error);
  if (comm == nullptr) {
    warn_once(Warning::frame_file, "a communicator is not watched: " + error);
    comm_unwatched();
  } else if (!error.empty()) {
    warn_once(Warning::frame_file, "a frame is kept without a file, where nobody but this process sees it: " + error);
  }
  return comm;
}

void* frame_memory(const Comm* comm) { return comm->memory; }

size_t frame_size(const Comm* comm) { return comm->bytes; }

size_t device_channels_offset(const Comm* comm) {
  return static_cast<size_t>(reinterpret_cast<const char*>(comm->channels) - static_cast<const char*>(comm->memory));
}

uint64_t comm_uid(uint64_t comm_hash, const MemberId* members, size_t member_count, int rank) {
  static auto* const process_uids = new CommUids;  // never destroyed: communicators may be made at the very end
  return process_uids->next(comm_hash, members, member_count, rank);
}

void net_connection(Comm* comm, abi::Direction direction, int channel, int peer, int net_device, const char* net_name) {
  if (comm == nullptr) return;
  std::lock_guard<std::mutex> lock(comm->connections_mutex);
  for (NetConnection& known : comm->connections) {
    if (known.direction == direction && known.channel == channel && known.peer == peer &&
        known.net_device == net_device)
      return;
  }
  comm->connections.push_back({direction, channel, peer, net_device, net_name != nullptr ? net_name : ""});
  comm->connections_version.fetch_add(1, std::memory_order_release);
}

void comm_hides(Comm* comm, uint32_t hidden) {
  if (comm == nullptr) return;
  const uint32_t before = __atomic_fetch_or(&comm->header->state.hidden, hidden, __ATOMIC_RELAXED);
  // Told with the connections.
  if ((before & hidden) != hidden) comm->connections_version.fetch_add(1, std::memory_order_release);
}

void comm_move(Comm* comm, void* memory) {
  memcpy(memory, comm->memory, comm->bytes);
  frame_unlink(*comm);
  comm->path.clear();
  comm->guard = abi::BusGuard();
  if (!comm->borrowed) munmap(comm->memory, comm->bytes);
  comm->memory = memory;
  comm->borrowed = true;
  lay_out(*comm);
}

FrameMemory* comm_retire(Comm* comm) {
  if (comm == nullptr) return nullptr;
  // A file that is not spare is that of the process that this one was forked from.
  auto* memory = new (std::nothrow) FrameMemory{comm->memory, comm->bytes,    comm->spare ? comm->path : std::string(),
                                                comm->file,   comm->borrowed, std::move(comm->guard)};
  delete comm;
  return memory;
}

void* frame_memory_address(const FrameMemory* memory) { return memory->memory; }

size_t frame_memory_size(const FrameMemory* memory) { return memory->bytes; }

bool frame_memory_intact(const FrameMemory* memory) {
  if (memory->guard.lost()) return false;
  struct stat status {};
  // A file that was removed or replaced keeps its pages as long as they are mapped.
  if (memory->path.empty() || lstat(memory->path.c_str(), &status) != 0) return true;
  const bool is_it = status.st_dev == memory->file.device && status.st_ino == memory->file.inode;
  return !is_it || static_cast<size_t>(status.st_size) >= memory->bytes;
}

void frame_memory_release(FrameMemory* memory) {
  if (memory == nullptr) return;
  if (!memory->path.empty()) {
    unlink(memory->path.c_str());
    SpareFiles::spare_files().forget(memory->path);
  }
  memory->guard = abi::BusGuard();
  if (!memory->borrowed) munmap(memory->memory, memory->bytes);
  delete memory;
}

void comm_release(Comm* comm) { frame_memory_release(comm_retire(comm)); }

}  // namespace ccld::probe
