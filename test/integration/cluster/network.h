// A network of the test's own, and another host in it that can be cut off. Nothing is changed in the machine's own one.
//
//    the test, NATS (10.78.1.1) ----- bus ----- a node (10.78.1.2)
//    probes, who asks (10.78.2.1) --- front --- the same node (10.78.2.2)
//
// Namespaces have no names: they exist as long as a process is in them.
#pragma once

#include <sched.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "test/integration/serve/service.h"

namespace ccld::test {

inline int shell(const std::string& line) {
  return run({"/bin/sh", "-c", "PATH=$PATH:/sbin:/usr/sbin; exec " + line}).status;
}

// This process leaves the machine's network. Empty: done, else why not.
inline std::string own_network() {
  if (geteuid() != 0) return "a network of the test's own needs root";
  if (shell("ip -V") != 0 || shell("nsenter --version") != 0) return "ip or nsenter is not installed";
  if (unshare(CLONE_NEWNET) != 0 || shell("ip link set lo up") != 0) return "a network namespace cannot be made here";
  return "";
}

class OtherHost {
 public:
  OtherHost() : holder_({"/usr/bin/env", "unshare", "--net", "sleep", "infinity"}) {
    const auto deadline = Clock::now() + start_max;
    while (inode("/proc/" + std::to_string(holder_.pid()) + "/ns/net") == inode("/proc/self/ns/net")) {
      if (Clock::now() > deadline) FAIL("no namespace: " << holder_.error());
      usleep(5'000);
    }
    wire("bus", "10.78.1");
    wire("front", "10.78.2");
    REQUIRE(within("ip link set lo up") == 0);
  }

  std::vector<std::string> command() const {
    return {"/usr/bin/env", "nsenter", "--net=/proc/" + std::to_string(holder_.pid()) + "/ns/net", "--"};
  }
  // Nothing comes through, and nobody is told so.
  void cut(const std::string& link) const { REQUIRE(shell("ip link set " + link + "0 down") == 0); }
  void mend(const std::string& link) const { REQUIRE(shell("ip link set " + link + "0 up") == 0); }

 private:
  static ino_t inode(const std::string& path) {
    struct stat about {};
    return stat(path.c_str(), &about) == 0 ? about.st_ino : inode("/proc/self/ns/net");
  }
  int within(const std::string& line) const {
    return shell("nsenter --net=/proc/" + std::to_string(holder_.pid()) + "/ns/net -- " + line);
  }
  void wire(const std::string& link, const std::string& network) const {
    const std::string ours = link + "0", theirs = link + "1";
    REQUIRE(shell("ip link add " + ours + " type veth peer name " + theirs + " netns " +
                  std::to_string(holder_.pid())) == 0);
    REQUIRE(shell("ip address add " + network + ".1/24 dev " + ours) == 0);
    REQUIRE(shell("ip link set " + ours + " up") == 0);
    REQUIRE(within("ip address add " + network + ".2/24 dev " + theirs) == 0);
    REQUIRE(within("ip link set " + theirs + " up") == 0);
  }

  ChildProcess holder_;
};

}  // namespace ccld::test
