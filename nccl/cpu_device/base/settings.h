// Every environment variable of the CPU device, declared once in setting_table (settings.cc).
//
// Errors: a value that cannot be parsed or lies outside its range ends the process with one line that names the
// variable. Read once, at the first use of the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace ccld::cpu_device {

// What becomes of a launch of GPU code, which the CPU device cannot run.
enum class ForeignKernels {
  refuse,  // an error
  skip,    // a success that does nothing
};

struct Settings {
  unsigned device_count;
  uint64_t memory_bytes;               // of each device
  std::string control_path;            // empty: no control file
  std::optional<uint64_t> order_seed;  // empty: warps run in ascending order
  int abort_spins;
  size_t stack_bytes;
  unsigned watchdog_s;  // 0: off
  uint64_t poll_sleep_ns_min;
  uint64_t poll_sleep_ns_max;
  ForeignKernels foreign_kernels;
  bool refuses_registration;     // cudaHostRegister
  bool refuses_portable_memory;  // cudaHostAlloc with cudaHostAllocPortable
  bool nvswitch;                 // NVLink switches with multicast join the GPUs
  bool gpu_direct;               // GPUDirect RDMA
};

const Settings& settings();

struct SettingInfo {
  const char* variable;
  const char* default_text;
  const char* help;
};

// The table behind the README; terminated by the returned count.
const SettingInfo* setting_table(size_t* count);

}  // namespace ccld::cpu_device
