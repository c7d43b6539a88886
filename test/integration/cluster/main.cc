// The tests of a cluster; skipped where nats-server is not installed, and those of a cut network where namespaces
// cannot be made.
#include "test/integration/cluster/nats_servers.h"
#include "test/integration/cluster/network.h"
#include "test/support/catch/catch.h"

int main(int argc, char** argv) {
  if (ccld::test::NatsServers::program().empty()) {
    std::puts("skipped: nats-server is not installed");
    return 77;
  }
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) != "[network]") continue;
    if (const std::string why = ccld::test::own_network(); !why.empty()) {
      std::printf("skipped: %s\n", why.c_str());
      return 77;
    }
  }
  return ccld::test::run_tests(argc, argv);
}
