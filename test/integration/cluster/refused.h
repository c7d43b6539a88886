// A node that the NATS servers do not let in, while it is one service alone.
#pragma once

#include "test/integration/cluster/cpu_time.h"
#include "test/integration/cluster/nodes.h"

namespace ccld::test {

constexpr char refusal[] = "is tried again every";

// The line of the log with which it says so first; waits for it. It may be older than the line that it listens.
inline std::string refusal_of(const Node& node) {
  const std::string& all = node.service->child.error();
  if (!contains(all, refusal)) node.service->child.wait_for_error(refusal, start_max);
  INFO(node.log());
  const size_t at = all.find(refusal);
  REQUIRE(at != all.npos);
  const size_t begin = all.rfind('\n', at) + 1;
  return all.substr(begin, all.find('\n', at) - begin);
}

inline size_t refusals(const Node& node) {
  (void)node.log();  // what it has said by now
  const std::string& all = node.service->child.error();
  size_t count = 0;
  for (size_t at = all.find(refusal); at != all.npos; at = all.find(refusal, at + 1)) ++count;
  return count;
}

// It answers who asks it, with what its own probes say, and tells nobody.
inline void check_stands_alone(const Node& node) {
  INFO(node.name());
  CHECK_FALSE(node.cluster()["connected"].get<bool>());
  CHECK_FALSE(node.leads());
  Sender sender(node.service->telemetry);
  Mismatch{0xa1, {&sender, &sender}}.send(1);
  CHECK(wait_until([&] { return node.service->get("/v1/status")["incidents_open"] == 1; }));
  CHECK(node.told().empty());
}

// The processor time of a node from here on, as a part of one processor.
class Load {
 public:
  explicit Load(const Node& node) : pid_(node.service->child.pid()), cpu_s_(cpu_s(pid_)) {}
  double now() const { return (cpu_s(pid_) - cpu_s_) / std::chrono::duration<double>(Clock::now() - begun_).count(); }

 private:
  const pid_t pid_;
  const double cpu_s_;
  const Clock::time_point begun_ = Clock::now();
};

}  // namespace ccld::test
