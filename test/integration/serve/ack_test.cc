// Acknowledging as operators do it: by command and over HTTP, over a kill of the service.
#include <map>

#include "test/integration/serve/service.h"

namespace ccld::test {
namespace {

std::vector<std::string> flags(const Folder& folder) {
  return {"--state", folder.file("state"), "--verdicts", folder.file("v.jsonl"), "--set", "mismatch_settle_s=0"};
}

void wait_for_incident(const Service& service) {
  service.status_when([](const Json& s) { return s["incidents_open"] == 1 && s["history"]["revisions_stored"] >= 1; });
}

}  // namespace

TEST_CASE("An acknowledgement outlives a kill of the service, is shown everywhere, and can be undone") {
  const Folder folder;
  {
    Service service(flags(folder));
    Sender sender(service.telemetry);
    send_ranks(sender, {1024, 2048}, 0xa1);
    wait_for_incident(service);
    const Finished done = service.ask({"ack", "1", "--by", "alice", "--note", "asking the owner of the job"});
    INFO(done.error);
    CHECK(done.status == 0);
    CHECK(done.output == "incident 1 is acknowledged\n");
    service.child.signal(SIGKILL);
    service.child.wait();
  }
  // Also while no service runs.
  CHECK(contains(run({ccld, "explain", "1", "--state", folder.file("state")}).output, "asking the owner"));

  Service service(flags(folder));
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 2048}, 0xa1);  // the same fault, still there
  service.status_when([](const Json& s) { return s["incidents_open"] == 1 && s["incidents_acknowledged"] == 1; });
  const Json incident = service.get("/v1/incidents")["incidents"][0];
  CHECK(incident["incident"] == 1);
  CHECK(incident["acknowledged"]["by"] == "alice");
  CHECK(incident["acknowledged"]["note"] == "asking the owner of the job");
  CHECK(contains(service.ask({"incidents"}).output, ", acknowledged"));
  CHECK(contains(service.ask({"explain", "1"}).output, "by alice"));
  CHECK(contains(service.ask({"status"}).output, "1 acknowledged"));
  CHECK(contains(service.ask({"status", "--check"}).output, "1 acknowledged"));
  CHECK(contains(service.ask({"status", "--job", "demo"}).output, "acknowledged"));
  CHECK(contains(service.get_text("/metrics"), R"(ccld_incident_acknowledged{incident="1",training_job="demo"} 1)"));

  CHECK(service.ask({"ack", "1", "--undo"}).output == "incident 1 is not acknowledged any more\n");
  service.status_when([](const Json& s) { return s["incidents_acknowledged"] == 0; });
  CHECK(service.get("/v1/incidents/1")["acknowledged"].is_null());
}

TEST_CASE("What cannot be acknowledged is one line with exit status 1") {
  const Folder folder;
  {
    Service service(flags(folder));
    Sender sender(service.telemetry);
    send_ranks(sender, {1024, 2048}, 0xa1);
    wait_for_incident(service);
    require_refused({ccld, "ack", "7", "--http", service.http}, 1, "there is no incident 7");
    require_refused({ccld, "ack", "1", "--undo", "--http", service.http}, 1, "incident 1 is not acknowledged");
    require_refused({ccld, "ack", "--http", service.http}, 2, "incident is required");
    require_refused({ccld, "ack", "1", "--note", std::string(501, 'x'), "--http", service.http}, 2, "note is longer than 500 bytes");
    const auto foreign = httplib::Client(service.http)
                             .Post("/v1/incidents/1/ack", httplib::Headers{{"Origin", "http://evil.example"}}, R"({"by":"x"})", "application/json");
    REQUIRE(foreign);
    CHECK(foreign->status == 403);
    CHECK(service.get("/v1/incidents/1")["acknowledged"].is_null());
    service.child.signal(SIGTERM);
    service.child.wait();
  }
  auto more = flags(folder);
  more.insert(more.end(), {"--take-up-s", "0"});
  const Service service(more);
  service.status_when([](const Json& s) { return s["service"]["verdict_lines"] >= 1; });
  require_refused({ccld, "ack", "1", "--http", service.http}, 1, "incident 1 is ended");
}

}  // namespace ccld::test
