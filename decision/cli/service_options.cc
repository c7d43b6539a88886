#include "decision/cli/service_options.h"

namespace ccld::decision {

CLI::Option* add_service_options(CLI::App& command, ServiceAddress& address, const char* names) {
  CLI::Option* url =
      command.add_option(names, address.url, "the service's query API; https:// if it has a certificate")
          ->type_name("URL")
          ->envname(service_url_variable)
          ->capture_default_str();
  command
      .add_option("--token-file", address.token_file,
                  "file with the token that the service demands; without it, CCLD_TOKEN itself")
      ->type_name("FILE")
      ->envname("CCLD_TOKEN_FILE");
  command.add_option("--ca-file", address.ca_file, "certificates that are trusted for https://; default: the system's")
      ->type_name("FILE")
      ->envname("CCLD_CA_FILE");
  return url;
}

}  // namespace ccld::decision
