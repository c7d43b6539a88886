// `ccld frames`: prints the probing frames and process files of this host, also of a process that is stopped or was
// killed.
//
// Contract
//   Reads the files only (`clean` removes those of processes that are gone). Every frame is looked at twice, with
//   `pause` between, to see what moves. A file that cannot be read, or was written by another major version of the
//   probe, or belongs to another user, is one line of `errors`; the others are shown. Needs no service and knows
//   nothing of the rest of the decision service.
//
// Threads: any. (Paper, section 5.1: the probing frame.)
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

namespace ccld::decision {

struct FramesOptions {
  std::string dir = "/dev/shm";
  std::string proc_dir = "/proc";
  std::vector<uint32_t> pids;  // empty: all
  bool all = false;            // details of communicators with nothing in flight too
  bool json = false;
  double watch_s = 0;  // > 0: the command looks again and again
  bool clean = false;  // remove the files of processes that are gone
  std::function<void()> pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
};

struct FramesOutput {
  std::string text;
  std::vector<std::string> errors;
  bool failed = false;  // the folder cannot be read
};
FramesOutput show_frames(const FramesOptions&);

void add_frames_command(CLI::App& app);

}  // namespace ccld::decision
