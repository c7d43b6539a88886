#include "decision/cli/frames_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "decision/cli/exit_codes.h"
#include "decision/cli/frames_report.h"

namespace ccld::decision {
namespace {

namespace fs = std::filesystem;

// Whose file it is, if it has the name of one.
std::optional<abi::ProcessName> owner_of(const std::string& name, bool* is_process) {
  abi::ProcessName owner;
  uint32_t number = 0;
  *is_process = abi::parse_process_file_name(name, &owner);
  if (*is_process || abi::parse_frame_file_name(name, &owner, &number)) return owner;
  return std::nullopt;
}

// A file that cannot be read: its line. One that another version or nobody can read any more, of a process that is
// gone, is stale like any other.
std::string refuse(const FramesOptions& options, const LocalProcesses& processes, const std::string& path,
                   const std::string& reason) {
  if (reason == std::strerror(EACCES))
    return path + ": " + reason + ": it belongs to another user, only its owner or root may read it";
  bool is_process = false;
  std::error_code error;
  const auto owner = owner_of(fs::path(path).filename().string(), &is_process);
  if (owner && processes.may_exist(*owner)) return path + ": " + reason;
  if (!options.clean) return path + ": " + reason + "; no process has its pid (--clean removes it)";
  if (fs::remove(path, error)) return path + ": " + reason + "; no process had its pid: removed";
  return path + ": " + reason + "; cannot remove it: " + error.message();
}

template <class File, class Look>
struct Opened {
  std::string path;
  File file;
  Look look;
};

template <class File, class Look>
std::vector<Opened<File, Look>> open_all(const FramesOptions& options, const LocalProcesses& processes,
                                         const std::vector<std::string>& paths, std::vector<std::string>* errors) {
  std::vector<Opened<File, Look>> opened;
  for (const std::string& path : paths) {
    std::string reason;
    std::optional<File> file = File::open(path, &reason);
    if (!file) {
      // One that vanished between the listing and now has simply ended.
      if (reason != std::strerror(ENOENT)) errors->push_back(refuse(options, processes, path, reason));
      continue;
    }
    Look look = frames::look_at(file->view());
    opened.push_back({path, std::move(*file), std::move(look)});
  }
  return opened;
}

}  // namespace

FramesOutput show_frames(const FramesOptions& options) {
  FramesOutput output;
  std::error_code error;
  const LocalProcesses processes(options.proc_dir);
  std::vector<abi::ProcessName> chosen;
  for (const uint32_t pid : options.pids) chosen.push_back(processes.name_of(pid));
  const auto wanted = [&chosen](const abi::ProcessName& owner) {
    return chosen.empty() || std::any_of(chosen.begin(), chosen.end(), [&](const abi::ProcessName& c) {
             return c.pid == owner.pid && abi::same_pid_namespace(c.pid_namespace, owner.pid_namespace);
           });
  };
  std::vector<std::string> frame_paths, process_paths;
  std::error_code ignored;
  for (fs::directory_iterator it(options.dir, error), end; !error && it != end; it.increment(error)) {
    bool is_process = false;
    abi::ProcessName keeper;
    if (options.clean && abi::parse_spare_file_name(it->path().filename().string(), &keeper) && wanted(keeper) &&
        !processes.may_exist(keeper))
      fs::remove(it->path(), ignored);
    const auto owner = owner_of(it->path().filename().string(), &is_process);
    if (owner && wanted(*owner)) (is_process ? process_paths : frame_paths).push_back(it->path().string());
  }
  if (error) {
    output.errors.push_back(options.dir + ": " + error.message());
    output.failed = true;
    return output;
  }
  std::sort(frame_paths.begin(), frame_paths.end());
  std::sort(process_paths.begin(), process_paths.end());

  const auto opened_frames = open_all<abi::MappedFrame, frames::Look>(options, processes, frame_paths, &output.errors);
  const auto opened_processes =
      open_all<abi::MappedProcess, frames::ProcessLook>(options, processes, process_paths, &output.errors);
  if (!opened_frames.empty() || !opened_processes.empty()) options.pause();
  const auto clean = [&](const std::string& path, ProcessState process) {
    if (!options.clean || process != ProcessState::gone) return;
    if (!fs::remove(path, error) && error) output.errors.push_back(path + ": cannot remove it: " + error.message());
  };
  // Whoever may write to the folder can make a file that says it is of somebody else's process, or truncate his own.
  const auto is_believed = [&](const auto& opened, ProcessState state) {
    bool is_process = false;
    const bool lives = state == ProcessState::running || state == ProcessState::stopped;
    const auto name = owner_of(fs::path(opened.path).filename().string(), &is_process);
    const auto user = lives && name ? processes.user_of(*name) : std::nullopt;
    if (opened.file.lost())
      output.errors.push_back(opened.path + ": truncated while it was read");
    else if (user && *user != opened.file.owner())
      output.errors.push_back(opened.path + ": it belongs to user " + std::to_string(opened.file.owner()) +
                              ", the process to user " + std::to_string(*user));
    else
      return true;
    return false;
  };
  std::vector<frames::FrameReport> frame_reports;
  for (const auto& opened : opened_frames) {
    frames::FrameReport report =
        frames::report_frame(processes, opened.path, opened.file.view(), opened.look, options.all);
    if (!is_believed(opened, report.process)) continue;
    frame_reports.push_back(std::move(report));
    clean(opened.path, frame_reports.back().process);
  }
  std::vector<frames::ProcessReport> process_reports;
  for (const auto& opened : opened_processes) {
    frames::ProcessReport report =
        frames::report_process(processes, opened.path, opened.file.view(), opened.look, options.all);
    if (!is_believed(opened, report.process)) continue;
    process_reports.push_back(std::move(report));
    clean(opened.path, process_reports.back().process);
  }
  std::stable_sort(frame_reports.begin(), frame_reports.end(),
                   [](const frames::FrameReport& a, const frames::FrameReport& b) {
                     return std::tuple(a.identity.comm_uid, a.identity.rank, a.identity.pid) <
                            std::tuple(b.identity.comm_uid, b.identity.rank, b.identity.pid);
                   });
  if (options.json) {
    output.text = frames::to_json(frame_reports, process_reports, options.watch_s > 0);
    return output;
  }
  output.text = frame_reports.empty() ? "no frames in " + options.dir + "\n" : frames::to_text(frame_reports);
  if (!process_reports.empty()) output.text += "\n" + frames::to_text(process_reports);
  return output;
}

void add_frames_command(CLI::App& app) {
  auto options = std::make_shared<FramesOptions>();
  CLI::App* command = app.add_subcommand(
      "frames", "Print the probing frames of the processes on this host, also of a stopped or killed one");
  command->add_option("--dir", options->dir, "Folder of the frames (NCCL_PROBE_FRAMES_DIR)")
      ->envname("NCCL_PROBE_FRAMES_DIR")
      ->capture_default_str();
  command->add_option("--pid", options->pids, "Only of these processes, by their ids here, those of containers too");
  command->add_flag("--all", options->all,
                    "Channels, connection endpoints, proxies and queues also where nothing is in flight");
  command->add_flag("--json", options->json, "Print JSON; with --watch one line for each look");
  command
      ->add_option("--watch", options->watch_s, "Look again and again, with so many seconds between, until interrupted")
      ->type_name("SECONDS")
      ->expected(0, 1)
      ->default_str("1")
      ->check(CLI::Range(0.1, 86400.0));
  command->add_flag("--clean", options->clean, "Remove the files of processes that are gone, after printing them");
  command->callback([options] {
    const bool terminal = isatty(STDOUT_FILENO) != 0;
    std::set<std::string> said;  // a problem is told once, however often one looks
    for (;;) {
      const FramesOutput output = show_frames(*options);
      if (options->watch_s > 0 && terminal && !options->json) std::fputs("\x1b[H\x1b[2J", stdout);
      std::fputs(output.text.c_str(), stdout);
      const bool shown = std::fflush(stdout) == 0;
      for (const std::string& line : output.errors)
        if (said.insert(line).second) std::fprintf(stderr, "ccld frames: %s\n", line.c_str());
      if (output.failed || !shown) throw CLI::RuntimeError(exit_failed);
      if (options->watch_s <= 0) return;
      std::this_thread::sleep_for(std::chrono::duration<double>(options->watch_s));
      if (!options->json && !terminal) std::fputs("\n", stdout);
    }
  });
}

}  // namespace ccld::decision
