#include "schemas/abi/names.h"

#include <set>
#include <string>

#include <catch2/catch.hpp>

namespace ccld::abi {
namespace {

template <class Enum>
void check_distinct(int last) {
  std::set<std::string> names;
  for (int i = 0; i <= last; ++i) {
    const std::string name = name_of(static_cast<Enum>(i));
    CHECK(name != "?");
    names.insert(name);
  }
  CHECK(names.size() == static_cast<size_t>(last) + 1);
}

TEST_CASE("every value has its own name") {
  check_distinct<Function>(static_cast<int>(Function::other));
  check_distinct<Datatype>(static_cast<int>(Datatype::float8_e5m2));
  check_distinct<Reduction>(static_cast<int>(Reduction::user));
  check_distinct<Algorithm>(static_cast<int>(Algorithm::copy_engine));
  check_distinct<Protocol>(static_cast<int>(Protocol::simple));
  check_distinct<WaitKind>(static_cast<int>(WaitKind::credit));
  check_distinct<CommState>(static_cast<int>(CommState::init_failed));
  check_distinct<InitStage>(static_cast<int>(InitStage::failed));
  check_distinct<ServiceState>(static_cast<int>(ServiceState::other_key));
  check_distinct<NetKind>(static_cast<int>(NetKind::socket));
  check_distinct<LogVerbosity>(static_cast<int>(LogVerbosity::trace));
}

TEST_CASE("metrics are called what their ids are called") {
  CHECK(std::string(name_of(MetricId::agent_samples)) == "agent_samples");
  CHECK(std::string(name_of(MetricId::port_congestion_notifications)) == "port_congestion_notifications");
  CHECK(std::string(name_of(static_cast<MetricId>(60000))) == "?");
}

TEST_CASE("values of a newer writer have a name too") {
  CHECK(std::string(name_of(static_cast<Function>(200))) == "?");
  CHECK(std::string(name_of(static_cast<CommState>(200))) == "?");
  CHECK(std::string(name_of(Algorithm::unknown)) == "unknown");
}

}  // namespace
}  // namespace ccld::abi
