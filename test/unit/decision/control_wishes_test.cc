#include "decision/model/control_wishes.h"

#include <catch2/catch.hpp>

#include "schemas/abi/process.h"

namespace ccld::decision {

TEST_CASE("What an operator wishes is read field by field") {
  ControlWishes w;
  for (const char* wish : {"running=0", "sample_us=500", "log=trace", "budget_ppm=0", "endpoint=tcp://10.0.0.1:5566"})
    REQUIRE(set_wish(w, wish).ok());
  CHECK_FALSE(w.running);
  CHECK(w.sample_us == 500);
  CHECK(w.log == static_cast<uint32_t>(abi::LogVerbosity::trace));
  CHECK(w.budget_ppm == 0);
  CHECK(w.endpoint == "tcp://10.0.0.1:5566");
  CHECK(control_field_names(w.fields) ==
        std::vector<std::string>{"running", "sample_us", "log", "endpoint", "budget_ppm"});
}

TEST_CASE("Several endpoints are a wish, too") {
  ControlWishes w;
  REQUIRE(set_wish(w, "endpoint=tcp://a:5566,tcp://b:5566").ok());
  CHECK(w.endpoint == "tcp://a:5566,tcp://b:5566");
}

TEST_CASE("A wish that cannot be is refused with the name of its field and its range, and changes nothing") {
  for (const std::string wish : {"sample_us=99", "sample_us=1000001", "sample_us=", "running=2", "log=loud",
                                 "budget_ppm=-1", "endpoint=udp://x", "endpoint=tcp://\n"}) {
    ControlWishes w;
    const absl::Status status = set_wish(w, wish);
    INFO(wish);
    REQUIRE_FALSE(status.ok());
    CHECK(std::string(status.message()).find(wish.substr(0, wish.find('=') + 1)) == 0);
    CHECK(w.fields == 0);
  }
  ControlWishes w;
  CHECK(std::string(set_wish(w, "colour=blue").message()).find("'colour' is not known") == 0);
  CHECK_FALSE(set_wish(w, "running").ok());
  CHECK_FALSE(set_wish(w, "endpoint", "tcp://" + std::string(90, 'x')).ok());
  CHECK_FALSE(set_wish(w, "endpoint", "tcp://a:1,").ok());
  CHECK_FALSE(set_wish(w, "endpoint", "tcp://a:1,udp://b:1").ok());
  CHECK(set_wish(w, "endpoint=").ok());  // send nothing
  CHECK_FALSE(set_wish(w, "endpoint=").ok());
}

}  // namespace ccld::decision
