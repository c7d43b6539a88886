// A folder of its own for a test, removed with everything in it.
#pragma once

#include <string>
#include <vector>

namespace ccld::probe {

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::vector<std::string> file_names() const;

 private:
  std::string path_;
};

}  // namespace ccld::probe
