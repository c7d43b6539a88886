#include "decision/server/surroundings.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "decision/model/printable.h"
#include "decision/server/host_port.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

// What a line says, printable: names of jobs, paths of requests and errors of others are in it, and none of them may
// write to the reader's terminal or begin a line of its own.
class PrintableText : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& line, const std::tm&, spdlog::memory_buf_t& to) override {
    const std::string text = printable({line.payload.data(), line.payload.size()});
    to.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override { return std::make_unique<PrintableText>(); }
};

}  // namespace

absl::Status naming(const char* option, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(option, ": ", status.message()));
}

absl::Status start_log(const std::string& level) {
  const auto parsed = spdlog::level::from_str(level);  // "off" for everything unknown
  if (parsed == spdlog::level::off && level != "off") {
    return absl::InvalidArgumentError(
        absl::StrCat("--log-level: '", level, "' is not known: trace, debug, info, warning, error, critical or off is expected"));
  }
  auto logger = std::make_shared<spdlog::logger>("ccld", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableText>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e ccld %^%l%$ %*");
  logger->set_formatter(std::move(formatter));
  logger->set_level(parsed);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

absl::StatusOr<int> open_stop_signals() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGINT);
  sigaddset(&stop, SIGTERM);
  signal(SIGPIPE, SIG_IGN);
  if (pthread_sigmask(SIG_BLOCK, &stop, nullptr) != 0) return absl::InternalError("cannot block signals");
  const int fd = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return absl::InternalError(absl::StrCat("cannot watch for signals: ", std::strerror(errno)));
  return fd;
}

int read_stop_signal(int fd) {
  signalfd_siginfo info{};
  return read(fd, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

absl::Status check_endpoint(absl::string_view endpoint) {
  if (!absl::ConsumePrefix(&endpoint, "tcp://")) return absl::OkStatus();
  const bool any_port = absl::ConsumeSuffix(&endpoint, ":*");
  return parse_host_port(absl::StrCat(endpoint, any_port ? ":0" : "")).status();
}

}  // namespace ccld::decision::server
