// The history as its users meet it: restarts, kills, full and missing disks, questions with and without a service.
#include <sys/mount.h>

#include <map>
#include <set>

#include "test/integration/serve/service.h"
#include "test/integration/serve/taken.h"

namespace ccld::test {
namespace {

void end(Service& service) {
  service.child.signal(SIGTERM);
  REQUIRE(service.child.wait() == 0);
}

std::vector<std::string> flags(const Folder& folder, std::vector<std::string> more = {}) {
  more.insert(more.end(),
              {"--state", folder.file("state"), "--verdicts", folder.file("v.jsonl"), "--set", "mismatch_settle_s=0"});
  return more;
}

// A line that a kill cut off is none.
std::vector<Json> verdicts(const Folder& folder) {
  std::vector<Json> result;
  std::ifstream file(folder.file("v.jsonl"));
  for (std::string line; std::getline(file, line);) {
    Json verdict = Json::parse(line, nullptr, false);
    if (verdict.is_object()) result.push_back(std::move(verdict));
  }
  return result;
}

bool wait_until(const std::function<bool()>& wished) {
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (!wished()) {
    if (Clock::now() > deadline) return false;
    usleep(2'000);
  }
  return true;
}

void wait_for_lines(const Service& service, uint64_t count) {
  service.status_when([&](const Json& s) { return s["service"]["verdict_lines"] >= count; });
}

Json json_of(const std::vector<std::string>& command) {
  const Finished finished = run(command);
  INFO(finished.error);
  REQUIRE(finished.status == 0);
  return Json::parse(finished.output);
}

// What lies in a state folder although no service makes it.
std::vector<std::string> unknown_files(const std::string& state) {
  const std::set<std::string> known = {"history.db", "history.db-wal", "history.db-shm",
                                       "recordings", "lock",           "reserve"};
  std::vector<std::string> unknown;
  for (const auto& entry : std::filesystem::directory_iterator(state)) {
    if (known.count(entry.path().filename()) == 0) unknown.push_back(entry.path().filename());
  }
  for (const auto& entry : std::filesystem::directory_iterator(state + "/recordings")) {
    if (entry.path().extension() != ".ccldrec") unknown.push_back(entry.path().filename());
  }
  return unknown;
}

size_t recordings_in(const std::string& state) {
  const std::filesystem::directory_iterator all(state + "/recordings");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// (incident, revision) of each verdict.
using Key = std::pair<uint64_t, uint64_t>;
Key key_of(const Json& v) { return {v["incident"].get<uint64_t>(), v["revision"].get<uint64_t>()}; }

}  // namespace

TEST_CASE("After a restart numbers go on, and incidents of both runs are found with and without a service") {
  const Folder folder;
  std::string first_run;
  {
    Service service(flags(folder));
    Sender sender(service.telemetry);
    send_ranks(sender, {1024, 2048}, 0xa1);
    wait_for_lines(service, 1);
    first_run = service.get("/v1/incidents")["incidents"][0]["run"];
    end(service);
  }
  const std::string state = folder.file("state");
  // Nobody serves: the database is read, and says so.
  const Finished alone = run({ccld, "incidents", "--state", state});
  CHECK(alone.status == 0);
  CHECK(contains(alone.output, "MISMATCH: ranks differ in"));
  CHECK(contains(alone.error, "no service runs on this history"));

  Service service(flags(folder));
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 2048}, 0xb2);
  wait_for_lines(service, 1);
  const Json all = service.get("/v1/incidents");
  REQUIRE(all["incidents"].size() == 2);
  CHECK(all["matching"] == 2);
  CHECK(all["incidents"][0]["incident"] == 1);
  CHECK(all["incidents"][0]["run"] == first_run);
  CHECK(all["incidents"][1]["incident"] == 2);
  CHECK(all["incidents"][1]["run"] != first_run);
  CHECK(service.get("/v1/incidents?limit=1&after=0")["next"] == 1);
  CHECK(service.get("/v1/incidents?class=S1")["incidents"].empty());
  CHECK(service.get("/v1/incidents?job=demo&open=1&since=1h")["matching"] == 2);
  CHECK(service.get("/v1/incidents?since=soon")["error"].get<std::string>().find("since: 'soon'") == 0);

