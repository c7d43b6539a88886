#include "probe/transport/curve_keys.h"

#include <fstream>

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "test/support/files/folder.h"

namespace ccld::probe {
namespace {

const std::string key = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
const std::string secret = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs";  // the pair of ZeroMQ's RFC 26

struct Files {
  std::string with(const std::string& name, const std::string& text) const {
    std::ofstream(folder.file(name)) << text;
    return folder.file(name);
  }
  test::Folder folder;
};

std::string refused(const std::string& server_key, const std::string& key_file) {
  std::string error;
  CHECK_FALSE(read_curve_keys(server_key, key_file, &error).has_value());
  CHECK(error.find('\n') == std::string::npos);
  return error;
}

bool names(const std::string& error, const std::string& part) { return error.find(part) != std::string::npos; }

TEST_CASE("without the settings no keys are used") {
  std::string error;
  const auto keys = read_curve_keys("", "", &error);
  REQUIRE(keys.has_value());
  CHECK_FALSE(keys->used());
}

TEST_CASE("the service's key is given as it is or as a file, the own one as a file") {
  const Files files;
  const std::string own = files.with("probe.key", "# of node7\nsecret " + secret + "\n");
  std::string error;
  for (const std::string& server :
       {key, files.with("service.pub", key + "\n"), files.with("named.pub", "public " + key)}) {
    const auto keys = read_curve_keys(server, own, &error);
    REQUIRE(keys.has_value());
    CHECK(keys->used());
    CHECK(keys->server == key);
    CHECK(keys->secret == secret);
  }
}

TEST_CASE("keys that cannot be used are one line that names the setting, and never no keys") {
  const Files files;
  const std::string own = files.with("probe.key", "secret " + secret);
  CHECK(names(refused(key, ""), "NCCL_PROBE_SERVER_KEY is set, and NCCL_PROBE_KEY_FILE is not"));
  CHECK(names(refused("", own), "NCCL_PROBE_KEY_FILE is set, and NCCL_PROBE_SERVER_KEY is not"));
  CHECK(names(refused("no key", own), "NCCL_PROBE_SERVER_KEY=\"no key\""));
  CHECK(names(refused(files.folder.file("none"), own), "No such file or directory"));
  CHECK(names(refused(key, files.folder.file("none")), "NCCL_PROBE_KEY_FILE="));
  CHECK(names(refused(key, files.with("empty", "")), "does not hold one key"));
  CHECK(names(refused(key, files.with("long", std::string(5000, 'x'))), "it is no file of a key"));
  CHECK(names(refused(key, files.folder.path.string()), "it is no file"));
  CHECK(names(refused(own, own), "NCCL_PROBE_SERVER_KEY="));  // somebody took the service's secret
  CHECK(names(refused(key, files.with("pub", "public " + key)), "it holds a public key"));
}

TEST_CASE("a pipe that nobody writes into is refused and not waited for") {
  const Files files;
  const std::string pipe = files.folder.file("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(names(refused(key, pipe), "it is no file"));
}

}  // namespace
}  // namespace ccld::probe
