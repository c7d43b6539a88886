#include "decision/cluster/nats_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace ccld::decision::cluster {
namespace {

constexpr char library_names[][16] = {"libnats.so.3.4", "libnats.so"};

absl::StatusOr<NatsLibrary> resolved(void* handle) {
  NatsLibrary nats;
  const char* missing = nullptr;
  const auto resolve = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr) missing = name;
  };
#define CCLD_NATS_RESOLVE(name) resolve(nats.name, #name);
  CCLD_NATS_FUNCTIONS(CCLD_NATS_RESOLVE)
#undef CCLD_NATS_RESOLVE
  if (missing != nullptr)
    return absl::UnavailableError(absl::StrCat("libnats lacks ", missing, ": version 3.4 or newer is needed"));
  return nats;
}

absl::StatusOr<NatsLibrary> load() {
  std::string why;
  for (const char* name : library_names) {
    if (void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL); handle != nullptr) return resolved(handle);
    if (const char* const error = dlerror(); why.empty() && error != nullptr) why = error;
  }
  return absl::UnavailableError(absl::StrCat("NATS' C client cannot be loaded: ", why, " (Debian: libnats3.4)"));
}

}  // namespace

absl::StatusOr<const NatsLibrary*> load_nats() {
  static const absl::StatusOr<NatsLibrary> loaded = load();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace ccld::decision::cluster