  CHECK(json_of({ccld, "incidents", "--http", service.http, "--json", "--class", "h2"})["matching"] == 2);
  Json listed = all["incidents"];
  for (Json& incident : listed) incident.erase("silenced");  // only a running service silences
  CHECK(json_of({ccld, "incidents", "--state", state, "--json"})["incidents"] == listed);
  CHECK(json_of({ccld, "incidents", "--file", state + "/history.db", "--json", "--job", "none"})["matching"] == 0);
  require_refused({ccld, "incidents", "--http", service.http, "--since", "soon"}, 2, "--since: 'soon'");
  require_refused({ccld, "incidents", "--state", folder.file("none")}, 1, folder.file("none"));
  require_refused({ccld, "incidents", "--state", state, "--file", state}, 2, "exclude each other");
  CHECK(contains(service.ask({"explain", "1"}).output, "H2"));
  CHECK(contains(run({ccld, "advise", "2", "--http", service.http}).output, "restart: nobody is singled out"));
  const Json strategies = json_of({ccld, "advise", "2", "--json", "--http", service.http})["strategies"];
  CHECK(strategies == service.get("/v1/incidents/2")["mitigation"]["strategies"]);
  CHECK(strategies.size() == 4);
  CHECK(contains(run({ccld, "advise", "1", "--state", state}).output, "restart: nobody is singled out"));

  const Json revisions = json_of({ccld, "explain", "2", "--revisions", "--json", "--http", service.http});
  size_t reported = 0;
  for (Json line : verdicts(folder)) {
    if (line["incident"] != 2) continue;
    line["recording"] = revisions.at(reported)["recording"];
    line["acknowledged"] = nullptr;
    CHECK(revisions.at(reported++) == line);
  }
  CHECK(reported >= 1);
  CHECK(revisions[0]["revision"] == 1);
  CHECK(contains(run({ccld, "explain", "2", "--revisions", "--state", state}).output, "REVISION"));

  // The verdict file of both runs.
  const Finished file = run({ccld, "incidents", "--file", folder.file("v.jsonl")});
  CHECK(contains(file.error, "holds 2 runs of the service"));
  CHECK(json_of({ccld, "explain", "--json", "--file", folder.file("v.jsonl")}).size() == 2);
  CHECK(json_of({ccld, "explain", "1", "--json", "--file", folder.file("v.jsonl")})["state"] == "ended");
  const Json status = service.get("/v1/status");
  CHECK(status["history"]["enabled"] == true);
  CHECK(status["history"]["revisions_stored"] >= 1);
  CHECK(status["history"]["revisions_waiting"] == 0);
}

TEST_CASE("An incident that a restart interrupts goes on under its number, one that is gone ends") {
  const Folder folder;
  {
    Service service(flags(folder));
    Sender sender(service.telemetry);
    send_ranks(sender, {1024, 2048}, 0xa1);
    send_ranks(sender, {1024, 2048}, 0xb2, 2);
    service.status_when(
        [](const Json& s) { return s["history"]["revisions_stored"] >= 2 && s["incidents_open"] == 2; });
    service.child.signal(SIGKILL);
    service.child.wait();
  }
  const auto before = verdicts(folder);
  const Json left = json_of({ccld, "incidents", "--open", "--json", "--state", folder.file("state")})["incidents"];
  REQUIRE(left.size() == 2);
  Service service(flags(folder, {"--take-up-s", "2"}));
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 2048}, 0xb2);  // the same fault, still there
  REQUIRE(wait_until([&] { return !verdicts(folder).empty() && verdicts(folder).back()["state"] == "ended"; }));
  const Json now = service.get("/v1/incidents")["incidents"];
  REQUIRE(now.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const bool same_fault = left[i]["communicator"] == "00000000000000b2";
    CHECK(now[i]["incident"] == left[i]["incident"]);
    CHECK(now[i]["run"] == left[i]["run"]);
    CHECK(now[i]["revision"] > left[i]["revision"]);
    CHECK(now[i]["onset_time"] == left[i]["onset_time"]);
    CHECK((now[i]["state"] == "ended") == !same_fault);
  }
}

