#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

#include "test/unit/probe/tsan_suppressions.h"
