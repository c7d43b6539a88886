#include "schemas/abi/cuda_versions.h"

#include <catch2/catch.hpp>

#include <string>

namespace ccld::abi {
namespace {

TEST_CASE("a driver runs what any toolkit of its major version has built") {
  CHECK(std::string(driver_needed(12000)) == "525.60.13");
  CHECK(std::string(driver_needed(12080)) == "525.60.13");
  CHECK(std::string(driver_needed(13000)) == "580.65.06");
  CHECK(driver_needed(0) == nullptr);
  CHECK(driver_needed(14000) == nullptr);
  CHECK_FALSE(driver_too_old(12080, 12020));  // driver 535
  CHECK_FALSE(driver_too_old(12080, 13000));
  CHECK(driver_too_old(13000, 12080));  // driver 570
  CHECK_FALSE(driver_too_old(13000, 0));
}

TEST_CASE("versions are read as CUDA writes them") {
  CHECK(cuda_major(12080) == 12);
  CHECK(cuda_minor(12080) == 8);
}

}  // namespace
}  // namespace ccld::abi
