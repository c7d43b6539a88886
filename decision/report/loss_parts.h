// Where the time of a slow incident is lost, on the way that data takes: host, GPU, sender's proxy, network, receiver's
// proxy, receiving GPU. From the verdict alone, so that incidents of earlier runs have it, too.
// Pure. Threads: any.
#pragma once

#include <array>

#include "decision/report/verdict_json.h"

namespace ccld::decision::report {

enum class LossPart { host, gpu, send_proxy, wire, receive_proxy, receiving_gpu };
constexpr size_t loss_parts = 6;
const char* name(LossPart);

// Shares of the loss that the verdict names, 0..1. What culprits of no part (or of nobody) lose is in none.
std::array<double, loss_parts> loss_by_part(const Json& verdict);
// [{"part", "share", "ranks": [...]}], all six in the order above; empty: not slow, or nobody is named.
Json loss_json(const Json& verdict);

}  // namespace ccld::decision::report
