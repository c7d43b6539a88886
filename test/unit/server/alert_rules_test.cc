// The files of scripts/deploy/prometheus, compared with what is exported.
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>

#include "decision/report/prometheus.h"
#include "test/unit/server/full_snapshot.h"

namespace ccld::decision {

using namespace report;
using test::full_snapshot;

TEST_CASE("Alert rules and the dashboard ask for metrics that are exported") {
  std::set<std::string> exported;
  for (const auto& f : metric_families(full_snapshot())) exported.insert(f.name);
  for (const std::string file : {"ccld.rules.yaml", "dashboard.json"}) {
    std::ifstream in(CCLD_DEPLOY_PROMETHEUS "/" + file);
    REQUIRE(in.good());
    std::stringstream stream;
    stream << in.rdbuf();
    const std::string text = stream.str();
    const std::regex metric("ccld_[a-z0-9_]+");
    size_t asked = 0;
    for (std::sregex_iterator it(text.begin(), text.end(), metric), end; it != end; ++it, ++asked) {
      INFO(file << ": " << it->str());
      CHECK(exported.contains(it->str()));
    }
    CHECK(asked > 10);
  }
}

}  // namespace ccld::decision
