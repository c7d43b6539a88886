// Recording and replaying as users do: `ccld serve --record`, `ccld record`, `ccld replay`.
#include "test/integration/serve/service.h"

namespace ccld::test {
namespace {

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path());
  return names;
}

void end(Service& service) {
  service.child.signal(SIGTERM);
  REQUIRE(service.child.wait() == 0);
}

// A service that records while three ranks come to an H2, ended.
void record_mismatch(std::vector<std::string> flags) {
  flags.insert(flags.end(), {"--set", "mismatch_settle_s=0.5"});
  Service service(flags);
  Sender sender(service.telemetry);
  sender.send({1, 2, 3});  // no telemetry
  send_ranks(sender, {1024, 1024, 512});
  service.status_when([](const Json& s) { return s["service"]["verdict_lines"] >= 1; });
  end(service);
}

}  // namespace

TEST_CASE("A replay writes the lines of the live service, to the byte") {
  const Folder folder;
  const std::string recording = folder.file("r.ccldrec"), live = folder.file("live.jsonl"), replayed = folder.file("replayed.jsonl");
  record_mismatch({"--record", recording, "--verdicts", live});
  const std::string lines_of_live = content(live);
  REQUIRE(contains(lines_of_live, "\"confirmed\""));

  const Finished first = run({ccld, "replay", recording, "--verdicts", replayed});
  CHECK(first.status == 0);
  CHECK(first.output.empty());
  CHECK(contains(first.error, "3 processes, 3 ranks in 1 communicator; 1 incident"));
  CHECK(content(replayed) == lines_of_live);
  const Finished again = run({ccld, "replay", recording, "--verdicts", "-"});
  CHECK(again.output == lines_of_live);
  run({ccld, "replay", recording, "--verdicts", replayed});  // starts the file anew
  CHECK(content(replayed) == lines_of_live);

  // What `ccld explain` says of the live verdicts.
  const Finished explained = run({ccld, "explain", "1", "--file", live});
  CHECK(run({ccld, "replay", recording}).output == explained.output);

  const Finished info = run({ccld, "replay", recording, "--info"});
  CHECK(contains(info.output, "mismatch_settle_s=0.5"));
  CHECK(contains(info.output, "4 messages"));
  CHECK(contains(info.output, "stopped"));
  const Json facts = Json::parse(run({ccld, "replay", recording, "--info", "--json"}).output);
  CHECK(facts["summary"]["messages"] == 4);
  CHECK(facts["metadata"]["settings"]["mismatch_settle_s"] == "0.5");
}

TEST_CASE("A replay takes other rules, settings, config and an end") {
  const Folder folder;
  const std::string recording = folder.file("r.ccldrec");
  record_mismatch({"--record", recording, "--verdicts", folder.file("v")});
  const auto verdicts = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {ccld, "replay", recording, "--verdicts", "-"});
    const Finished finished = run(flags);
    INFO(finished.error);
    CHECK(finished.status == 0);
    return finished.output;
  };
  CHECK(contains(verdicts({}), "\"H2\""));
  CHECK(verdicts({"--until", "0"}).empty());
  // With this, the communicator is refused.
  CHECK(verdicts({"--set", "ranks_max=2"}).empty());
  std::ofstream(folder.file("c.toml")) << "listen = \"tcp://127.0.0.1:1\"\n[settings]\nranks_max = 2\n";
  CHECK(verdicts({"--config", folder.file("c.toml")}).empty());
  CHECK(contains(verdicts({"--config", folder.file("c.toml"), "--set", "ranks_max=3"}), "\"H2\""));
  CHECK_FALSE(contains(verdicts({"--rules", "paper"}), "\"rules\":\"default\""));

  const Finished compared = run({ccld, "replay", recording, "--compare-rules"});
  CHECK(compared.status == 0);
  CHECK(contains(compared.output, "default"));
  CHECK(contains(compared.output, "H2"));
  const Json both = Json::parse(run({ccld, "replay", recording, "--compare-rules", "--json"}).output);
  CHECK(both["default"].size() == 1);
  CHECK(both.contains("paper"));
}

