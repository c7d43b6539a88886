// How the CPU device speaks to its user: one line on stderr, prefixed "ccld-cpu-device:", written with one system call
// so that lines of several processes never mix.
//
// Threads: safe from any thread, also from a fiber.
#pragma once

namespace ccld::cpu_device {

void report(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Reports and aborts the process: what a GPU would answer with a fatal error at run time.
[[noreturn]] void fatal(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Reports and exits with status 2: a setting that cannot be used.
[[noreturn]] void fatal_configuration(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace ccld::cpu_device
