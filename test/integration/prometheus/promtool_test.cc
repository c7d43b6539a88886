// What Prometheus's own checker says about our metrics, alert rules and their tests.
#include <catch2/catch.hpp>

#include "decision/report/prometheus.h"
#include "test/integration/serve/child_process.h"
#include "test/support/files/folder.h"
#include "test/unit/server/full_snapshot.h"

namespace ccld::test {
namespace {

const std::string promtool = "/usr/bin/promtool";

void require_good(const std::vector<std::string>& command) {
  ChildProcess child(command);
  const int status = child.wait(std::chrono::seconds(60));  // it takes seconds on a busy machine
  INFO(child.output() << child.error());
  CHECK(status == 0);
}

}  // namespace

TEST_CASE("promtool has no complaint about any metric that there is") {
  const Folder folder;
  std::ofstream(folder.file("metrics")) << decision::report::prometheus_text(full_snapshot());
  require_good({"/bin/sh", "-c", promtool + " check metrics < " + folder.file("metrics")});
}

TEST_CASE("The alert rules and the configuration are valid") {
  require_good({promtool, "check", "rules", CCLD_RULES});
  require_good({promtool, "check", "config", CCLD_PROMETHEUS_YML});
}

TEST_CASE("Alerts fire when they should, say who, and end") {
  require_good({promtool, "test", "rules", CCLD_RULES_TEST});
}

}  // namespace ccld::test
