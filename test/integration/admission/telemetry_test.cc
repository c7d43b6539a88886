// Keys of telemetry over real sockets.
#include "test/integration/admission/keys.h"

#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace ccld::test {
namespace {

// The greeting of a client of ZeroMQ without keys (ZMTP 3.0).
std::string greeting_without_keys() {
  std::string greeting = std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0", 12) + "NULL";
  greeting.resize(64);
  return greeting;
}

bool has_error(const Json& status, const std::string& part) {
  for (const Json& e : status["ingest"]["errors"])
    if (contains(e["error"].get<std::string>(), part)) return true;
  return false;
}

// One sender of job "demo", and one whose key speaks for job "other" alone.
struct TwoJobs : KeyedService {
  explicit TwoJobs(std::vector<std::string> more = {})
      : KeyedService(std::move(more)), own(folder, "own.key"), bound(folder, "bound.key") {
    add(own, {"--job", "demo"});
    add(bound, {"--job", "other"});
    has_keys(2);
    victim.emplace(service->telemetry, key.open, own);
    stranger.emplace(service->telemetry, key.open, bound);
  }
  const Key own, bound;
  std::optional<KeyedSender> victim, stranger;
};

}  // namespace

TEST_CASE("A probe whose key is in the list gets in and may say what its line allows, and nobody else") {
  KeyedService s;
  const Key own(s.folder, "own.key"), bound(s.folder, "bound.key"), stranger(s.folder, "stranger.key");
  s.add(own);
  s.add(bound, {"--job", "demo", "--host", "node-a", "--note", "node a"});
  s.has_keys(2);
  KeyedSender right(s.service->telemetry, s.key.open, own), narrow(s.service->telemetry, s.key.open, bound);
  right.send({.job = "anything", .host = "anywhere"}, "node-a", 0x123);
  narrow.send({.pid = 2});
  s.status_when([](const Json& j) { return j["ingest"]["batches"] == 2; });

  narrow.send({.job = "other", .pid = 2, .batch_seq = 2});
  narrow.send({.host = "node-b", .pid = 2, .batch_seq = 3});
  narrow.send({.pid = 2, .batch_seq = 4}, "node-b");
  narrow.send({.pid = 2, .batch_seq = 5});
  const Json spoken = s.status_when([](const Json& j) { return j["ingest"]["batches"] == 3; });
  CHECK(spoken["ingest"]["rejected"]["job"] == 1);
  CHECK(spoken["ingest"]["rejected"]["host"] == 2);
  CHECK(has_error(spoken, "key " + bound.open + " (node a) may not speak for job 'other'"));
  CHECK(has_error(spoken, "may not speak for host 'node-b'"));
  CHECK(contains(s.service->get_text("/metrics"), "ccld_messages_rejected_total{reason=\"host\"} 2\n"));
  CHECK(contains(s.service->ask({"status", "--wide"}).output, "may not speak for job 'other'"));

  // Who is not let in at all.
  KeyedSender unknown(s.service->telemetry, s.key.open, stranger), mistaken(s.service->telemetry, own.open, own);
  const int plain = connect_to(std::stoi(s.service->telemetry.substr(s.service->telemetry.rfind(':') + 1)));
  const std::string greeting = greeting_without_keys();
  REQUIRE(send(plain, greeting.data(), greeting.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(greeting.size()));
  const Json refused = s.status_when([](const Json& j) {
    const Json& by = j["access"]["refused"];
    return by["key"] >= 1 && by["service_key"] >= 1 && by["no_key"] >= 1;
  });
  close(plain);
  CHECK(refused["access"]["telemetry"] == "keys");
  CHECK(refused["access"]["admitted"] == 2);
  CHECK(has_error(refused, "a client at 127.0.0.1 has the key " + stranger.open + ", which is not in the list"));
  CHECK(has_error(refused, "a client uses no keys"));
  CHECK(has_error(refused, "a client was told another key than this service's"));
  CHECK(contains(s.service->get_text("/metrics"), "ccld_authentication{side=\"telemetry\"} 1\n"));
  s.service->child.signal(SIGTERM);
  CHECK(s.service->child.wait() == 0);
  CHECK(contains(s.service->child.error(), "telemetry connection refused (key)"));
}

TEST_CASE("Who may speak for one job confirms nothing against another") {
  TwoJobs s({"--set", "mismatch_settle_s=0"});
  // Two ranks that called different operations: confirmed at once where it is believed.
  const auto mismatch = [](KeyedSender& sender, const std::string& job, uint64_t batch_seq) {
    for (int32_t rank = 0; rank < 2; ++rank) {
      WireBatch b;
      add_comm_up(b, {.rank = rank, .local_rank = rank, .cuda_device = rank});
      WireRounds rounds;
      rounds.rank = rank;
      rounds.signatures = {wire_signature(1024u << rank)};
      add_rounds(b, rounds);
      sender.send_bytes(b.finish({.job = job, .pid = 4711u + static_cast<uint32_t>(rank), .batch_seq = batch_seq}));
    }
  };
  for (uint64_t i = 1; i <= 40; ++i) mismatch(*s.stranger, "demo", i);
  const Json refused = s.status_when([](const Json& j) { return j["ingest"]["rejected"]["job"] == 80; });
  CHECK(refused["communicator_count"] == 0);
  CHECK(refused["incidents_total"] == 0);
  // The same words of who may say them.
  mismatch(*s.victim, "demo", 1);
  s.status_when([](const Json& j) { return j["incidents_confirmed"] == 1; });
}

TEST_CASE(
    "Who may speak for one job takes no rank of another one's communicator, and speaks as none of its processes") {
  TwoJobs s;
  s.victim->send({.pid = 1});
  s.status_when([](const Json& j) { return j["ingest"]["batches"] == 1; });

  // Under its own job's name, as the rank that has not spoken yet.
  uint64_t batch_seq = 0;
  const auto lie = [&](const std::function<void(WireBatch&)>& add, uint32_t pid) {
    WireBatch b;
    add(b);
    s.stranger->send_bytes(b.finish({.job = "other", .pid = pid, .batch_seq = ++batch_seq}));
  };
  const WireCommUp free_rank = {.rank = 1, .local_rank = 1, .cuda_device = 1};
  lie([&](WireBatch& b) { add_comm_up(b, free_rank); }, 9);
  lie([](WireBatch& b) { add_rounds(b, {.rank = 1}); }, 9);
  lie([](WireBatch& b) { add_in_flight(b, {.rank = 1}); }, 9);
  lie([](WireBatch& b) { add_p2p_rounds(b, {.rank = 1, .peer = {0, 0}}); }, 9);
  lie([](WireBatch& b) { add_comm_down(b, 1); }, 9);
  lie([](WireBatch& b) { add_metrics(b); }, 1);
  const Json refused = s.status_when([](const Json& j) { return j["ingest"]["rejected"]["job"] == 6; });
  CHECK(refused["communicators"][0]["ranks_seen"] == 1);
  CHECK(refused["communicators"][0]["job"] == "demo");
  CHECK(refused["ingest"]["batches"] == 1);
  CHECK(has_error(refused,
                  "key " + s.bound.open + " may not speak for job 'demo', of which the communicator is known to be"));
  CHECK(has_error(refused, "of which the process is known to be"));
  // What is its own it may say, and the rank is still free for whose it is.
  lie([](WireBatch& b) { add_comm_up(b, {.comm_uid = 0xdef}); }, 9);
  WireBatch rank;
  add_comm_up(rank, free_rank);
  s.victim->send_bytes(rank.finish({.pid = 2}));
  const Json known = s.status_when([](const Json& j) { return j["ingest"]["batches"] == 3; });
  CHECK(known["communicators"][0]["ranks_seen"] == 2);
  CHECK(known["communicators"][1]["job"] == "other");
}

TEST_CASE("Who may speak for one job calls no process of another one stopped, though both are on one host") {
  TwoJobs s;
  s.victim->send({.pid = 4712, .pid_start_ticks = 100});  // of which add_agent_health speaks
  s.status_when([](const Json& j) { return j["ingest"]["batches"] == 1; });
  // A process that has just spoken is not believed to be stopped.
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  uint64_t batch_seq = 0;
  const auto call_stopped = [&](KeyedSender& sender, const std::string& job, uint32_t pid) {
    WireBatch b;
    add_agent_health(b);
    sender.send_bytes(b.finish({.job = job, .pid = pid, .batch_seq = ++batch_seq}));
  };
  const auto state = [&s] {
    return s.service->get("/v1/communicators/0000000000000abc/ranks")["ranks"][0]["process_state"];
  };
  for (int i = 0; i < 3; ++i) call_stopped(*s.stranger, "other", 9);
  const Json heard = s.status_when([](const Json& j) { return j["ingest"]["batches"] == 4; });
  CHECK(heard["ingest"]["rejected"]["job"] == 0);  // an honest probe tells of all processes that it sees
  CHECK(state().is_null());
  call_stopped(*s.victim, "demo", 10);
  s.status_when([](const Json& j) { return j["ingest"]["batches"] == 5; });
  CHECK(state() == "T");
}

TEST_CASE(
    "The list is read again when it changes: keys come and go without a restart, and a wrong line changes nothing") {
  KeyedService s;
  const Key one(s.folder, "one.key"), two(s.folder, "two.key");
  s.add(one);
  s.has_keys(1);
  KeyedSender first(s.service->telemetry, s.key.open, one);
  first.send({.pid = 1});
  s.add(two);
  s.has_keys(2);
  KeyedSender second(s.service->telemetry, s.key.open, two);
  second.send({.pid = 2});
  s.status_when([](const Json& j) { return j["ingest"]["batches"] == 2; });

  std::ofstream(s.list, std::ios::app) << "no key at all\n";
  const std::string line = s.service->child.wait_for_error("stays in force");
  CHECK(contains(line, s.list + ":4: it does not begin with a public key"));
  first.send({.pid = 1, .batch_seq = 2});
  CHECK(s.status_when([](const Json& j) { return j["ingest"]["batches"] == 3; })["access"]["keys"] == 2);

  std::ofstream(s.list) << one.open << "\n" << two.open << "\n";
  said({ccld, "keys", "remove", two.open, "--list", s.list});
  s.has_keys(1);
  second.send({.pid = 2, .batch_seq = 2});  // what it says is refused, its connection closed, and it is not let in again
  const Json removed = s.status_when(
      [](const Json& j) { return j["ingest"]["rejected"]["key"] == 1 && j["access"]["refused"]["key"] >= 1; });
  CHECK(has_error(removed, "key " + two.open + " is not in the list any more"));
}

TEST_CASE("A recording of a service with keys has nothing in it that a key may not say") {
  const Folder recordings;
  const std::string file = recordings.file("r.ccldrec");
  KeyedService s({"--record", file});
  const Key bound(s.folder, "bound.key");
  s.add(bound, {"--job", "demo"});
  s.has_keys(1);
  KeyedSender sender(s.service->telemetry, s.key.open, bound);
  sender.send({.job = "other", .pid = 1});
  sender.send({.pid = 1, .batch_seq = 2});
  s.status_when([](const Json& j) { return j["ingest"]["batches"] == 1 && j["ingest"]["rejected"]["job"] == 1; });
  CHECK(s.service->get("/v1/status")["recording"]["entries"].get<uint64_t>() > 0);
  s.service->child.signal(SIGTERM);
  REQUIRE(s.service->child.wait() == 0);
  const Finished replayed = run({ccld, "replay", file});
  INFO(replayed.output << replayed.error);
  CHECK(replayed.status == 0);
}

TEST_CASE("The doctor says whether authentication is in force, and why a handshake fails") {
  KeyedService s;
  const Key own(s.folder, "own.key"), stranger(s.folder, "stranger.key");
  s.add(own);
  s.has_keys(1);
  std::ofstream(s.folder.file("service.pub")) << "public " << s.key.open << "\n";
  const auto doctor = [&](const std::string& server_key, const std::string& key_file) {
    std::vector<std::string> words = {"doctor", "--endpoint", s.service->telemetry, "--dir", s.folder.path.string()};
    if (!server_key.empty()) words.insert(words.end(), {"--server-key", server_key});
    if (!key_file.empty()) words.insert(words.end(), {"--key-file", key_file});
    return s.service->ask(words);
  };
  const Finished right = doctor(s.folder.file("service.pub"), own.file);
  INFO(right.output);
  CHECK(right.status == 0);
  CHECK(contains(right.output, "accepts our key and has proved its own: authentication is in force"));
  CHECK(contains(right.output, "telemetry is authenticated: 1 key is let in"));
  CHECK(contains(right.output, "questions are not authenticated"));
  const Finished none = doctor("", "");
  CHECK(none.status == 0);
  CHECK(contains(none.output, "warn  telemetry " + s.service->telemetry + " lets in only who has a key"));
  const Finished unknown = doctor(s.key.open, stranger.file);
  CHECK(unknown.status == 1);
  CHECK(contains(unknown.output, "does not accept our key  -> `ccld keys add`"));
  const Finished mistaken = doctor(stranger.open, own.file);
  CHECK(mistaken.status == 1);
  CHECK(contains(mistaken.output, "its key is not that of NCCL_PROBE_SERVER_KEY"));
  const Finished unreadable = doctor(s.key.open, s.folder.file("none.key"));
  CHECK(unreadable.status == 1);
  CHECK(contains(unreadable.output, "FAIL  NCCL_PROBE_KEY_FILE: cannot read"));
}

TEST_CASE("What is wrong with keys is one line that names the flag, before anything listens") {
  const Folder folder;
  const Key key(folder, "service.key");
  std::ofstream(folder.file("good")) << key.open << "\n";
  std::ofstream(folder.file("bad")) << key.open << "\nnobody\n";
  std::ofstream(folder.file("pub")) << "public " << key.open << "\n";
  const auto serve = [&](const std::string& secret, const std::string& list) {
    std::vector<std::string> words = {ccld,     "serve",       "--listen",    "tcp://127.0.0.1:0",
                                      "--http", "127.0.0.1:0", "--no-history"};
    if (!secret.empty()) words.insert(words.end(), {"--telemetry-secret-file", secret});
    if (!list.empty()) words.insert(words.end(), {"--telemetry-allow-file", list});
    return words;
  };
  require_refused(serve(key.file, ""), 2, "--telemetry-secret-file needs --telemetry-allow-file");
  require_refused(serve("", folder.file("good")), 2, "--telemetry-allow-file needs --telemetry-secret-file");
  require_refused(serve(key.file, folder.file("bad")), 2, "--telemetry-allow-file: " + folder.file("bad") + ":2: ");
  require_refused(serve(key.file, folder.file("none")), 1, "--telemetry-allow-file: cannot read");
  require_refused(serve(folder.file("pub"), folder.file("good")), 2,
                  "--telemetry-secret-file: '" + folder.file("pub") + "' holds a public key");
  require_refused({ccld, "keys", "make", key.file}, 1, "exists already");
  require_refused({ccld, "keys", "add", "nobody", "--list", folder.file("good")}, 2, "is not a public key");
  require_refused({ccld, "keys", "add", key.open}, 2, "add needs --list");
  require_refused({ccld, "keys", "remove", key.open, "--list", folder.file("none")}, 1, "cannot read");
  CHECK(said({ccld, "keys", "show", key.file}) == key.open);
  CHECK(said({ccld, "keys", "list", "--list", folder.file("good")}) == key.open);
}

}  // namespace ccld::test
