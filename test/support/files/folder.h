// A folder of a test's own, gone with the object, and the content of a file.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace ccld::test {

struct Folder {
  Folder() {
    char text[] = "/tmp/ccld-test-XXXXXX";
    if (mkdtemp(text) == nullptr) throw std::runtime_error("cannot make a temporary folder");
    path = text;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  std::string file(const std::string& name) const { return path / name; }
  std::filesystem::path path;
};

inline std::string content(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

}  // namespace ccld::test
