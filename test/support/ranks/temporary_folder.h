// A folder of a test's own, gone with the object.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace ccld::ranks {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/ccld-ranks-XXXXXX";
    if (mkdtemp(name) == nullptr) abort();
    path_ = name;
  }
  ~TemporaryFolder() {
    const std::string command = "rm -rf '" + path_ + "'";
    if (system(command.c_str()) != 0) fprintf(stderr, "cannot remove %s\n", path_.c_str());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ccld::ranks
