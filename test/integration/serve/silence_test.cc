// Silences as operators use them, beside a webhook that must not hear of what they fit.
#include <atomic>

#include "test/integration/serve/service.h"

namespace ccld::test {

TEST_CASE("What is silenced is found and shown, over a kill of the service, and nobody is notified until the silence ends") {
  const Folder folder;
  std::atomic<int> posts = 0;
  httplib::Server receiver;
  receiver.Post("/hook", [&](const httplib::Request&, httplib::Response&) { ++posts; });
  const int port = receiver.bind_to_any_port("127.0.0.1");
  std::thread thread([&] { receiver.listen_after_bind(); });
  const std::vector<std::string> flags = {"--state",  folder.file("state"),    "--verdicts", folder.file("v.jsonl"), "--set", "mismatch_settle_s=0",
                                          "--webhook", "http://127.0.0.1:" + std::to_string(port) + "/hook"};
  {
    Service service(flags);
    const Finished added = service.ask({"silence", "add", "--job", "demo", "--for", "2h", "--note", "new firmware", "--by", "bob"});
    INFO(added.error);
    CHECK(added.status == 0);
    CHECK(contains(added.output, "silence 1 until "));
    service.child.signal(SIGKILL);
    service.child.wait();
  }
  const Service service(flags);
  CHECK(contains(service.ask({"silence", "list"}).output, "new firmware"));
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 2048}, 0xa1);
  service.status_when([](const Json& s) { return s["incidents_confirmed"] == 1 && s["incidents_silenced_confirmed"] == 1 && s["webhook"]["queue_length"] >= 1; });
  CHECK(service.get("/v1/incidents/1")["silenced"]["note"] == "new firmware");
  CHECK(contains(service.ask({"incidents"}).output, ", silenced"));
  CHECK(contains(service.ask({"explain", "1"}).output, "silence 1 of bob"));
  const Finished check = service.ask({"status", "--check"});
  CHECK(check.status == 0);
  CHECK(contains(check.output, "1 silenced"));
  CHECK(contains(service.get_text("/metrics"), R"(ccld_incident_silenced{incident="1",training_job="demo"} 1)"));
  CHECK(posts == 0);

  CHECK(service.ask({"silence", "end", "1"}).output == "silence 1 is ended\n");
  service.status_when([](const Json& s) { return s["incidents_silenced"] == 0 && s["webhook"]["delivered"] >= 1; });
  CHECK(posts >= 1);
  CHECK(service.ask({"status", "--check"}).status == 2);
  require_refused({ccld, "silence", "end", "1", "--http", service.http}, 1, "there is no silence 1");
  require_refused({ccld, "silence", "add", "--job", "a", "--for", "soon", "--http", service.http}, 2, "for: 'soon' is not a span");
  require_refused({ccld, "silence", "add", "--job", "a", "--http", service.http}, 2, "--for is needed");
  require_refused({ccld, "silence", "add", "--for", "2h", "--http", service.http}, 2, "job, host, kind or component is needed");
  require_refused({ccld, "silence", "end", "--http", service.http}, 2, "end needs the number");
  require_refused({ccld, "silence", "list", "--job", "a", "--http", service.http}, 2, "are for add");
  receiver.stop();
  thread.join();
}

}  // namespace ccld::test
