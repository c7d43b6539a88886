// What the service accepts from the wire. A message beyond a limit is rejected and counted, never trusted: whoever can
// reach the port can send anything. Each limit says why; relations are asserted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schemas/abi/frame.h"
#include "schemas/abi/process.h"

namespace ccld::decision::ingest {

// Fields of the schema are only ever appended, so one number covers all compatible senders. 2: a round is named by
// operation and replay, and steps of one kernel may belong to several operations. 3: rounds are packed. 4: those of
// all communicators of a batch together, and most of a heartbeat.
constexpr uint16_t schema_version_oldest = 2, schema_version_newest = 4;

// Probes send a batch when it has 256 KiB, and what comes on top is one payload. Larger ones are cut at the socket,
// before they are in memory; a message of this length that stops in the middle is memory that anyone can take.
constexpr size_t message_bytes_max = size_t{4} << 20;
constexpr size_t messages_per_batch_max = 16384;   // communicators of one process x payloads, generously
constexpr uint32_t verifier_tables_max = 1u << 18; // a communicator has at most 64 channel and 4096 connection tables
constexpr uint32_t verifier_depth_max = 8;         // Batch -> Message -> payload -> element is 4

constexpr int32_t rank_count_max = 1 << 20;
constexpr int32_t cuda_devices_max = 1024;
constexpr int32_t net_devices_max = 4096;
constexpr size_t text_bytes_max = 255;             // host, job, names; the frame has room for 63
constexpr size_t tree_children_max = 8;            // NCCL's arity is 3
constexpr size_t connections_max = 4096;
constexpr size_t rounds_per_message_max = 65536;
constexpr size_t links_per_message_max = 65536;
constexpr size_t operations_in_flight_max = 16;    // as the schema says
constexpr size_t lanes_max = size_t{abi::channels_max} * abi::directions * abi::lanes_per_direction;
constexpr size_t siblings_max = 4096;
constexpr size_t last_operations_max = 4096;       // the probe sends 64
constexpr size_t p2p_in_flight_max = 64;           // as the schema says
constexpr size_t metrics_per_message_max = 8192;   // some hundred ids, times the GPUs and ports of one machine
constexpr size_t net_queues_max = 4096;            // the process file has room for 256
constexpr uint32_t rate_us_max = 60'000'000;       // time between two samples
constexpr uint32_t parts_per_million = 1'000'000;

// Instants and durations become signed nanoseconds; half of the range leaves room for sums and differences.
constexpr uint64_t time_ns_max = uint64_t{1} << 62;
// Samples are taken before their batch is closed; a second is for probes that ask the clock once more.
constexpr uint64_t sample_ahead_ns_max = 1'000'000'000;
constexpr uint64_t sequence_max = uint64_t{1} << 62;

// The service's own bookkeeping.
constexpr size_t distinct_errors_max = 64;
constexpr size_t error_text_bytes_max = 300;
constexpr size_t processes_tracked_max = size_t{1} << 18;

static_assert(text_bytes_max < error_text_bytes_max);
static_assert(verifier_tables_max > 2 * messages_per_batch_max, "a batch at its message limit must pass the verifier");
static_assert(verifier_tables_max > connections_max + abi::channels_max);
static_assert(verifier_tables_max > 2 * metrics_per_message_max);
static_assert(net_queues_max >= abi::nets_max);

}  // namespace ccld::decision::ingest
