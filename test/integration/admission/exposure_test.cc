// Where the service refuses to listen.
#include "test/integration/admission/keys.h"

namespace ccld::test {

TEST_CASE("Beyond this host nobody listens without knowing who comes in, unless the operator says so") {
  require_refused({ccld, "serve", "--listen", "tcp://0.0.0.0:0", "--http", "127.0.0.1:0", "--no-history"}, 2,
                  "--listen tcp://0.0.0.0:0: everyone who reaches this address could send telemetry");
  require_refused({ccld, "serve", "--listen", "tcp://127.0.0.1:0", "--http", "0.0.0.0:0", "--no-history"}, 2,
                  "--http 0.0.0.0:0: everyone who reaches this address could ask");
  const Folder folder;
  require_refused({ccld, "record", "--listen", "tcp://*:0", folder.file("r")}, 2, "--insecure");
  CHECK_FALSE(std::filesystem::exists(folder.file("r")));

  Service insecure({"--listen", "tcp://0.0.0.0:0", "--http", "0.0.0.0:0", "--insecure"}, false);
  CHECK(contains(insecure.child.error(), "--insecure: everyone who reaches tcp://0.0.0.0:0 can send telemetry"));
  CHECK(contains(insecure.child.error(), "--insecure: everyone who reaches 0.0.0.0:0 can ask"));
}

TEST_CASE("With keys and tokens it listens everywhere, and says that the tokens are not encrypted") {
  const Folder folder;
  const Key key(folder, "service.key");
  std::ofstream(folder.file("keys")) << key.open << "\n";
  said({ccld, "tokens", "add", "--role", "read", "--list", folder.file("tokens")});
  Service service({"--listen", "tcp://0.0.0.0:0", "--http", "0.0.0.0:0", "--telemetry-secret-file", key.file,
                   "--telemetry-allow-file", folder.file("keys"), "--http-tokens-file", folder.file("tokens")},
                  false);
  CHECK(contains(service.child.error(), "cross the network unencrypted"));
  CHECK_FALSE(contains(service.child.error(), "--insecure"));
}

}  // namespace ccld::test
