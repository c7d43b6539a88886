// A communicator's life: how far its making comes; its frame is made and shown to the GPU, filled in when the
// communicator is ready, and taken away.
#include <cuda_runtime.h>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm.h"
#include "nccl.h"
#include "nccl/hooks/ccld_hooks.h"
#include "nccl/hooks/gpu_frames.h"
#include "nccl/hooks/hooked_comm.h"
#include "nccl/hooks/net_connections.h"
#include "nccl/hooks/own_log.h"
#include "nccl/hooks/watched_comms.h"
#include "nvmlwrap.h"
#include "param.h"
#include "probe/probe.h"
#include "schemas/abi/cuda_versions.h"
#include "schemas/abi/validation_library.h"
#include "transport.h"
#include "utils.h"

namespace ccld::hooks {
namespace {

unsigned channels_that_may_run(const ncclComm* comm) {
  int channels = comm->nChannels;
  for (int other : {comm->collChannels, comm->nvlsChannels, comm->p2pnChannels}) {
    if (other > channels) channels = other;
  }
  if (channels < 1) channels = 1;
  return static_cast<unsigned>(channels > MAXCHANNELS ? MAXCHANNELS : channels);
}

int nccl_version() {
  int version = 0;
  (void)ncclGetVersion(&version);
  return version;
}

// 0: not known.
uint32_t driver_cuda_version() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess) (void)cudaGetLastError();
  return static_cast<uint32_t>(version);
}

std::string host_name() {
  if (const char* given = ncclGetEnv("NCCL_HOSTID")) return given;
  char name[1024] = "";
  (void)getHostName(name, sizeof(name), '\0');
  return name;
}

std::string bus_id_text(int64_t bus_id) {
  char text[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE] = "";
  (void)int64ToBusId(bus_id, text);
  return text;
}

// Once, in NCCL's log.
void say_driver_needed(uint32_t driver) {
  static std::once_flag said;
  std::call_once(said, [driver] {
    const char* const needed = abi::driver_needed(CUDART_VERSION);
    char line[160];
    snprintf(line, sizeof(line), "built with CUDA %u.%u: needs driver %s or newer; the driver here is for CUDA %u.%u",
             abi::cuda_major(CUDART_VERSION), abi::cuda_minor(CUDART_VERSION), needed != nullptr ? needed : "of its time",
             abi::cuda_major(driver), abi::cuda_minor(driver));
    if (abi::driver_too_old(CUDART_VERSION, driver))
      warn(line);
    else
      inform(line);
  });
}

// NCCL adds its own hash of the communicator to what identifies hosts and processes.
uint64_t uid_of(const ncclComm* comm) {
  std::vector<probe::MemberId> members(static_cast<size_t>(comm->nRanks));
  for (int rank = 0; rank < comm->nRanks; ++rank) {
    const ncclPeerInfo& peer = comm->peerInfo[rank];
    members[static_cast<size_t>(rank)] = {peer.hostHash - comm->commHash, peer.pidHash - comm->commHash, peer.busId};
  }
  return probe::comm_uid(comm->commHash, members.data(), members.size(), comm->rank);
}

std::vector<probe::ChannelTopology> topology_of(const ncclComm* comm) {
  std::vector<probe::ChannelTopology> channels;
  static_assert(NCCL_MAX_TREE_ARITY == sizeof(probe::ChannelTopology::tree_down) / sizeof(int));
  for (int c = 0; c < comm->nChannels; ++c) {
    const ncclChannel& theirs = comm->channels[c];
    probe::ChannelTopology ours{};
    ours.channel = c;
    ours.ring_prev = theirs.ring.prev;
    ours.ring_next = theirs.ring.next;
    ours.tree_up = theirs.tree.up;
    for (int i = 0; i < NCCL_MAX_TREE_ARITY; ++i) ours.tree_down[i] = theirs.tree.down[i];
    ours.tree_depth = theirs.tree.depth;
    channels.push_back(ours);
  }
  return channels;
}

