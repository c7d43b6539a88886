#include "schemas/abi/mapped_frame.h"

#include <cstdlib>
#include <fstream>

#include <catch2/catch.hpp>

#include "test/unit/schemas/synthetic_frame.h"

namespace ccld::abi {
namespace {

class TemporaryFile {
 public:
  TemporaryFile(const void* data, size_t bytes) {
    char name[] = "/tmp/ccld-mapped-frame-XXXXXX";
    const int fd = mkstemp(name);
    REQUIRE(fd >= 0);
    path_ = name;
    REQUIRE(write(fd, data, bytes) == static_cast<ssize_t>(bytes));
    ::close(fd);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST_CASE("a frame file is read without writing to it") {
  test::SyntheticFrame frame(1);
  frame.enter(77);
  TemporaryFile file(frame.memory(), frame.bytes());
  REQUIRE(chmod(file.path().c_str(), 0400) == 0);
  std::string error;
  auto mapped = MappedFrame::open(file.path(), &error);
  REQUIRE(mapped.has_value());
  const MappedFrame moved = std::move(*mapped);
  OpRecord record;
  CHECK(moved.view().read_operation(1, &record) == Found::yes);
  CHECK(record.count == 77);
}

TEST_CASE("files that are no frames are refused with a reason") {
  std::string error;
  CHECK_FALSE(MappedFrame::open("/nonexistent/frame", &error).has_value());
  CHECK(error == "No such file or directory");
  CHECK_FALSE(MappedFrame::open("/tmp", &error).has_value());
  CHECK(error == "not a regular file");
  TemporaryFile small("x", 1);
  CHECK_FALSE(MappedFrame::open(small.path(), &error).has_value());
  CHECK(error == "truncated: 1 bytes");
  const std::string zeros(100000, '\0');
  TemporaryFile other(zeros.data(), zeros.size());
  CHECK_FALSE(MappedFrame::open(other.path(), &error).has_value());
  CHECK(error.find("not a probing frame") == 0);
}

TEST_CASE("a link is not followed, wherever it leads") {
  test::SyntheticFrame frame(1);
  TemporaryFile file(frame.memory(), frame.bytes());
  const std::string link = file.path() + ".link";
  REQUIRE(symlink(file.path().c_str(), link.c_str()) == 0);
  std::string error;
  CHECK_FALSE(MappedFrame::open(link, &error).has_value());
  CHECK(error == "it is a link");
  unlink(link.c_str());
}

TEST_CASE("a file that is truncated while it is read is lost, and does not end its reader") {
  test::SyntheticFrame frame(1);
  frame.enter(77);
  TemporaryFile file(frame.memory(), frame.bytes());
  std::string error;
  const auto mapped = MappedFrame::open(file.path(), &error);
  REQUIRE(mapped.has_value());
  CHECK(mapped->owner() == geteuid());
  REQUIRE(truncate(file.path().c_str(), 0) == 0);
  OpRecord record;
  CHECK(mapped->view().read_operation(1, &record) != Found::yes);
  CHECK(mapped->lost());
}

}  // namespace
}  // namespace ccld::abi
