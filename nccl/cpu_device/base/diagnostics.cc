#include "nccl/cpu_device/base/diagnostics.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace ccld::cpu_device {
namespace {

constexpr int line_bytes_max = 2048;

void write_line(const char* format, va_list arguments) {
  char line[line_bytes_max];
  int length = snprintf(line, sizeof line, "ccld-cpu-device: pid %d: ", static_cast<int>(getpid()));
  const int body = vsnprintf(line + length, sizeof line - length - 1, format, arguments);
  if (body > 0) length += body;
  if (length > line_bytes_max - 2) length = line_bytes_max - 2;
  line[length++] = '\n';
  // A reader that went away must not end the job; there is nowhere else to complain.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, length);
}

}  // namespace

void report(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
}

void fatal(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
  abort();
}

void fatal_configuration(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
  _exit(2);
}

}  // namespace ccld::cpu_device
