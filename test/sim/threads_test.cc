// However many threads take telemetry in, what is said of a simulated job is the same, word for word.
#include <catch2/catch.hpp>

#include "test/sim/simulation.h"

namespace ccld::sim {
namespace {

std::vector<std::string> said(uint64_t seed, size_t threads) {
  std::vector<std::string> lines;
  RunOptions options;
  options.wishes.from_start = options.wishes.pipeline_links = 0.5;
  options.threads = threads;
  options.on_report = [&](const decision::Incident& i, const Layout& layout) {
    lines.push_back(describe(i, layout) + " " + i.title + " " + std::to_string(i.confidence));
    for (const decision::Evidence& e : i.evidence)
      lines.push_back(std::to_string(e.rank) + " " + decision::words(e) + " " + std::to_string(e.value));
  };
  run_seed(seed, options);
  return lines;
}

}  // namespace

TEST_CASE("what is said of a simulated job does not depend on the number of threads") {
  size_t lines = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    INFO("seed " << seed);
    const std::vector<std::string> one = said(seed, 1);
    CHECK(said(seed, 2) == one);
    CHECK(said(seed, 8) == one);
    lines += one.size();
  }
  CHECK(lines > 30);
}

}  // namespace ccld::sim