TEST_CASE("However often the service is killed, no revision that was reported is lost or doubled") {
  const char* const wished = std::getenv("CCLD_TEST_KILLS");  // make check-kills: 100, in a minute
  const int kills = wished != nullptr ? std::atoi(wished) : 15;
  const Folder folder;
  uint64_t comm_uid = 0x1000;
  size_t reported = 0;
  Taken first, last_ones;  // the most that any of the first five had, and of the last five
  for (int kill = 0; kill < kills; ++kill) {
    const auto begun = Clock::now();
    Service service(flags(folder, {"--set", "mismatch_clean_s=0.2", "--take-up-s", "0.3"}));
    const int64_t start_ms = std::chrono::duration_cast<Milliseconds>(Clock::now() - begun).count();
    Sender sender(service.telemetry);
    // Killed after some lines, not always as many.
    const size_t target = reported + 1 + static_cast<size_t>(kill * 7 % 45);
    uint64_t batch = 1;
    REQUIRE(wait_until([&] {
      if (batch < 60) send_ranks(sender, {1024, 2048}, comm_uid++, batch++);
      reported = lines(content(folder.file("v.jsonl")));
      return reported >= target;
    }));
    Taken taken = taken_by(service.child.pid());
    taken.start_ms = start_ms;
    if (kill < 5) first.at_least(taken);
    if (kill >= kills - 5) last_ones.at_least(taken);
    service.child.signal(SIGKILL);
    service.child.wait();
    reported = lines(content(folder.file("v.jsonl")));
  }
  // How often it was killed is seen in nothing that it opens, starts or leaves; what it remembers of earlier runs is
  // little.
  CHECK(last_ones.files <= first.files + 4);
  CHECK(last_ones.threads <= first.threads + 2);
  CHECK(last_ones.rss_kb <= first.rss_kb + 65536);
  CHECK(unknown_files(folder.file("state")).empty());
  std::map<Key, Json> stored;
  std::map<uint64_t, uint64_t> revisions;
  const Service last({"--state", folder.file("state")});
  for (uint64_t after = 0;;) {
    const Json page = last.get("/v1/incidents?limit=1000&after=" + std::to_string(after));
    for (const Json& incident : page["incidents"]) {
      Json answer = last.get("/v1/incidents/" + incident["incident"].dump() + "?revisions=1");
      for (Json& r : answer["revisions"]) {
        r.erase("recording");
        r.erase("acknowledged");
        CHECK(r["revision"] == ++revisions[r["incident"].get<uint64_t>()]);  // none is missing
        const Key key = key_of(r);
        CHECK(stored.emplace(key, std::move(r)).second);
      }
    }
    if (page["next"].is_null()) break;
    after = page["next"];
  }
  std::set<Key> seen;
  std::map<uint64_t, std::string> run_of;
  size_t lost = 0, doubled = 0, differing = 0;
  for (const Json& line : verdicts(folder)) {
    const auto at = stored.find(key_of(line));
    lost += at == stored.end();
    differing += at != stored.end() && at->second != line;
    doubled += !seen.insert(key_of(line)).second;
    const std::string run = line["run"];
    CHECK(run_of.try_emplace(line["incident"].get<uint64_t>(), run).first->second ==
          run);  // a number belongs to one run
  }
  CHECK(lost == 0);
  CHECK(differing == 0);
  CHECK(doubled == 0);
  CHECK(seen.size() > static_cast<size_t>(kills));
  WARN(kills << " kills, " << seen.size() << " lines, " << stored.size() << " revisions stored");
  if (const char* const out = std::getenv("CCLD_TEST_KILLS_OUT"))
    std::ofstream(out) << Json{{"kills", kills},
                               {"incidents", revisions.size()},
                               {"revisions_stored", stored.size()},
                               {"revisions_reported", seen.size()},
                               {"lost", lost},
                               {"doubled", doubled},
                               {"differing", differing},
                               {"files_first", first.files},
                               {"files_last", last_ones.files},
                               {"threads_first", first.threads},
                               {"threads_last", last_ones.threads},
                               {"start_ms_first", first.start_ms},
                               {"start_ms_last", last_ones.start_ms},
                               {"rss_kb_first", first.rss_kb},
                               {"rss_kb_last", last_ones.rss_kb},
                               {"recordings", recordings_in(folder.file("state"))},
                               {"files_unknown", unknown_files(folder.file("state")).size()}};
}

