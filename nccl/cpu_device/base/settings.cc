#include "nccl/cpu_device/base/settings.h"

#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "nccl/cpu_device/base/diagnostics.h"

namespace ccld::cpu_device {
namespace {

enum SettingIndex {
  setting_count,
  setting_memory,
  setting_control,
  setting_order_seed,
  setting_abort_spins,
  setting_stack,
  setting_watchdog,
  setting_poll_sleep,
  setting_poll_sleep_max,
  setting_foreign_kernels,
  setting_refused,
  setting_nvswitch,
  setting_gpu_direct,
  settings_total,
};

constexpr SettingInfo table[settings_total] = {
    {"CCLD_CPU_DEVICE_COUNT", "8", "GPUs this machine pretends to have, 1 to 64"},
    {"CCLD_CPU_DEVICE_MEMORY_MIB", "16384", "memory of each GPU in MiB; nothing is used until it is written"},
    {"CCLD_CPU_DEVICE_CONTROL", "", "path of the control file that plants device faults (none: no faults)"},
    {"CCLD_CPU_DEVICE_ORDER_SEED", "", "seed of a random warp order (none: warps run in ascending order)"},
    {"CCLD_CPU_DEVICE_ABORT_SPINS", "64", "polls between two looks at NCCL's abort flag, 2 to 1000000"},
    {"CCLD_CPU_DEVICE_STACK_KIB", "256", "stack of each CUDA thread in KiB, 32 to 8192"},
    {"CCLD_CPU_DEVICE_WATCHDOG_S", "30",
     "processor seconds after which a block that polls without yielding is reported; 0: never"},
    {"CCLD_CPU_DEVICE_POLL_SLEEP_US", "50", "first sleep of a block in which every thread polls, 1 to 100000"},
    {"CCLD_CPU_DEVICE_POLL_SLEEP_MAX_US", "1000", "longest such sleep, reached as the wait goes on, 1 to 100000"},
    {"CCLD_CPU_DEVICE_FOREIGN_KERNELS", "refuse",
     "launches of kernels that are GPU code, which is what nvcc makes of a program's own: `refuse` or `skip`"},
    {"CCLD_CPU_DEVICE_REFUSE", "",
     "what answers cudaErrorNotSupported, as in sandboxes: `registration` (cudaHostRegister), `portable` "
     "(cudaHostAlloc of portable memory), or both with a comma (none: nothing)"},
    {"CCLD_CPU_DEVICE_NVSWITCH", "0",
     "1: NVLink switches that do multicast join the GPUs, so that NCCL has NVLS; 0: the GPUs are on PCI"},
    {"CCLD_CPU_DEVICE_GPU_DIRECT", "0",
     "1: network devices may read and write the GPUs' memory (GPUDirect RDMA), if their driver says so; 0: they may not"},
};

std::optional<uint64_t> read_number(SettingIndex index, uint64_t least, uint64_t most) {
  const SettingInfo& setting = table[index];
  const char* text = getenv(setting.variable);
  if (text == nullptr || *text == '\0') text = setting.default_text;
  if (*text == '\0') return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = strtoull(text, &end, 10);
  if (errno != 0 || *end != '\0' || *text < '0' || *text > '9' || value < least || value > most) {
    fatal_configuration("%s=%s: expected a whole number from %llu to %llu", setting.variable, text,
                        static_cast<unsigned long long>(least), static_cast<unsigned long long>(most));
  }
  return value;
}

ForeignKernels read_foreign_kernels() {
  const SettingInfo& setting = table[setting_foreign_kernels];
  const char* text = getenv(setting.variable);
  const std::string value = text == nullptr || *text == '\0' ? setting.default_text : text;
  if (value == "refuse") return ForeignKernels::refuse;
  if (value != "skip") fatal_configuration("%s=%s: expected refuse or skip", setting.variable, value.c_str());
  return ForeignKernels::skip;
}

void read_refused(Settings* result) {
  const SettingInfo& setting = table[setting_refused];
  const char* text = getenv(setting.variable);
  std::stringstream words(text == nullptr ? "" : text);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "registration")
      result->refuses_registration = true;
    else if (word == "portable")
      result->refuses_portable_memory = true;
    else
      fatal_configuration("%s=%s: expected registration, portable, or both with a comma", setting.variable, text);
  }
}

Settings read_settings() {
  constexpr uint64_t kib = 1024;
  Settings result{};
  result.device_count = static_cast<unsigned>(*read_number(setting_count, 1, 64));
  result.memory_bytes = *read_number(setting_memory, 16, 1 << 20) * kib * kib;
  if (const char* path = getenv(table[setting_control].variable)) result.control_path = path;
  result.order_seed = read_number(setting_order_seed, 0, UINT64_MAX);
  result.abort_spins = static_cast<int>(*read_number(setting_abort_spins, 2, 1000000));
  result.stack_bytes = *read_number(setting_stack, 32, 8192) * kib;
  result.watchdog_s = static_cast<unsigned>(*read_number(setting_watchdog, 0, 86400));
  result.poll_sleep_ns_min = *read_number(setting_poll_sleep, 1, 100000) * 1000;
  result.poll_sleep_ns_max = *read_number(setting_poll_sleep_max, 1, 100000) * 1000;
  if (result.poll_sleep_ns_max < result.poll_sleep_ns_min) result.poll_sleep_ns_max = result.poll_sleep_ns_min;
  result.foreign_kernels = read_foreign_kernels();
  read_refused(&result);
  result.nvswitch = *read_number(setting_nvswitch, 0, 1) != 0;
  result.gpu_direct = *read_number(setting_gpu_direct, 0, 1) != 0;
  return result;
}

}  // namespace

const Settings& settings() {
  // Leaked: device threads may still run while the process exits.
  static const Settings* const instance = new Settings(read_settings());
  return *instance;
}

const SettingInfo* setting_table(size_t* count) {
  *count = settings_total;
  return table;
}

}  // namespace ccld::cpu_device
