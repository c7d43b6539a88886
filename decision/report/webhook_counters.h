// What the webhook has done, for the status and the metrics. Threads: any; plain data.
#pragma once

#include <cstdint>

namespace ccld::decision::report {

struct WebhookCounters {
  uint64_t delivered = 0;        // answered 2xx
  uint64_t refused = 0;          // the receiver will not take it, whenever it comes: not tried again
  uint64_t given_up = 0;         // tried for too long
  uint64_t replaced = 0;         // no room: a newer revision of the same incident went instead
  uint64_t dropped = 0;          // no room, and nothing newer of its incident
  uint64_t silenced = 0;         // closed while a silence fitted: nobody has to hear of it
  uint64_t failed_attempts = 0;  // posts that were not answered 2xx
  uint64_t queue_length = 0;     // deliveries that wait, or are being made
};

}  // namespace ccld::decision::report
