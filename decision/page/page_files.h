// The files of the page, which are part of the program.
#pragma once

#include <string_view>
#include <vector>

namespace ccld::decision::page {

struct File {
  std::string_view name;  // "index.html"
  const char* type;
  std::string_view bytes;
};

const std::vector<File>& files();

}  // namespace ccld::decision::page
