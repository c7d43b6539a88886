#include "schemas/abi/file_names.h"

#include <catch2/catch.hpp>

#include <string>

#include <unistd.h>

namespace ccld::abi {
namespace {

TEST_CASE("File names are read back, and only those") {
  const ProcessName process{4194304, 4026532345};
  CHECK(frame_file_name(process, 12) == "ccld-4194304-4026532345-12.frame");
  CHECK(process_file_name(process) == "ccld-4194304-4026532345.process");
  CHECK(spare_file_name(process, 12) == "ccld-4194304-4026532345-12.spare");
  ProcessName read;
  uint32_t number = 0;
  REQUIRE(parse_frame_file_name(frame_file_name(process, 12), &read, &number));
  CHECK(read == process);
  CHECK(number == 12);
  read = {};
  REQUIRE(parse_process_file_name(process_file_name(process), &read));
  CHECK(read == process);
  read = {};
  REQUIRE(parse_spare_file_name(spare_file_name(process, 12), &read));
  CHECK(read == process);
  CHECK_FALSE(parse_frame_file_name(spare_file_name(process, 12), &read, &number));
  CHECK_FALSE(parse_spare_file_name(frame_file_name(process, 12), &read));
  for (const char* other : {"ccld-1-2-3.frame.tmp", "ccld-1-2-.frame", "ccld-1-2.frame", "ccld-01-2-3.frame", "ccld--1-2-3.frame",
                            ".ccld-1-2-3.unfinished", "ccld-1-2.process2", "ccld-1.process", "ccld-01-2.process", ""}) {
    CAPTURE(other);
    CHECK_FALSE(parse_frame_file_name(other, &read, &number));
    CHECK_FALSE(parse_process_file_name(other, &read));
    CHECK_FALSE(parse_spare_file_name(other, &read));
  }
}

TEST_CASE("A process knows its pid namespace, and what is not known may be the same") {
  const uint32_t own = pid_namespace_of("/proc", "self");
  REQUIRE(own != 0);
  CHECK(pid_namespace_of("/proc", std::to_string(getpid())) == own);
  CHECK(pid_namespace_of("/proc/no-such-folder", "self") == 0);
  CHECK(same_pid_namespace(own, own));
  CHECK(same_pid_namespace(own, 0));
  CHECK(same_pid_namespace(0, own));
  CHECK_FALSE(same_pid_namespace(own, own + 1));
}

}  // namespace
}  // namespace ccld::abi
