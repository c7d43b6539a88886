#include "probe/health/run_delay_part.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "probe/process/proxy_threads.h"

namespace ccld::probe {
namespace {

using abi::MetricId;

}  // namespace

bool RunDelayPart::open(std::vector<std::string>* absent) {
  const std::string self = roots_.proc + "/self/", path = self + "schedstat";
  // The stat file of the process counts the time of all its threads.
  if (main_.run.open(path, self + "task/" + std::to_string(getpid()) + "/stat")) return true;
  absent->push_back("no " + path + ": how long threads wait for a processor is not known");
  return false;
}

// The files of a thread that has ended cannot be read; a new thread may have got its number.
std::optional<ThreadRun::Look> RunDelayPart::look(pid_t thread, Thread& known, uint64_t elapsed_ns) const {
  if (const auto look = known.run.look(elapsed_ns)) return look;
  known = Thread();
  const std::string folder = roots_.proc + "/self/task/" + std::to_string(thread);
  return known.run.open(folder + "/schedstat", folder + "/stat") ? known.run.look(0) : std::nullopt;
}

void RunDelayPart::count_turns(const ThreadRun::Look& look, Thread& known) {
  const uint64_t turns_before = std::exchange(known.turns, look.turns),
                 waits_before_ns = std::exchange(known.turn_waits_ns, look.delay_ns);
  if (turns_before == 0) return;
  turns_ += look.turns - turns_before;
  turn_waits_ns_ += look.delay_ns - waits_before_ns;
}

void RunDelayPart::read(Instant now, Metrics* out) {
  const uint64_t elapsed_ns = now.monotonic_ns - std::exchange(read_ns_, now.monotonic_ns);
  add_metric(out, MetricId::process_run_read_monotonic_ns, static_cast<int64_t>(now.monotonic_ns));
  if (const auto look = main_.run.look(elapsed_ns)) {
    count_turns(*look, main_);
    add_metric(out, MetricId::process_main_run_delay_ns, static_cast<int64_t>(look->delay_ns));
    add_metric(out, MetricId::process_main_run_ns, static_cast<int64_t>(look->ran_ns));
  }
  uint64_t grown_ns = 0, ran_ns = 0, threads = 0;
  bool starved = false;
  for (const pid_t thread : proxy_threads()) {
    Thread& proxy = proxies_[thread];
    const auto look = this->look(thread, proxy, elapsed_ns);
    if (!look) {
      proxies_.erase(thread);
      forget_proxy_thread(thread);
      continue;
    }
    count_turns(*look, proxy);
    grown_ns += look->delay_ns - std::exchange(proxy.delay_ns, look->delay_ns);
    ran_ns += look->ran_ns - std::exchange(proxy.ran_ns, look->ran_ns);
    starved |= look->starved;
    ++threads;
  }
  if (starved) starved_ns_ += elapsed_ns;
  bool gpu_starved = false;
  std::map<pid_t, Thread> of_gpus;
  if (gpu_threads_)
    for (const pid_t id : *gpu_threads_) {
      Thread& known = of_gpus[id];
      if (const auto before = of_gpus_.find(id); before != of_gpus_.end()) known = std::move(before->second);
      const auto look = this->look(id, known, elapsed_ns);
      if (!look) {
        of_gpus.erase(id);
        continue;
      }
      count_turns(*look, known);
      gpu_starved |= look->starved;
    }
  of_gpus_ = std::move(of_gpus);
  if (gpu_starved) gpu_starved_ns_ += elapsed_ns;
  if (threads > 0) add_metric(out, MetricId::process_starved_ns, static_cast<int64_t>(starved_ns_));
  if (!of_gpus_.empty()) add_metric(out, MetricId::process_gpu_starved_ns, static_cast<int64_t>(gpu_starved_ns_));
  if (turns_ > 0) {
    add_metric(out, MetricId::process_turns, static_cast<int64_t>(turns_));
    add_metric(out, MetricId::process_turn_waits_ns, static_cast<int64_t>(turn_waits_ns_));
  }
  if (threads == 0) return;
  proxy_delay_ns_ += grown_ns / threads;
  proxy_ran_ns_ += ran_ns / threads;
  add_metric(out, MetricId::process_proxy_run_delay_ns, static_cast<int64_t>(proxy_delay_ns_));
  add_metric(out, MetricId::process_proxy_run_ns, static_cast<int64_t>(proxy_ran_ns_));
  add_metric(out, MetricId::process_proxy_threads, static_cast<int64_t>(threads));
}

bool ThreadsDelayPart::open(std::vector<std::string>*) {
  KernelFile own;
  // RunDelayPart has said that it does not exist.
  if (!own.open(roots_.proc + "/self/schedstat") || !run_delay_ns(own.read())) return false;
  folder_.reset(opendir((roots_.proc + "/self/task").c_str()));
  return folder_ != nullptr;
}

void ThreadsDelayPart::read(Instant, Metrics* out) {
  std::map<std::string, uint64_t> now_ns;
  rewinddir(folder_.get());
  while (const dirent* entry = readdir(folder_.get())) {
    if (entry->d_name[0] == '.') continue;
    if (now_ns.size() == threads_max) break;
    const std::string thread = entry->d_name;
    const int file = openat(dirfd(folder_.get()), (thread + "/schedstat").c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    char text[96];
    const ssize_t size = ::read(file, text, sizeof(text));
    close(file);
    if (size <= 0) continue;
    const auto waited_ns = run_delay_ns({text, static_cast<size_t>(size)});
    if (!waited_ns) continue;
    const auto before = delay_ns_.find(thread);
    const bool same = before != delay_ns_.end() && before->second <= *waited_ns;  // or its number was given again
    sum_ns_ += *waited_ns - (same ? before->second : 0);
    now_ns.emplace(thread, *waited_ns);
  }
  delay_ns_ = std::move(now_ns);
  add_metric(out, MetricId::process_run_delay_ns, static_cast<int64_t>(sum_ns_));
}

}  // namespace ccld::probe
