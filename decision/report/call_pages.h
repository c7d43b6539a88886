// The documents about the calls of a communicator: how late its ranks came to the newest ones, and how many there were
// in the last quarter of an hour. README.md of this folder documents the schema.
//
// No document grows with the number of ranks: the worst ranks one by one, all of them as quantiles of groups of hosts,
// and each in pages. At most 1 MiB. Made in the thread that asks, from a snapshot.
// Errors: as in status_pages.h. Threads: any.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "decision/report/page_query.h"
#include "decision/report/status_json.h"

namespace ccld::decision::report {

// Ranks shown one by one; a screen full.
constexpr size_t worst_ranks_max = 50;
// 200 groups with three numbers of up to seven characters for each of 100 calls are 420 kB; lines of a page, too.
constexpr size_t late_groups_max = 200;

// /v1/communicators/<id>/calls
absl::StatusOr<Json> calls_json(const Snapshot&, const std::string& id);
// /v1/communicators/<id>/calls/ranks: in the order of the groups.
absl::StatusOr<Json> call_ranks_json(const Snapshot&, const std::string& id, const PageQuery&);
// /v1/communicators/<id>/history
absl::StatusOr<Json> call_history_json(const Snapshot&, const std::string& id);

}  // namespace ccld::decision::report