// Reads fields that NCCL's threads write without telling; each is one word.
abi::CommState state_of(const ncclComm* comm) {
  if (__atomic_load_n(&comm->revokedFlag, __ATOMIC_RELAXED) != 0) return abi::CommState::revoked;
  if (comm->abortFlag != nullptr && __atomic_load_n(comm->abortFlag, __ATOMIC_ACQUIRE) != 0)
    return abi::CommState::aborted;
  if (__atomic_load_n(&comm->finalizeCalled, __ATOMIC_RELAXED)) return abi::CommState::finalized;
  if (__atomic_load_n(&comm->destroyFlag, __ATOMIC_RELAXED) != 0) return abi::CommState::destroyed;
  return abi::CommState::ready;
}

abi::CommState current_state(const void* comm) { return state_of(static_cast<const ncclComm*>(comm)); }

abi::CommState end_state_of(const ncclComm* comm) {
  const abi::CommState state = state_of(comm);
  return state == abi::CommState::ready ? abi::CommState::destroyed : state;
}

// Its own connections through the network, and those of the communicators with which it shares resources.
void hear_of_connections(const ncclComm* comm, probe::Comm* told) {
  NetConnections::Listener listener;
  listener.hides = [told](uint32_t hidden) { probe::comm_hides(told, hidden); };
  listener.connected = [told](const NetConnection& connection, int peer) {
    const char* const name = connection.net_name.empty() ? nullptr : connection.net_name.c_str();
    probe::net_connection(told, connection.direction, connection.channel, peer, connection.net_device, name);
  };
  net_connections().joins(comm->sharedRes, comm, {comm->topParentRanks, comm->topParentRanks + comm->nRanks},
                          std::move(listener));
}

// Takes the frame away. No kernel of the communicator runs any more, or ever ran.
void end(ncclComm* comm, abi::CommState end_state) {
  net_connections().leaves(comm->sharedRes, comm);
  ccld_comm* hooked = comm->ccld;
  if (hooked == nullptr) return;
  comm->ccld = nullptr;
  watched_comms().remove(hooked);
  probe::comm_end(hooked->probe, end_state);
  retire_gpu_frame(hooked->probe, hooked->allocated);
  delete hooked;
}

// The members of a communicator that is split exchange colours before any of the children has a hash. Equal on all of
// them, and different for each split.
uint64_t split_hash(const ncclComm* parent, int child_count) {
  uint64_t hash = (parent->commHash ^ 0x73706c6974u) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 31) ^ static_cast<uint64_t>(child_count)) * 0xbf58476d1ce4e5b9u;
  return hash ^ (hash >> 29);
}

// For good: a child's configuration, and plugins that were told of it, may outlive the communicator. Names are few; of
// a program that makes them up without end, later ones are empty.
const char* kept_name(const char* name) {
  constexpr size_t names_max = 1 << 16;
  static std::mutex mutex;
  static auto* const names = new std::set<std::string, std::less<>>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto known = names->find(name);
  if (known != names->end()) return known->c_str();
  return names->size() < names_max ? names->emplace(name).first->c_str() : "";
}

// That by which links are tested is none of the job's.
bool is_for_validation(const ncclComm* comm) {
  return comm->config.commName != nullptr && strcmp(comm->config.commName, abi::validation_comm_name) == 0;
}

}  // namespace
}  // namespace ccld::hooks

using namespace ccld;

uint64_t ccld_split_entered(struct ncclComm* parent, int child_count) {
  hooks::connect_log();
  return probe::init_entered(hooks::split_hash(parent, child_count), parent->rank, parent->nRanks, parent->cudaDev);
}

void ccld_split_exchanged(uint64_t split) { probe::init_reached(split, abi::InitStage::ready, ncclSuccess, 0); }

void ccld_config_named(struct ncclComm* comm) {
  hooks::connect_log();
  if (probe::enabled() && comm->config.commName != nullptr)
    comm->config.commName = hooks::kept_name(comm->config.commName);
}

void ccld_init_entered(struct ncclComm* comm, int rank, int rank_count, int cuda_device) {
  hooks::connect_log();
  hooks::say_build(rank);
  if (!probe::enabled() || hooks::is_for_validation(comm)) return;
  comm->ccld_making = probe::init_entered(comm->commHash, rank, rank_count, cuda_device);
}

void ccld_init_bootstrapped(struct ncclComm* comm) {
  probe::init_reached(comm->ccld_making, abi::InitStage::bootstrapped, ncclSuccess, 0);
}

