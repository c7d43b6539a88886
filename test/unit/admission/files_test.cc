#include "decision/admission/files.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "test/support/files/folder.h"

namespace ccld::decision::admission {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat about {};
  REQUIRE(stat(path.c_str(), &about) == 0);
  return about.st_mode & 07777;
}

const std::string key = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";

}  // namespace

TEST_CASE("A secret file is its owner's alone, and never replaces another one") {
  const test::Folder folder;
  const std::string path = folder.file("key");
  REQUIRE(create_secret_file(path, "secret\n").ok());
  CHECK(mode_of(path) == 0600);
  CHECK_FALSE(others_can_read(path));
  CHECK(absl::IsAlreadyExists(create_secret_file(path, "another\n")));
  CHECK(test::content(path) == "secret\n");
  CHECK(create_secret_file(folder.file("no/such/folder"), "x").code() == absl::StatusCode::kNotFound);
}

TEST_CASE("A list is replaced whole and keeps its rights") {
  const test::Folder folder;
  const std::string path = folder.file("list");
  REQUIRE(replace_file(path, "one\n").ok());
  REQUIRE(chmod(path.c_str(), 0604) == 0);
  CHECK(others_can_read(path));
  REQUIRE(replace_file(path, "two\n").ok());
  CHECK(test::content(path) == "two\n");
  CHECK(mode_of(path) == 0604);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}

TEST_CASE("A file is read whole, up to what it may have") {
  const test::Folder folder;
  std::ofstream(folder.file("list")) << std::string(200'000, 'x');
  CHECK(read_file(folder.file("list"))->size() == 200'000);
  CHECK(absl::IsUnavailable(read_file(folder.file("list"), 100).status()));
  CHECK(absl::IsNotFound(read_file(folder.file("none")).status()));
  CHECK(read_file_if_any(folder.file("none")).value() == "");
  CHECK(absl::IsUnavailable(read_file(folder.path).status()));
}

TEST_CASE("A secret key is read from its file, and a public one is not taken for it") {
  const test::Folder folder;
  std::ofstream(folder.file("key")) << "# of the service\nsecret " << key << "\n";
  std::ofstream(folder.file("pub")) << "public " << key << "\n";
  std::ofstream(folder.file("junk")) << "junk\n";
  CHECK(*read_secret_key(folder.file("key")) == key);
  CHECK(absl::IsInvalidArgument(read_secret_key(folder.file("pub")).status()));
  CHECK(absl::IsInvalidArgument(read_secret_key(folder.file("junk")).status()));
}

}  // namespace ccld::decision::admission
