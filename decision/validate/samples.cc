#include "decision/validate/samples.h"

namespace ccld::decision::validate {

const char* name(Check c) {
  switch (c) {
    case Check::gemm: return "gemm";
    case Check::memory: return "memory";
    case Check::host_to_device: return "host_to_device";
    case Check::device_to_host: return "device_to_host";
    case Check::link: break;
  }
  return "link";
}

const char* title(Check c) {
  switch (c) {
    case Check::gemm: return "GEMM";
    case Check::memory: return "GPU memory";
    case Check::host_to_device: return "host to GPU";
    case Check::device_to_host: return "GPU to host";
    case Check::link: break;
  }
  return "link";
}

bool parse_check(const std::string& text, Check& out) {
  for (const Check c : {Check::gemm, Check::memory, Check::host_to_device, Check::device_to_host, Check::link})
    if (text == name(c)) {
      out = c;
      return true;
    }
  return false;
}

}  // namespace ccld::decision::validate