void ccld_init_failed(struct ncclComm* comm, uint64_t split, ncclResult_t result) {
  // That of the split has long been exchanged if there is one of the child.
  if (comm == nullptr || comm->ccld_making == 0) {
    probe::init_reached(split, abi::InitStage::failed, result, 0);
    return;
  }
  probe::init_reached(comm->ccld_making, abi::InitStage::failed, result, 0);
  hooks::end(comm, abi::CommState::init_failed);
}

void ccld_comm_created(struct ncclComm* comm, struct ncclKernelCommAndChannels* device_side) {
  hooks::connect_log();
  if (!probe::enabled() || hooks::is_for_validation(comm)) return;
  probe::CommSetup setup{};
  setup.rank = comm->rank;
  setup.rank_count = comm->nRanks;
  setup.cuda_device = comm->cudaDev;
  setup.channel_count = hooks::channels_that_may_run(comm);
  setup.nccl_version = static_cast<uint32_t>(hooks::nccl_version());
  setup.cuda_version = CUDART_VERSION;
  setup.driver_cuda_version = hooks::driver_cuda_version();
  hooks::say_driver_needed(setup.driver_cuda_version);
  hooks::GpuFrame frame;
  if (!hooks::make_gpu_frame(setup, &frame)) return;
  auto* hooked = new (std::nothrow) ccld_comm;
  if (hooked == nullptr) {
    probe::comm_end(frame.comm, abi::CommState::init_failed);
    hooks::retire_unwatched_gpu_frame(frame.comm, frame.allocated);
    return;
  }
  hooked->probe = frame.comm;
  hooked->allocated = frame.allocated;
  hooked->may_hold = probe::may_hold();
  const auto* header = static_cast<const abi::FrameHeader*>(probe::frame_memory(frame.comm));
  hooked->number = header->identity.comm_number;
  hooked->channel_count = setup.channel_count;
  hooked->stream_line = frame.device_address + offsetof(abi::FrameHeader, stream);
  for (unsigned c = 0; c < setup.channel_count; ++c) {
    device_side->channels[c].ccld =
        frame.device_address + probe::device_channels_offset(frame.comm) + c * sizeof(abi::DeviceChannel);
  }
  comm->ccld = hooked;
  hooks::hear_of_connections(comm, hooked->probe);
  probe::init_reached(comm->ccld_making, abi::InitStage::connected, ncclSuccess, hooked->number);
}

void ccld_comm_ready(struct ncclComm* comm, struct ncclComm* parent) {
  ccld_comm* hooked = comm->ccld;
  const uint32_t number = hooked != nullptr ? hooked->number : 0;
  probe::init_reached(comm->ccld_making, abi::InitStage::ready, ncclSuccess, number);
  if (hooked == nullptr) return;
  probe::CommIdentity identity;
  hooked->uid = hooks::uid_of(comm);
  identity.comm_uid = hooked->uid;
  identity.parent_uid = parent != nullptr && parent->ccld != nullptr ? parent->ccld->uid : 0;
  identity.comm_hash = comm->commHash;
  identity.node = comm->node;
  identity.node_count = comm->nNodes;
  identity.local_rank = comm->localRank;
  identity.gpu_bus_id = hooks::bus_id_text(comm->busId);
  identity.host = hooks::host_name();
  if (comm->config.commName != nullptr) hooked->name = comm->config.commName;
  identity.comm_name = hooked->name;
  identity.channels = hooks::topology_of(comm);
  identity.current_state = &hooks::current_state;
  identity.state_context = comm;
  hooked->proxy_state = comm->proxyState;
  if (!hooks::watched_comms().add(hooked)) probe::comm_unwatched();
  probe::comm_ready(hooked->probe, identity);
}

void ccld_device_comm_created(struct ncclComm* comm, bool internal, bool gin) {
  if (comm->ccld == nullptr) return;
  const uint32_t hidden = (internal ? 0u : abi::hidden_device_api) | (gin ? abi::hidden_gin : 0u);
  if (hidden != 0) probe::comm_hides(comm->ccld->probe, hidden);
}

void ccld_comm_ends(struct ncclComm* comm) { hooks::end(comm, hooks::end_state_of(comm)); }
