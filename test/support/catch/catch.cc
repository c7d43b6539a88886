#define CATCH_CONFIG_RUNNER
#include "test/support/catch/catch.h"

#include <catch2/catch.hpp>

namespace ccld::test {

int run_tests(int argc, char** argv) { return Catch::Session().run(argc, argv); }

}  // namespace ccld::test
