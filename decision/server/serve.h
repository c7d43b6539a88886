// `ccld serve`: opens everything, says where it listens, analyses until SIGINT or SIGTERM.
//
// Contract
//   Nothing is announced before everything is open. Standard error gets "ccld: listening on <telemetry> and <query
//   API>"; with ready_file the same as JSON, written whole and removed at the end. It listens beyond this host only
//   with keys (telemetry) and tokens (query API), or with `insecure`. A signal ends the service within a second, exit
//   0; within six while a disk takes in a recording slowly or not at all. A state folder that cannot be used (not
//   writable, in use by another service, a newer version) is one warning, and the service goes on without a history.
// Errors
//   InvalidArgument: an option that cannot be right (exit 2); anything else: the surroundings (exit 1). One line, which
//   names the option.
// Threads: the calling thread analyses; the query API has its own. Call before any other thread exists: signals are
// blocked.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ccld::decision::server {

struct ServeOptions {
  std::string listen = "tcp://127.0.0.1:5566";
  std::string http = "127.0.0.1:5580";
  std::string telemetry_secret_file;  // our secret key; empty: probes need no key
  std::string telemetry_allow_file;   // public keys of probes
  std::string http_tokens_file;       // empty: questions need no token
  std::string http_certificate_file;  // empty: plain HTTP
  std::string http_key_file;
  bool insecure = false;              // listens beyond this host without keys and tokens
  std::string verdicts = "-";
  std::string rules = "default";
  std::string log_level = "info";
  std::string ready_file;
  std::string layout;  // of the job, a JSON file; empty: guessed
  std::string record;                 // a file for everything that arrives; empty: none
  std::string record_max_bytes = "4G";
  std::string state;                  // the folder of the history; empty: the default one
  bool no_history = false;
  std::string history_bytes = "256M";  // some 60,000 revisions of 4 KB
  std::string history_days = "365";    // a year of a cluster, to compare with; chosen, not measured
  // Twice hang_confirm_s: longer than a hang or slowness that is still there takes to be suspected again.
  std::string take_up_s = "600";
  std::string record_incidents;       // a folder for recordings of incidents; empty: within the state folder, if there is one
  std::string record_incidents_max = "20";
  std::string record_incidents_bytes = "1G";  // a job of 8 ranks makes 3 to 6 KB a second, a large one thousands of times as much
  std::string record_incidents_days = "30";   // they are read while the incident is looked into; they name hosts and jobs
  std::string record_history_bytes = "64M";
  bool record_overwrite = false;
  // GET /healthz: not well when the newest look of the analysis is older. It looks every tenth of a second; a look takes a
  // quarter of a second at 131,072 ranks, and waiting telemetry postpones one by half a second.
  std::string health_look_max_s = "30";
  std::string memory_max = "auto";    // memory_limit.h
  std::string threads = "auto";       // that take telemetry in
  bool allow_remote_tune = false;     // POST /v1/tune from other hosts too
  std::string cluster;                // NATS servers, by commas; empty: this service is alone (cluster_node.h)
  std::string cluster_name = "ccld";
  std::string cluster_node;           // empty: the host's name
  std::string cluster_http_url;       // empty: where --http listens, or the host's name if that is every address
  std::string cluster_replicas = "auto";
  std::string cluster_credentials_file, cluster_ca_file, cluster_certificate_file, cluster_key_file;
  std::string webhook;                // a URL that is told of incidents; empty: none
  std::string webhook_secret_file;    // signs what it is told; empty: not signed
  std::string webhook_ca_file;        // certificates it trusts; empty: the system's
  std::string webhook_min_state = "suspected";
  bool allow_remote_ack = false;      // POST /v1/incidents/<id>/ack likewise
  std::vector<std::string> http_names;  // under which requests may come, besides addresses, localhost and our host's
  std::vector<std::string> settings;  // "name=value", later ones win
};

absl::Status serve(const ServeOptions&);

}  // namespace ccld::decision::server
