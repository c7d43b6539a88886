// What is logged while it lives; tests of this program log nothing otherwise.
#pragma once

#include <memory>
#include <sstream>
#include <string>

#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace ccld::test {

class LogText {
 public:
  LogText() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~LogText() { spdlog::set_default_logger(before_); }
  LogText(const LogText&) = delete;
  size_t count(const std::string& part) const {
    const std::string text = text_.str();
    size_t n = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
    return n;
  }

 private:
  std::ostringstream text_;
  const std::shared_ptr<spdlog::logger> before_;
};

}  // namespace ccld::test
