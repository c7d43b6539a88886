#include <memory>
#include <utility>
#include <vector>

#include "decision/cli/command.h"
#include "decision/server/config_file.h"
#include "decision/server/serve.h"

namespace ccld::decision {
namespace {

using server::ServeOptions;

struct Flag {
  const char* name;  // also in the config file
  std::string ServeOptions::* value;
  const char* type;
  const char* help;
};
constexpr Flag flags[] = {
    {"listen", &ServeOptions::listen, "ENDPOINT", "where probes send telemetry, tcp://address:port or ipc://path; port 0: any free one"},
    {"http", &ServeOptions::http, "ADDRESS", "address:port of the query API; port 0: any free one"},
    {"telemetry-secret-file", &ServeOptions::telemetry_secret_file, "FILE", "this service's secret key (`ccld keys make`): telemetry is encrypted, and only probes with a key get in"},
    {"telemetry-allow-file", &ServeOptions::telemetry_allow_file, "FILE", "public keys of the probes that get in, one a line (`ccld keys add`); read again when it changes"},
    {"http-tokens-file", &ServeOptions::http_tokens_file, "FILE", "who may ask what, by token (`ccld tokens add`); read again when it changes"},
    {"http-certificate-file", &ServeOptions::http_certificate_file, "FILE", "the query API speaks https with this certificate (PEM, with those that signed it); read again when it changes"},
    {"http-key-file", &ServeOptions::http_key_file, "FILE", "the key of that certificate (PEM)"},
    {"verdicts", &ServeOptions::verdicts, "FILE", "verdicts as JSON lines are appended here; -: standard output"},
    {"rules", &ServeOptions::rules, "RULES", "default: this project's rules; paper: the rules of the paper as published"},
    {"log-level", &ServeOptions::log_level, "LEVEL", "trace, debug, info, warning, error, critical or off; the log goes to standard error"},
    {"ready-file", &ServeOptions::ready_file, "FILE", "written once everything listens: {\"pid\", \"telemetry\", \"http\"}; removed at the end"},
    {"layout", &ServeOptions::layout, "FILE", "sizes of the job's groups as JSON: {\"tp\": 8, \"pp\": 4, \"dp\": 16, \"ep\": 8, \"order\": \"tp-dp-pp\"}"},
    {"health-look-max-s", &ServeOptions::health_look_max_s, "SECONDS", "/healthz says 503 when the analysis has not looked at its jobs for so long"},
    {"threads", &ServeOptions::threads, "N", "threads that take telemetry in, at most 64; auto: as many as its control group has processors, at most 8"},
    {"memory-max", &ServeOptions::memory_max, "BYTES", "memory of the service; near it, what is healthy is forgotten first, then nobody new is taken in; K, M, G, none, or auto: nine tenths of its control group's limit"},
    {"record", &ServeOptions::record, "FILE", "everything that arrives, for `ccld replay`; an existing file is refused"},
    {"record-max-bytes", &ServeOptions::record_max_bytes, "BYTES", "the recording ends, with a warning, when it has so many; K, M, G"},
    {"state", &ServeOptions::state, "FOLDER", "incidents with their revisions and recordings; default: $XDG_STATE_HOME/ccld or ~/.local/state/ccld, /var/lib/ccld for root"},
    {"record-incidents", &ServeOptions::record_incidents, "FOLDER", "a recording of each confirmed incident; default: recordings/ within --state"},
    {"history-bytes", &ServeOptions::history_bytes, "BYTES", "size of the database; the oldest closed incidents of the job with the most go first; K, M, G"},
    {"history-days", &ServeOptions::history_days, "DAYS", "closed incidents go after so many days"},
    {"take-up-s", &ServeOptions::take_up_s, "SECONDS", "an incident that an earlier run left open ends if it is not found again within this time"},
    {"record-incidents-bytes", &ServeOptions::record_incidents_bytes, "BYTES", "size of all of them together; the newest stays; K, M, G"},
    {"record-incidents-days", &ServeOptions::record_incidents_days, "DAYS", "keep them for so many days"},
    {"record-incidents-max", &ServeOptions::record_incidents_max, "N", "keep so many of them, the newest"},
    {"cluster", &ServeOptions::cluster, "SERVERS", "be one of several nodes that stand in for each other: nats://HOST:PORT of NATS servers with JetStream, by commas"},
    {"cluster-name", &ServeOptions::cluster_name, "NAME", "of the cluster: letters, digits, '-' and '_'"},
    {"cluster-node", &ServeOptions::cluster_node, "NAME", "of this node, no other one's; default: the host's name"},
    {"cluster-http-url", &ServeOptions::cluster_http_url, "URL", "under which clients of other nodes reach this one's query API; default: where --http listens, with the host's name for 0.0.0.0 and ::"},
    {"cluster-replicas", &ServeOptions::cluster_replicas, "N", "NATS servers that keep the cluster's log; auto: 3, or 1 where fewer are named"},
    {"cluster-credentials-file", &ServeOptions::cluster_credentials_file, "FILE", "of NATS (JWT and seed): who this node is"},
    {"cluster-ca-file", &ServeOptions::cluster_ca_file, "FILE", "certificates that are trusted for NATS servers; with it TLS is demanded"},
    {"cluster-certificate-file", &ServeOptions::cluster_certificate_file, "FILE", "this node's certificate for NATS servers (PEM); TLS is demanded"},
    {"cluster-key-file", &ServeOptions::cluster_key_file, "FILE", "the key of that certificate (PEM)"},
    {"webhook", &ServeOptions::webhook, "URL", "gets a POST for each revision of an incident"},
    {"webhook-secret-file", &ServeOptions::webhook_secret_file, "FILE", "its text signs what the webhook gets (X-Ccld-Signature)"},
    {"webhook-ca-file", &ServeOptions::webhook_ca_file, "FILE", "certificates that are trusted for an https:// webhook; default: the system's"},
    {"webhook-min-state", &ServeOptions::webhook_min_state, "STATE", "suspected: the webhook gets every incident; confirmed: from when it is confirmed on"},
    {"record-history-bytes", &ServeOptions::record_history_bytes, "BYTES", "telemetry kept in memory for them, as compressed; K, M, G"},
};

void serve_with(ServeOptions options, const std::vector<std::string>& settings_of_flags, const std::string& config_path,
                const std::vector<const Flag*>& given) {
  if (!config_path.empty()) {
    auto config = server::read_config_file(config_path, serve_flag_names());
    end_unless_ok(config.status());
    for (const Flag* flag : given) config->values.erase(flag->name);
    for (const Flag& flag : flags) {
      const auto found = config->values.find(flag.name);
      if (found != config->values.end()) options.*flag.value = found->second;
    }
    options.settings = std::move(config->settings);
  }
  options.settings.insert(options.settings.end(), settings_of_flags.begin(), settings_of_flags.end());
  end_unless_ok(server::serve(options));
}

}  // namespace

std::vector<std::string> serve_flag_names() {
  std::vector<std::string> names;
  for (const Flag& flag : flags) names.emplace_back(flag.name);
  return names;
}

void add_serve_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve", "Receive telemetry, detect and locate faults, answer queries");
  struct Values {
    ServeOptions options;
    std::vector<std::string> settings;
    std::string config;
  };
  auto values = std::make_shared<Values>();
  for (const Flag& flag : flags) {
    command->add_option(std::string("--") + flag.name, values->options.*flag.value, flag.help)->type_name(flag.type)->capture_default_str();
  }
  command->add_flag("--no-history", values->options.no_history, "keep nothing in the state folder: no incidents of earlier runs, no recordings of incidents unless --record-incidents");
  command->add_flag("--record-overwrite", values->options.record_overwrite, "replace an existing file of --record");
  command->add_flag("--insecure", values->options.insecure, "listen beyond this host although everyone can send telemetry (no --telemetry-secret-file) or ask (no --http-tokens-file)");
  command->add_flag("--allow-remote-tune", values->options.allow_remote_tune, "without --http-tokens-file: accept requests to tune probes from other hosts too");
  command->add_flag("--allow-remote-ack", values->options.allow_remote_ack, "without --http-tokens-file: accept acknowledgements and silences from other hosts too");
  command
      ->add_option("--http-name", values->options.http_names,
                   "a name under which others reach the query API, where it demands no tokens; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command->add_option("--set", values->settings, "a setting, may be repeated; `ccld settings` lists them")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command->add_option("--config", values->config, "config file (TOML or INI) with the names of these flags and a [settings] section")
      ->type_name("FILE");
  command->callback([command, values] {
    std::vector<const Flag*> given;
    for (const Flag& flag : flags) {
      if (command->count(std::string("--") + flag.name) > 0) given.push_back(&flag);
    }
    serve_with(values->options, values->settings, values->config, given);
  });
}

}  // namespace ccld::decision
