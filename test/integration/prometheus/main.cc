#include <unistd.h>

#include <iostream>
#include <string>

#include "test/support/catch/catch.h"

int main(int argc, char** argv) {
  for (const std::string program : {"promtool", "prometheus", "prometheus-alertmanager"}) {
    if (access(("/usr/bin/" + program).c_str(), X_OK) == 0) continue;
    std::cout << "skipped: " << program << " is missing; apt-get install prometheus prometheus-alertmanager\n";
    return 77;
  }
  return ccld::test::run_tests(argc, argv);
}
