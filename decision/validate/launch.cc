#include "decision/validate/launch.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "decision/report/text_format.h"
#include "decision/validate/meeting.h"
#include "decision/validate/outcome.h"

extern char** environ;

namespace ccld::decision::validate {
namespace {

// By its path where it was started by one: hosts of a cluster have the same tree.
std::string own_program(const char* called) {
  char resolved[PATH_MAX];
  if (std::strchr(called, '/') != nullptr && realpath(called, resolved) != nullptr) return resolved;
  return called;
}

std::vector<std::string> environment_to_pass() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry)
    for (const char* begin : {"NCCL_", "LD_LIBRARY_PATH=", "CCLD_CPU_DEVICE_"})
      if (absl::StartsWith(*entry, begin)) out.emplace_back(*entry);
  return out;
}

std::vector<std::string> starter(const std::string& ssh, const std::string& host, const std::string& command) {
  std::vector<std::string> words = absl::StrSplit(ssh, ' ', absl::SkipEmpty());
  words.push_back(host);
  words.push_back(command);
  return words;
}

absl::StatusOr<pid_t> start(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return absl::UnavailableError(absl::StrCat("cannot start '", words[0], "': ", std::strerror(error)));
  return pid;
}

using Clock = std::chrono::steady_clock;

// Ends those that are left when the launcher gives up.
class Children {
 public:
  ~Children() {
    for (const auto& [pid, rank] : ranks_) kill(pid, SIGTERM);
    const auto end = Clock::now() + std::chrono::seconds(1);
    while (!empty() && wait(end)) {
    }
    for (const auto& [pid, rank] : ranks_) kill(pid, SIGKILL);
    for (const auto& [pid, rank] : ranks_) waitpid(pid, nullptr, 0);
  }
  void add(pid_t pid, size_t rank) { ranks_[pid] = rank; }
  bool empty() const { return ranks_.empty(); }
  // A rank that has ended, and its status; a signal counts as a shell counts it. Nothing: none ended until then.
  std::optional<std::pair<size_t, int>> wait(Clock::time_point end) {
    constexpr auto ask_again = std::chrono::milliseconds(20);
    for (;;) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (const auto found = ranks_.find(pid); found != ranks_.end()) {
        const size_t rank = found->second;
        ranks_.erase(found);
        return std::pair(rank, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
      }
      if (Clock::now() >= end) return std::nullopt;
      if (pid <= 0) std::this_thread::sleep_for(ask_again);
    }
  }
  std::vector<size_t> ranks() const {
    std::vector<size_t> out;
    for (const auto& [pid, rank] : ranks_) out.push_back(rank);
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  std::map<pid_t, size_t> ranks_;
};

}  // namespace

std::string quoted(const std::string& word) {
  constexpr char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  return absl::StrCat("'", absl::StrJoin(absl::StrSplit(word, '\''), "'\\''"), "'");
}

std::vector<std::string> without_hosts(int argc, char** argv) {
  std::vector<std::string> out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--print") continue;
    bool skipped = false;
    for (const char* name : {"--hosts", "--gpus", "--ssh", "--port"}) {
      if (word == name) ++i;  // its value is the next word
      skipped |= word == name || absl::StartsWith(word, absl::StrCat(name, "="));
    }
    if (!skipped) out.push_back(word);
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> rank_commands(const Options& o, const std::string& program,
                                                               const std::vector<std::string>& more,
                                                               const std::vector<std::string>& environment) {
  const size_t ranks = o.hosts.size() * static_cast<size_t>(o.gpus);
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string& host : o.hosts)
    for (int gpu = 0; gpu < o.gpus; ++gpu) {
      std::vector<std::string> words;
      if (!environment.empty()) words.push_back("env");
      for (const std::string& variable : environment) words.push_back(quoted(variable));
      words.push_back(quoted(program));
      for (const std::string& word : more) words.push_back(quoted(word));
      for (const std::string& word :
           {std::string("--ranks"), absl::StrCat(ranks), std::string("--rank"), absl::StrCat(out.size()),
            std::string("--gpu"), absl::StrCat(gpu), std::string("--meet"), absl::StrCat(o.hosts[0], ":", o.port)})
        words.push_back(quoted(word));
      out.emplace_back(host, absl::StrJoin(words, " "));
    }
  return out;
}

absl::StatusOr<int> launch_on_hosts(const Options& o, int argc, char** argv) {
  const auto commands = rank_commands(o, own_program(argv[0]), without_hosts(argc, argv), environment_to_pass());
  if (o.print) {
    for (const auto& [host, command] : commands)
      std::printf("%s %s %s\n", o.ssh.c_str(), host.c_str(), quoted(command).c_str());
    return exit_healthy;
  }
  Children children;
  for (size_t rank = 0; rank < commands.size(); ++rank) {
    const auto pid = start(starter(o.ssh, commands[rank].first, commands[rank].second));
    if (!pid.ok()) return pid.status();
    children.add(*pid, rank);
  }
  int result = exit_not_measured;
  auto end = Clock::time_point::max();
  while (!children.empty()) {
    const auto ended = children.wait(end);
    if (!ended) {  // a process that is stopped, or a GPU that never gives up its memory
      std::fprintf(stderr, "ccld-validate: rank %zu on %s, of %zu that are left, does not end\n", children.ranks()[0],
                   report::printable(commands[children.ranks()[0]].first).c_str(), children.ranks().size());
      return result;
    }
    const auto [rank, status] = *ended;
    if (status < exit_healthy || status > exit_not_measured)
      return absl::UnavailableError(absl::StrCat("rank ", rank, " on ", commands[rank].first, " cannot be run: '",
                                                 o.ssh, "' ended with ", status));
    if (rank != 0) continue;
    result = status;
    end = Clock::now() +
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(left_alone_s(o.timeout_s)));
  }
  return result;
}

}  // namespace ccld::decision::validate
