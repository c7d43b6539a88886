// What ThreadSanitizer must not complain about: libzmq is not instrumented, and the GPU's 16-byte stores have no
// counterpart in the language's memory model (readers check tokens instead).
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libzmq.so\nrace:libzmq.so\nrace:ccld::device::store_row\n";
}
#endif