TEST_CASE("A recording that cannot be read, and flags that cannot be right, are one line") {
  const Folder folder;
  require_refused({ccld, "replay", folder.file("none")}, 1, "cannot read '" + folder.file("none") + "'");
  std::ofstream(folder.file("text")) << "not a recording";
  require_refused({ccld, "replay", folder.file("text")}, 1, "offset 0: this is not a recording of ccld");
  const std::string recording = folder.file("r.ccldrec");
  record_mismatch({"--record", recording, "--verdicts", folder.file("v")});
  require_refused({ccld, "replay", recording, "--set", "nonsense=1"}, 2, "nonsense");
  require_refused({ccld, "replay", recording, "--rules", "mine"}, 2, "--rules");
  require_refused({ccld, "replay", recording, "--until", "-1"}, 2, "--until");
  require_refused({ccld, "replay", recording, "--verdicts", "-", "--json"}, 2, "--verdicts -");
  require_refused({ccld, "replay", recording, "--info", "--compare-rules"}, 2, "--compare-rules");
  require_refused({ccld, "replay", recording, "--verdicts", "/nowhere/v"}, 1, "--verdicts");

  std::filesystem::resize_file(recording, std::filesystem::file_size(recording) - 5);
  const Finished cut = run({ccld, "replay", recording});
  CHECK(cut.status == 0);
  CHECK(contains(cut.error, "is cut off"));
  std::fstream damaged(recording, std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(60);
  damaged.write("\xff\xff", 2);
  damaged.close();
  require_refused({ccld, "replay", recording}, 1, "offset 16: a block is damaged");
}

TEST_CASE("A recording in the service's way is refused, replaced when asked, and a full disk does not disturb the service") {
  const Folder folder;
  std::ofstream(folder.file("old")) << "precious";
  const std::vector<std::string> serve = {ccld, "serve", "--listen", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0", "--no-history"};
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), serve.begin(), serve.end());
    return flags;
  };
  require_refused(with({"--record", folder.file("old")}), 1, "--record: '" + folder.file("old") + "' exists");
  CHECK(content(folder.file("old")) == "precious");
  require_refused(with({"--record", "/nowhere/r"}), 1, "--record: cannot write '/nowhere/r'");
  require_refused(with({"--record", folder.file("r"), "--record-max-bytes", "much"}), 2, "--record-max-bytes");
  require_refused(with({"--record-incidents", "/proc/x"}), 1, "--record-incidents");
  require_refused(with({"--record-incidents", folder.file("i"), "--record-incidents-max", "0"}), 2, "--record-incidents-max");

  Service service({"--record", folder.file("old"), "--record-overwrite", "--record-max-bytes", "1K"});
  Sender sender(service.telemetry);
  for (uint64_t batch = 1; batch < 40; ++batch) send_ranks(sender, {1024, 1024, 1024}, 0x1000 + batch, batch);
  CHECK_FALSE(service.child.wait_for_error("has reached its limit of 1024 bytes").empty());
  const Json status = service.status_when([](const Json& s) { return !s["recording"]["file_open"]; });
  CHECK(status["recording"]["file_bytes"] <= 1024);
  CHECK(contains(service.get_text("/metrics"), "\nccld_recording_open 0\n"));
  send_ranks(sender, {1024, 1024, 512}, 0xabcd, 100);
  service.status_when([](const Json& s) { return s["incidents_total"] >= 1; });
  end(service);
  CHECK(run({ccld, "replay", folder.file("old")}).status == 0);
}

TEST_CASE("A recording of an incident replays to the verdict of the live service") {
  const Folder folder;
  record_mismatch({"--record-incidents", folder.file("incidents"), "--verdicts", folder.file("v")});
  const auto files = files_in(folder.file("incidents"));
  REQUIRE(files.size() == 1);
  CHECK(contains(files[0], "-1-H2.ccldrec"));
  const Finished replayed = run({ccld, "replay", files[0], "--verdicts", "-"});
  CHECK(replayed.output == content(folder.file("v")));
  CHECK(contains(run({ccld, "replay", files[0], "--info"}).output, "1: H2"));
}

TEST_CASE("The sink records without analysing, and its recording replays to the same finding") {
  const Folder folder;
  const std::string recording = folder.file("r.ccldrec");
  for (const int number : {SIGTERM, SIGINT}) {
    ChildProcess sink({ccld, "record", "--listen", "tcp://127.0.0.1:0", recording, "--overwrite"});
    const std::string line = sink.wait_for_error("ccld: recording ");
    REQUIRE_FALSE(line.empty());
    std::istringstream words(line);
    std::string ccld_word, recording_word, endpoint;
    words >> ccld_word >> recording_word >> endpoint;
    Sender sender(endpoint);
    send_ranks(sender, {1024, 1024, 512});
    // Ticks of the replay go from the first message to the last.
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    uint64_t batch = 2;
    do {
      send_ranks(sender, {1024, 1024, 512}, 0xabc, batch++);
      usleep(100'000);
    } while (batch < 25 && Clock::now() < deadline);
    WireBatch asks;
    add_agent_health(asks);
    sender.send(asks.finish({.batch_seq = 77, .acknowledge = true}));
    const auto answer = sender.receive();
    REQUIRE(answer.has_value());
    CHECK(wire::GetControlRequest(answer->data())->acknowledgement()->batch_seq() == 77);
    sink.signal(number);
    CHECK(sink.wait() == 0);
    CHECK(contains(sink.error(), "messages of"));
    const Finished replayed = run({ccld, "replay", recording});
    CHECK(replayed.status == 0);
    CHECK(contains(replayed.output, "incident 1, class H2"));
  }
  require_refused({ccld, "record", "--listen", "tcp://127.0.0.1:0", recording}, 1, "--overwrite replaces it");
  require_refused({ccld, "record", "--listen", "nonsense", folder.file("x")}, 2, "--listen");
}

}  // namespace ccld::test
