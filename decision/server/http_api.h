// The query API: GET /healthz, /v1/status, /v1/jobs[/<job>], /v1/communicators[/<id>[/ranks|/calls[/ranks]|/history]],
// /v1/processes,
// /v1/incidents[?since=&job=&class=&open=&limit=&after=], /v1/incidents/<id>[?revisions=1], /v1/tune/<sequence>,
// /v1/silences, /v1/cluster, /metrics; POST /v1/tune, /v1/validate, /v1/incidents/<id>/ack,
// /v1/silences[/<id>/end]. Lists come in pages (report/page_query.h); documents
// have an ETag, which changes with the snapshot.
// It answers from the newest snapshot in threads of its own; no request ever touches the analysis thread. (That a node
// does not lead any more /v1/cluster says at once.)
// Contract: with tokens every request but /healthz and the page's files needs one with the right role
// (request_role.h), wherever it comes from. Without, every request but /healthz needs a `Host` that is no stranger's
// (request_checks.h), and what changes anything (POST) is accepted from this host only, unless told otherwise, and
// under a name of ours. Either way it must come from no other web page, and as application/json. What a client may cost
// is bounded (http_server.h). Errors: open() names the address. Threads: open, start and stop from one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "decision/admission/book.h"
#include "decision/report/cluster_status.h"
#include "decision/server/acknowledge.h"
#include "decision/server/host_port.h"
#include "decision/server/reporter.h"
#include "decision/server/snapshot_store.h"
#include "decision/server/tls.h"
#include "decision/server/tune.h"

namespace ccld::decision::server {

struct HttpOptions {
  bool allow_remote_tune = false;
  bool allow_remote_ack = false;
  std::shared_ptr<const admission::TokenBook> tokens;  // nullptr: anybody may ask
  std::shared_ptr<const TlsBook> tls;               // nullptr: plain HTTP
  std::vector<std::string> names;     // of this service, in `Host`, besides addresses and localhost
  Nanoseconds look_max_ns = 30 * ns_per_s;  // /healthz: not well when the newest look is older (--health-look-max-s)
  Nanoseconds (*clock_ns)() = nullptr;      // of the looks
};

class HttpApi {
 public:
  static absl::StatusOr<std::unique_ptr<HttpApi>> open(const HostPort&, std::shared_ptr<const SnapshotStore>,
                                                       std::shared_ptr<TuneQueue>, const HttpOptions&);
  ~HttpApi();

  const HostPort& address() const;  // with the port that was picked
  std::string url() const;          // "https://10.0.0.5:5580"
  report::HttpCounters counters() const;             // from any thread
  void answer_incidents(std::shared_ptr<Reporter>);  // before start()
  // Is told what operators say of incidents, from the threads of the query API.
  void tell_acknowledgements(AcknowledgementListener);
  // In a cluster: the query API of the node that leads, which answers all but /healthz, /metrics and /v1/cluster; empty: this
  // one. Before start().
  void send_to(std::function<std::string()> leader_url);
  void answer_cluster(std::function<report::ClusterStatus()>);  // from any thread; before start()
  void start();
  // False if a client still held a thread at the deadline: then the threads are left to end with the process.
  bool stop(absl::Duration timeout);

 private:
  struct Impl;
  explicit HttpApi(std::shared_ptr<Impl>);
  std::shared_ptr<Impl> impl_;  // shared with the listening thread
};

}  // namespace ccld::decision::server
