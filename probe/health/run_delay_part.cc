#include "probe/health/run_delay_part.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "probe/process/proxy_threads.h"

namespace ccld::probe {
namespace {

using abi::MetricId;

}  // namespace

std::optional<uint64_t> run_delay_ns(std::string_view schedstat) {
  // "80891 12345 17": ran, waited, how often. Who reads its own file has run; all 0: the kernel does not count.
  const std::optional<uint64_t> ran = number_at(schedstat);
  const size_t blank = schedstat.find(' ');
  if (!ran || blank == std::string_view::npos) return std::nullopt;
  const std::optional<uint64_t> waited = number_at(schedstat.substr(blank));
  return *ran == 0 && waited == uint64_t{0} ? std::nullopt : waited;
}

bool RunDelayPart::open(std::vector<std::string>* absent) {
  const std::string path = roots_.proc + "/self/schedstat";
  if (main_.open(path) && run_delay_ns(main_.read())) return true;
  main_ = KernelFile();
  absent->push_back("no " + path + ": how long threads wait for a processor is not known");
  return false;
}

std::string RunDelayPart::path_of(pid_t thread) const {
  return roots_.proc + "/self/task/" + std::to_string(thread) + "/schedstat";
}

// The file of a thread that has ended cannot be read; a new thread may have got its number.
std::optional<uint64_t> RunDelayPart::read_proxy(pid_t thread, Proxy& proxy) const {
  if (const auto delay_ns = run_delay_ns(proxy.file.read())) return delay_ns;
  proxy = Proxy();
  return proxy.file.open(path_of(thread)) ? run_delay_ns(proxy.file.read()) : std::nullopt;
}

void RunDelayPart::read(Instant, Metrics* out) {
  if (const auto delay_ns = run_delay_ns(main_.read()))
    add_metric(out, MetricId::process_main_run_delay_ns, static_cast<int64_t>(*delay_ns));
  uint64_t grown_ns = 0, threads = 0;
  for (const pid_t thread : proxy_threads()) {
    Proxy& proxy = proxies_[thread];
    const auto delay_ns = read_proxy(thread, proxy);
    if (!delay_ns) {
      proxies_.erase(thread);
      forget_proxy_thread(thread);
      continue;
    }
    grown_ns += *delay_ns - std::exchange(proxy.delay_ns, *delay_ns);
    ++threads;
  }
  if (threads == 0) return;
  proxy_delay_ns_ += grown_ns / threads;
  add_metric(out, MetricId::process_proxy_run_delay_ns, static_cast<int64_t>(proxy_delay_ns_));
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
