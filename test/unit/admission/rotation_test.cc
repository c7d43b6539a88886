#include "decision/admission/rotation.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "decision/admission/files.h"
#include "decision/admission/key_list.h"
#include "decision/admission/key_pair.h"
#include "test/support/files/folder.h"

namespace ccld::decision::admission {
namespace {

// A secret key in a file, and where its public one is.
struct InUse {
  InUse() {
    const KeyPair pair = make_key_pair().value();
    open = pair.open;
    std::ofstream(secret_file) << secret_file_text(pair);
    chmod(secret_file.c_str(), 0640);
    std::ofstream(list) << "# probes\n" << open << " job=llm host=n7 # team a\n";
    std::ofstream(public_file) << open << "\n";
  }
  std::string public_now() const { return public_key_of(read_secret_key(secret_file).value()).value(); }
  mode_t mode() const {
    struct stat about {};
    REQUIRE(stat(secret_file.c_str(), &about) == 0);
    return about.st_mode & 07777;
  }

  test::Folder folder;
  std::string secret_file = folder.file("key"), list = folder.file("list"), public_file = folder.file("pub"), open;
};

}  // namespace

TEST_CASE("A probe's new key may say what the old one may, which stays in the list") {
  InUse in_use;
  const auto rotated = rotate_probe_key(in_use.secret_file, in_use.list);
  REQUIRE(rotated.ok());
  CHECK(rotated->before == in_use.open);
  CHECK(rotated->now != in_use.open);
  CHECK(in_use.public_now() == rotated->now);
  CHECK(in_use.mode() == 0640);
  CHECK_FALSE(std::filesystem::exists(in_use.secret_file + ".new"));
  const KeyList list = KeyList::parse(test::content(in_use.list), in_use.list).value();
  REQUIRE(list.entries().size() == 2);
  const KeyEntry* const now = list.find(rotated->now);
  REQUIRE(now != nullptr);
  CHECK(now->jobs == std::vector<std::string>{"llm"});
  CHECK(now->hosts == std::vector<std::string>{"n7"});
  CHECK(now->comment == "team a");
}

TEST_CASE("The service's new key is where probes find it") {
  InUse in_use;
  const auto rotated = rotate_service_key(in_use.secret_file, in_use.public_file);
  REQUIRE(rotated.ok());
  CHECK(in_use.public_now() == rotated->now);
  CHECK(test::content(in_use.public_file) == "public " + rotated->now + "\n");
}

TEST_CASE("Where a new key cannot be told to who needs it, the old one stays") {
  InUse in_use;
  const InUse other;
  CHECK(absl::IsNotFound(rotate_probe_key(in_use.secret_file, other.list).status()));
  CHECK(absl::IsNotFound(rotate_probe_key(in_use.secret_file, in_use.folder.file("none")).status()));
  CHECK(absl::IsInvalidArgument(rotate_service_key(in_use.secret_file, other.public_file).status()));
  CHECK(in_use.public_now() == in_use.open);
  CHECK_FALSE(std::filesystem::exists(in_use.secret_file + ".new"));
}

TEST_CASE("A new key that was left beside the old one is not lost to another rotation") {
  InUse in_use;
  std::ofstream(in_use.secret_file + ".new") << "of a rotation that was cut off\n";
  const auto rotated = rotate_probe_key(in_use.secret_file, in_use.list);
  CHECK(absl::IsAlreadyExists(rotated.status()));
  CHECK(std::string(rotated.status().message()).find(in_use.secret_file + ".new") != std::string::npos);
  CHECK(in_use.public_now() == in_use.open);
}

}  // namespace ccld::decision::admission
