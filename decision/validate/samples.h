// What `ccld-validate` measures, as plain data: who takes part, and how long each repetition of a check took.
// Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ccld::decision::validate {

enum class Check { gemm, memory, host_to_device, device_to_host, link };
constexpr Check gpu_checks[] = {Check::gemm, Check::memory, Check::host_to_device, Check::device_to_host};
const char* name(Check);   // "gemm" .. "link": in JSON
const char* title(Check);  // for people: "GEMM", "device memory"
bool parse_check(const std::string& text, Check& out);

// A rank is a process with one GPU.
struct Member {
  int rank = 0;
  std::string host;
  uint32_t pid = 0;
  int gpu = -1;  // CUDA device
  std::string bus_id;
  std::string model;  // "NVIDIA H100 80GB HBM3": GPUs of one model are peers
  bool cpu_device = false;  // it shares the processors of its host with the others there
};

// The repetitions of one check in one run of it. Of a link: a message and the receiver's answer, as the sender saw
// them.
struct Sample {
  Check check = Check::gemm;
  int rank = 0;      // of a link: who sends
  int peer = -1;     // of a link: who receives
  std::string kind;  // links of one kind are peers: "NET/Socket", "P2P/IPC"; empty: not known
  std::string net;   // network device of the sender; empty: none, or not known
  double bytes = 0;  // moved by a repetition; 0: it is no transfer
  int pass = -1;     // of links: those of one pass were tested at the same time
  std::vector<double> ms;
};

struct Measured {
  std::vector<Member> members;  // by rank
  std::vector<Sample> samples;  // a check may be there several times
};

}  // namespace ccld::decision::validate