TEST_CASE("A state folder that cannot be used is one warning, and the service goes on") {
  const Folder folder;
  Service first(flags(folder));
  Service second(flags(folder));
  CHECK(contains(second.child.error(), "no history is kept: --state: '" + folder.file("state") +
                                           "' is in use by another service (process " +
                                           std::to_string(first.child.pid()) + ")"));
  Service unwritable({"--state", "/proc/nowhere"});
  CHECK(contains(unwritable.child.error(), "no history is kept: --state: cannot make the folder '/proc/nowhere'"));
  for (Service* service : {&second, &unwritable}) {
    Sender sender(service->telemetry);
    CHECK(service->get("/v1/status")["history"]["enabled"] == false);
    CHECK(service->get("/v1/incidents")["incidents"].empty());
    end(*service);
    CHECK(lines(service->child.error().substr(service->child.error().find("no history"))) >= 1);
  }
  end(first);

  std::ofstream(folder.file("state") + "/history.db", std::ios::trunc) << std::string(20000, 'x');
  Service third(flags(folder));
  CHECK(contains(third.child.error(), "and a new history begins"));
  CHECK(third.get("/v1/status")["history"]["enabled"] == true);
}

TEST_CASE("A full disk delays no verdict, and what it refused is stored when there is room") {
  const Folder folder;
  const std::string disk = folder.file("disk");
  std::filesystem::create_directories(disk);
  if (geteuid() != 0 || mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=3m") != 0) {
    WARN("skipped: only root can mount a small file system");
    return;
  }
  struct Unmount {
    std::string path;
    ~Unmount() { umount2(path.c_str(), MNT_DETACH); }
  } const unmount{disk};
  {
    Service service({"--state", disk + "/state", "--verdicts", folder.file("v.jsonl"), "--set", "mismatch_settle_s=0"});
    Sender sender(service.telemetry);
    send_ranks(sender, {1024, 2048}, 0xa1);
    wait_for_lines(service, 1);
    {
      std::ofstream filler(disk + "/filler", std::ios::binary);
      const std::string block(4096, 'x');
      while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
      }
    }
    // There was no room for a reserve on so small a disk: the database refuses when its log has to grow.
    uint64_t comm_uid = 0x2000, batch = 10;
    service.status_when([&](const Json& s) {
      for (int i = 0; i < 5; ++i) send_ranks(sender, {1024, 2048}, comm_uid++, batch++);
      return s["history"]["revisions_waiting"] > 0;
    });
    wait_for_lines(service, 1 + (comm_uid - 0x2000));  // all that was sent is judged
    const Json listed = service.get("/v1/incidents?limit=1000");
    CHECK(listed["matching"] == service.get("/v1/incidents?limit=1000&after=0")["matching"]);
    CHECK(contains(service.child.wait_for_error("history: "), "full"));
    std::filesystem::remove(disk + "/filler");
    service.status_when([](const Json& s) { return s["history"]["revisions_waiting"] == 0; });
    CHECK_FALSE(service.child.wait_for_error("history: stored again").empty());
    end(service);
  }
  std::set<uint64_t> reported;
  for (const Json& v : verdicts(folder)) reported.insert(v["incident"].get<uint64_t>());
  CHECK(json_of({ccld, "incidents", "--state", disk + "/state", "--json"})["matching"] == reported.size());
}

TEST_CASE("Incidents are recorded beside the history unless told otherwise, and the incident names its recording") {
  const Folder folder;
  Service service(flags(folder));
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 2048}, 0xa1);
  wait_for_lines(service, 1);
  end(service);  // an ending service does not wait for what follows the confirmation
  const Json incident = json_of({ccld, "explain", "1", "--json", "--state", folder.file("state")});
  const std::string recording = incident["recording"];
  CHECK(contains(recording, folder.file("state") + "/recordings/incident-"));
  CHECK(contains(run({ccld, "replay", recording}).output, "H2"));
}

}  // namespace ccld::test
