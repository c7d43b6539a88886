#include "decision/trace/directory.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ccld::decision::trace {

std::string DirectoryComm::label(CommUid uid) const {
  return absl::StrCat(name.empty() ? absl::StrFormat("%016x", uid.value) : name, " (", rank_count, " ranks)");
}

void Directory::see(const Batch& batch) {
  for (const Payload& payload : batch.payloads) {
    const auto* up = std::get_if<CommUp>(&payload);
    if (up == nullptr || up->comm.value == 0) continue;
    DirectoryComm& comm = comms_.try_emplace(up->comm, DirectoryComm{.name = {}, .order = comms_.size(), .gpus = {}}).first->second;
    if (comm.gpus.contains(up->rank)) continue;  // told once more
    if (memberships_ >= settings_.memberships_max) {
      ++left_out_;
      continue;
    }
    ++memberships_;
    const size_t process = processes_.emplace(key_of(batch.process), processes_.size()).first->second;
    const auto [at, added] = gpu_of_.emplace(std::pair(process, up->cuda_device), static_cast<int>(gpus_.size()));
    if (added) {
      DirectoryGpu g;
      g.process = process;
      g.host = up->host.empty() ? batch.process.host : up->host;
      g.job = batch.job;
      g.bus_id = up->gpu_bus_id;
      g.pid = batch.process.pid;
      g.cuda_device = up->cuda_device;
      gpus_.push_back(std::move(g));
    }
    DirectoryGpu::Membership m{up->comm, up->rank, {}};
    for (const ChannelTopology& c : up->channels)
      for (const int32_t next : {c.ring_prev, c.ring_next})
        if (next >= 0 && std::find(m.neighbours.begin(), m.neighbours.end(), next) == m.neighbours.end()) m.neighbours.push_back(next);
    gpus_[static_cast<size_t>(at->second)].memberships.push_back(std::move(m));
    comm.gpus[up->rank] = at->second;
    comm.rank_count = up->rank_count;
    if (!up->name.empty()) comm.name = up->name;
  }
}

void Directory::number() {
  const DirectoryComm* all = nullptr;
  for (const auto& [uid, comm] : comms_)
    if (comm.gpus.size() == gpus_.size() && (!all || comm.order < all->order)) all = &comm;
  by_communicator_ = all != nullptr;
  std::vector<int> order(gpus_.size());
  std::iota(order.begin(), order.end(), 0);
  if (all) {
    for (const auto& [rank, gpu] : all->gpus) gpus_[static_cast<size_t>(gpu)].number = rank.value;
    std::sort(order.begin(), order.end(), [&](int a, int b) { return gpus_[static_cast<size_t>(a)].number < gpus_[static_cast<size_t>(b)].number; });
  } else {
    const auto place = [&](int i) {
      const DirectoryGpu& g = gpus_[static_cast<size_t>(i)];
      return std::tie(g.job, g.host, g.cuda_device, g.pid, g.process);
    };
    std::sort(order.begin(), order.end(), [&](int a, int b) { return place(a) < place(b); });
  }
  std::vector<DirectoryGpu> sorted;
  std::vector<int> now(gpus_.size());  // index of what was at an index
  for (const int i : order) {
    now[static_cast<size_t>(i)] = static_cast<int>(sorted.size());
    sorted.push_back(std::move(gpus_[static_cast<size_t>(i)]));
    if (!all) sorted.back().number = static_cast<int32_t>(sorted.size()) - 1;
  }
  gpus_ = std::move(sorted);
  for (auto& [place, gpu] : gpu_of_) gpu = now[static_cast<size_t>(gpu)];
  for (auto& [uid, comm] : comms_)
    for (auto& [rank, gpu] : comm.gpus) gpu = now[static_cast<size_t>(gpu)];
}

const DirectoryComm* Directory::comm(CommUid uid) const {
  const auto it = comms_.find(uid);
  return it == comms_.end() ? nullptr : &it->second;
}

int Directory::gpu(CommUid uid, Rank rank) const {
  const DirectoryComm* const c = comm(uid);
  if (c == nullptr) return nobody;
  const auto it = c->gpus.find(rank);
  return it == c->gpus.end() ? nobody : it->second;
}

int Directory::numbered(int32_t number) const {
  const auto it = std::lower_bound(gpus_.begin(), gpus_.end(), number, [](const DirectoryGpu& g, int32_t n) { return g.number < n; });
  return it == gpus_.end() || it->number != number ? nobody : static_cast<int>(it - gpus_.begin());
}

size_t Directory::process(const Batch& batch) const {
  const auto it = processes_.find(key_of(batch.process));
  return it == processes_.end() ? processes_.size() : it->second;
}

}  // namespace ccld::decision::trace
