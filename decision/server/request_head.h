// Whether so much of a request has come that a thread can begin with it. Who has sent less waits without a thread.
// Pure. Threads: any.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace ccld::decision::server {

// Of so much at most; a longer head is judged by the thread. A browser's takes 2 KiB.
constexpr size_t head_bytes_max = 4096;

// `begin`: what has come. The whole head of a request; with TLS the whole first message of its handshake. True also for
// what is none of either: it is refused without waiting.
bool has_head(absl::string_view begin, bool tls);

}  // namespace ccld::decision::server
