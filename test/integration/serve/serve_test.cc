// `ccld` as its users meet it: the executable itself, real sockets, real telemetry.
#include "schemas/build_id/build_id.h"
#include "test/integration/serve/service.h"

namespace ccld::test {

TEST_CASE("The service says where it listens and ends at once when asked to") {
  const Folder folder;
  for (const int number : {SIGTERM, SIGINT}) {
    Service service({"--ready-file", folder.file("ready")});
    const Json ready = Json::parse(content(folder.file("ready")));
    CHECK(ready["pid"] == service.child.pid());
    CHECK(ready["telemetry"] == service.telemetry);
    CHECK(ready["http"] == service.http);
    CHECK(service.get("/healthz")["status"] == "ok");
    const auto asked = Clock::now();
    service.child.signal(number);
    CHECK(service.child.wait() == 0);
    CHECK(Clock::now() - asked < std::chrono::seconds(1));
    CHECK_FALSE(std::filesystem::exists(folder.file("ready")));
  }
}

TEST_CASE("Telemetry shows in the status, in the table for people, and in the metrics") {
  Service service;
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 1024});
  const Json status = service.status_when([](const Json& s) { return s["ingest"]["batches"] == 2; });
  CHECK(status["version"] == "0.1.0");
  CHECK(status["process_count"] == 2);
  REQUIRE(status["communicators"].size() == 1);
  const Json& comm = status["communicators"][0];
  CHECK(comm["communicator"] == "0000000000000abc");
  CHECK(comm["comm_name"] == "tp0");
  CHECK(comm["job"] == "demo");
  CHECK(comm["rank_count"] == 2);
  CHECK(comm["ranks_seen"] == 2);
  REQUIRE(comm["ranks"].size() == 2);
  CHECK(comm["ranks"][1]["pid"] == 4712);
  CHECK(comm["ranks"][1]["up"] == true);

  const Finished table = service.ask({"status", "--ranks"});
  CHECK(table.status == 0);
  CHECK(table.error.empty());
  CHECK(contains(table.output, "2 processes, 2 batches, 0 lost, 0 rejected"));
  CHECK(contains(table.output, "0000000000000abc  tp0"));
  CHECK(contains(table.output, "4712"));
  const Finished json = service.ask({"status", "--json"});
  CHECK(json.status == 0);
  CHECK(Json::parse(json.output)["process_count"] == 2);
  CHECK(contains(service.get_text("/metrics"), "\nccld_ranks 2\n"));
}

TEST_CASE("Operations in flight are shown with their age") {
  Service service;
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 1024});
  const Json status = service.status_when([](const Json& s) {
    return !s["communicators"].empty() && !s["communicators"][0]["in_flight"].is_null();
  });
  const Json& flight = status["communicators"][0]["in_flight"];
  CHECK(flight["op_seq"] == 3);
  CHECK(flight["operation"]["function"] == "AllReduce");
  CHECK(flight["age_ms"] >= 200);
}

TEST_CASE("Bad messages are counted by reason, logged once per cause, and nothing else suffers") {
  Service service;
  Sender sender(service.telemetry);
  const Bytes whole = full_batch();
  for (size_t at = 0; at < whole.size(); at += 7) {
    sender.send(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at)));
    Bytes damaged = whole;
    damaged[at] ^= 0xff;
    sender.send(damaged);
  }
  const std::string junk = "GET / HTTP/1.1";
  for (int i = 0; i < 5; ++i) sender.send(Bytes(junk.begin(), junk.end()));
  sender.send(whole, zmq::send_flags::sndmore);
  sender.send(whole);
  send_ranks(sender, {1024, 1024}, 0xdef, 5000);
  const Json status = service.status_when([](const Json& s) {
    return std::any_of(s["communicators"].begin(), s["communicators"].end(),
                       [](const Json& c) { return c["communicator"] == "0000000000000def" && c["ranks_seen"] == 2; });
  });
  const Json& rejected = status["ingest"]["rejected"];
  CHECK(rejected["identifier"] >= 5);
  CHECK(rejected["structure"] > 10);
  CHECK(rejected["multipart"] == 1);
  CHECK(contains(service.get_text("/metrics"), "ccld_messages_rejected_total{reason=\"multipart\"} 1\n"));
  service.child.signal(SIGTERM);
  CHECK(service.child.wait() == 0);
  std::istringstream log(service.child.error());
  std::string line;
  size_t refused_lines = 0;
  while (std::getline(log, line)) refused_lines += contains(line, "telemetry refused (structure)") ? 1 : 0;
  CHECK(refused_lines == 1);
}

TEST_CASE("Messages about ranks that cannot be do not end the service") {
  Service service;
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 1024});
  uint64_t seq = 2;
  for (const int32_t rank : {2, 1000, (1 << 20) - 1}) {
    WireBatch b;
    WireRounds rounds;
    rounds.rank = rank;
    add_rounds(b, rounds);
    add_in_flight(b, {.rank = rank});
    add_comm_down(b, rank);
    sender.send(b.finish(process_of(0, seq++)));
  }
  // A communicator that contradicts itself, and lanes that point outside it.
  WireBatch b;
  add_comm_up(b, {.rank = 5, .rank_count = 6});
  add_in_flight(b, {.lanes = {wire::LaneState(3, 10, 8, 11, 10, 1 << 19, 240, 1, 250, 1, 0, 2, 3, 1, 1, 0)}});
  sender.send(b.finish(process_of(0, seq++)));
  service.status_when([](const Json& s) { return s["ingest"]["batches"] == 6; });
  CHECK(service.get("/healthz")["status"] == "ok");
}

TEST_CASE("Ranks that disagree about an operation become a verdict that can be read and explained") {
  const Folder folder;
  Service service({"--set", "mismatch_settle_s=0", "--rules", "default"});
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 1024, 2048});
  const std::string line = service.child.wait_for_output("\"H2\"");
  REQUIRE_FALSE(line.empty());
  const Json verdict = Json::parse(line);
  CHECK(verdict["class"] == "H2");
  CHECK(verdict["rules"] == "default");
  CHECK(verdict["job"] == "demo");
  CHECK(verdict["communicator"] == "0000000000000abc");
  CHECK(verdict["op_seq"] == 1);
  CHECK(verdict["operation"]["function"] == "AllReduce");
  CHECK(verdict["ranks"] == Json::parse("[2]"));
  CHECK(verdict["culprits"][0]["pid"] == 4713);
  CHECK_FALSE(verdict["evidence"].empty());

  const std::string id = verdict["incident"].dump();
  const Finished text = service.ask({"explain", id});
  CHECK(text.status == 0);
  CHECK(text.output.find("MISMATCH: ") == 0);
  CHECK(contains(text.output, "\nDetails  incident " + id + ", class H2: "));
  for (const char* label : {"\nWhere ", "\nWhat ", "\nProof ", "\nDo "}) CHECK(contains(text.output, label));
  const Finished list = service.ask({"explain"});
  CHECK(list.status == 0);
  CHECK(contains(list.output, "INCIDENT"));
  CHECK(contains(list.output, "MISMATCH: operation #"));
  CHECK(Json::parse(service.ask({"explain", id, "--json"}).output)["class"] == "H2");
  CHECK(Json::parse(service.ask({"explain", "--json"}).output)[0]["class"] == "H2");
  CHECK(service.get("/v1/incidents")["incidents"][0]["class"] == "H2");

  const Finished unknown = service.ask({"explain", "4242"});
  CHECK(unknown.status == 1);
  CHECK(unknown.error == "ccld: there is no incident 4242\n");

  // The same from the file, when the service is gone.
  std::ofstream(folder.file("v.jsonl")) << service.child.output();
  service.child.signal(SIGTERM);
  CHECK(service.child.wait() == 0);
  const Finished later = run({ccld, "explain", id, "--file", folder.file("v.jsonl")});
  CHECK(later.status == 0);
  CHECK(later.output == text.output);
}

TEST_CASE("Settings and flags come from the config file, and the command line wins") {
  const Folder folder;
  std::ofstream(folder.file("ccld.toml")) << "listen = \"tcp://127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\nrules = \"paper\"\n"
                                          << "verdicts = \"" << folder.file("verdicts.jsonl") << "\"\n[settings]\nhang_confirm_s = 1\n";
  {
    Service service({"--config", folder.file("ccld.toml"), "--set", "hang_suspect_s=0.5"}, false);
    CHECK(service.get("/v1/status")["rules"] == "paper");
    CHECK(std::filesystem::exists(folder.file("verdicts.jsonl")));
  }
  {
    Service service({"--config", folder.file("ccld.toml"), "--rules", "default", "--set", "hang_suspect_s=0.5"}, false);
    CHECK(service.get("/v1/status")["rules"] == "default");
  }
  // hang_confirm_s of the file is in force: it contradicts the default of hang_suspect_s.
  require_refused({ccld, "serve", "--config", folder.file("ccld.toml")}, 2, "hang_confirm_s");
}

TEST_CASE("A wrong setting, flag or config is one line that names it, and status 2") {
  const Folder folder;
  std::ofstream(folder.file("bad.toml")) << "colour = \"blue\"\n";
  require_refused({ccld, "serve", "--set", "no_such=1"}, 2, "no_such");
  require_refused({ccld, "serve", "--set", "hang_suspect_s=-3"}, 2, "hang_suspect_s");
  require_refused({ccld, "serve", "--set", "hang_suspect_s"}, 2, "hang_suspect_s");
  require_refused({ccld, "serve", "--rules", "guess"}, 2, "--rules");
  require_refused({ccld, "serve", "--listen", "nowhere"}, 2, "--listen");
  require_refused({ccld, "serve", "--listen", "tcp://127.0.0.1:99999"}, 2, "--listen");
  require_refused({ccld, "serve", "--listen", "udp://127.0.0.1:5566"}, 2, "--listen");
  require_refused({ccld, "serve", "--http", "nowhere"}, 2, "--http");
  require_refused({ccld, "serve", "--cluster-http-url", "node1:5580"}, 2,
                  "--cluster-http-url: 'node1:5580' begins neither with http://");
  require_refused({ccld, "serve", "--cluster-http-url", "https://node1:5580/x"}, 2, "--cluster-http-url");
  require_refused({ccld, "serve", "--log-level", "loud"}, 2, "--log-level");
  require_refused({ccld, "serve", "--config", folder.file("none.toml")}, 2, "none.toml");
  require_refused({ccld, "serve", "--config", folder.file("bad.toml")}, 2, "colour");
  require_refused({ccld, "serve", "--no-such-flag"}, 2, "--no-such-flag");
  require_refused({ccld, "serve", "--health-look-max-s", "0"}, 2, "--health-look-max-s");
  require_refused({ccld, "status", "--http", "nowhere"}, 2, "--http");
  require_refused({ccld, "status", "--limit", "0"}, 2, "--limit");
  require_refused({ccld, "status", "--colour"}, 2, "--colour");
  require_refused({ccld, "status", "--check", "--colour"}, 3, "--colour");  // status 2 of a check is a confirmed incident
  require_refused({ccld, "tune", "--job", "demo", "sample_us=1"}, 2, "sample_us=1 is not valid");
  require_refused({ccld, "tune", "--job", "demo", "colour=1"}, 2, "'colour' is not known");
  require_refused({ccld, "tune", "sample_us=500"}, 2, "--job");
  require_refused({ccld, "tune", "--pid", "0", "sample_us=500"}, 2, "--pid");
  require_refused({ccld}, 2, "subcommand");
}

TEST_CASE("An occupied port or a file that cannot be written is one line that names the flag, and status 1") {
  Service first;
  const std::string http = first.http.substr(std::string("http://").size());
  require_refused({ccld, "serve", "--listen", first.telemetry, "--http", "127.0.0.1:0"}, 1,
                  "--listen: cannot listen on '" + first.telemetry + "': Address already in use");
  require_refused({ccld, "serve", "--listen", "tcp://127.0.0.1:0", "--http", http}, 1,
                  "--http: cannot listen on '" + http + "': Address already in use");
  const std::vector<std::string> free_ports = {ccld, "serve", "--listen", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0", "--no-history"};
  const auto with = [&free_ports](std::vector<std::string> flags) {
    flags.insert(flags.begin(), free_ports.begin(), free_ports.end());
    return flags;
  };
  require_refused(with({"--verdicts", "/no/such/folder/v.jsonl"}), 1, "--verdicts: cannot write to '/no/such/folder/v.jsonl'");
  require_refused(with({"--ready-file", "/no/such/folder/ready"}), 1, "--ready-file");
}

TEST_CASE("Without a service, questions end with one line and status 1") {
  const std::string url = "http://127.0.0.1:" + std::to_string(free_port());
  require_refused({ccld, "status", "--http", url}, 1, url);
  require_refused({ccld, "explain", "--http", url}, 1, url);
  require_refused({ccld, "explain", "1", "--http", url}, 1, url);
  require_refused({ccld, "explain", "--file", "/no/such/file"}, 1, "/no/such/file");
  require_refused({ccld, "tune", "--job", "demo", "running=0", "--http", url}, 1, url);
  require_refused({ccld, "tune", "--pid", "1", "--dir", "/no/such/folder", "running=0"}, 1, "process 1 has no probe");
}

TEST_CASE("Help and version are status 0") {
  CHECK(run({ccld, "--version"}).output == std::string("ccld 0.1.0 (build ") + build_id() + ")\n");
  CHECK(run({ccld, "--help"}).status == 0);
  const Finished help = run({ccld, "serve", "--help"});
  CHECK(help.status == 0);
  CHECK(contains(help.output, "--verdicts"));
  const Finished settings = run({ccld, "settings"});
  CHECK(settings.status == 0);
  CHECK(contains(settings.output, "hang_confirm_s = 300"));
}

TEST_CASE("A restarted service takes up where the senders are and appends to its verdicts") {
  const Folder folder;
  const std::string verdicts = folder.file("v.jsonl");
  const std::vector<std::string> flags = {"--listen", "tcp://127.0.0.1:" + std::to_string(free_port()), "--http", "127.0.0.1:0",
                                          "--verdicts", verdicts, "--set", "mismatch_settle_s=0"};
  std::unique_ptr<Sender> sender;
  {
    Service service(flags, false);
    sender = std::make_unique<Sender>(service.telemetry);
    send_ranks(*sender, {1024, 2048});
    service.status_when([](const Json& s) { return s["incidents_total"] >= 1; });
    service.child.signal(SIGTERM);
    REQUIRE(service.child.wait() == 0);
  }
  const std::string before = content(verdicts);
  CHECK(lines(before) >= 1);
  Service service(flags, false);
  send_ranks(*sender, {1024, 4096}, 0xabc, 7);  // the connection is made anew by ZeroMQ
  const Json status = service.status_when([](const Json& s) { return s["service"]["verdict_lines"] >= 1; });
  CHECK(status["ingest"]["lost_batches"] == 0);
  CHECK(content(verdicts).find(before) == 0);
  CHECK(lines(content(verdicts)) > lines(before));
}

TEST_CASE("A client that never finishes its request delays neither telemetry nor the end") {
  Service service;
  const int port = std::stoi(service.http.substr(service.http.rfind(':') + 1));
  std::vector<int> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(connect_to(port));
    if (i % 2 == 0) REQUIRE(write(clients.back(), "GET /v1/st", 10) == 10);
  }
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 1024});
  service.status_when([](const Json& s) { return s["ingest"]["batches"] == 2; });
  for (int i = 0; i < 4; ++i) {
    clients.push_back(connect_to(port));
    REQUIRE(write(clients.back(), "GET /v1/st", 10) == 10);
  }
  const auto asked = Clock::now();
  service.child.signal(SIGTERM);
  CHECK(service.child.wait() == 0);
  CHECK(Clock::now() - asked < std::chrono::seconds(1));
  for (const int fd : clients) close(fd);
}

TEST_CASE("A service that was stopped for a while notices, and reads what waits before it judges") {
  Service service;
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 1024});
  service.status_when([](const Json& s) { return s["ingest"]["batches"] == 2; });
  service.child.signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // the pause is what is tested
  service.child.signal(SIGCONT);
  CHECK_FALSE(service.child.wait_for_error("the service did not run for").empty());
  service.status_when([](const Json& s) { return s["service"]["late_ticks"] >= 1; });
}

TEST_CASE("Every batch of a busy sender arrives once") {
  Service service;
  Sender sender(service.telemetry);
  constexpr uint64_t batches = 3000;
  for (uint64_t seq = 1; seq <= batches; ++seq) {
    WireBatch b;
    add_agent_health(b);
    sender.send(b.finish(process_of(0, seq)));
  }
  const Json status = service.status_when([](const Json& s) { return s["ingest"]["batches"] == batches; });
  CHECK(status["ingest"]["lost_batches"] == 0);
  CHECK(status["ingest"]["repeated_batches"] == 0);
}

TEST_CASE("Unknown questions are answered with an error, not with silence") {
  Service service;
  httplib::Client client(service.http);
  const auto nothing = client.Get("/v1/nothing");
  REQUIRE(nothing);
  CHECK(nothing->status == 404);
  CHECK(Json::parse(nothing->body)["error"] == "no answer for GET /v1/nothing");
  const auto no_number = client.Get("/v1/incidents/abc");
  REQUIRE(no_number);
  CHECK(no_number->status == 400);
  const auto unknown = client.Get("/v1/incidents/1");
  REQUIRE(unknown);
  CHECK(unknown->status == 404);
}

TEST_CASE("Probes of a job are tuned through the service, and those that do not answer are counted") {
  Service service;
  Sender probe(service.telemetry), deaf(service.telemetry), other(service.telemetry);
  const auto hello = [](Sender& sender, uint32_t pid, const std::string& job) {
    WireBatch b;
    add_agent_health(b);
    sender.send(b.finish({.job = job, .pid = pid}));
  };
  hello(probe, 1, "demo");
  hello(deaf, 2, "demo");
  hello(other, 3, "another");
  service.status_when([](const Json& s) { return s["process_count"] == 3; });
  std::thread agent([&] {
    const auto bytes = probe.receive();
    if (!bytes) return;
    const auto& request = *wire::GetControlRequest(bytes->data());
    WireBatch b;
    add_control_state(b, {.sequence = request.sequence(), .running = request.running(), .sample_us = request.sample_us()});
    probe.send(b.finish({.pid = 1, .batch_seq = 2}));
  });
  const Finished tuned =
      service.ask({"tune", "--job", "demo", "--wait", "--timeout", "6", "sample_us=500", "running=0"});
  agent.join();
  INFO(tuned.error);
  CHECK(contains(tuned.output, "asked 2 probes of job demo"));
  CHECK(contains(tuned.output, "1 of 2 answered"));
  CHECK(tuned.status == 1);
  const auto asked = deaf.receive();
  REQUIRE(asked.has_value());
  flatbuffers::Verifier verifier(asked->data(), asked->size());
  REQUIRE(wire::VerifyControlRequestBuffer(verifier));
  const auto& request = *wire::GetControlRequest(asked->data());
  CHECK(request.fields() == (abi::control_running | abi::control_sample_us));
  CHECK(request.sample_us() == 500);
  CHECK_FALSE(request.running());
  CHECK_FALSE(other.receive(std::chrono::milliseconds(1)).has_value());

  const Json status = service.get("/v1/status?ranks=1");
  CHECK(status["stopped_probe_count"] == 1);
  CHECK(status["processes"][0]["probe"] == "stopped");
  CHECK(status["processes"][0]["control"]["sample_us"] == 500);
  CHECK(contains(service.ask({"status"}).output, "1 probe was stopped by an operator"));

  const Finished nobody = service.ask({"tune", "--job", "no-such-job", "running=1"});
  CHECK(nobody.status == 1);
  CHECK(nobody.error == "ccld: no probe of job 'no-such-job' that fits is known\n");
}

TEST_CASE("What has come is acknowledged to those who ask, and what did not come is in the status") {
  Service service;
  Sender sender(service.telemetry), older(service.telemetry);
  for (const uint64_t batch_seq : {1, 2, 5}) {
    WireBatch b;
    add_metrics(b, {{static_cast<uint16_t>(abi::MetricId::agent_undelivered_batches), "", 10}});
    sender.send(b.finish({.pid = 1, .batch_seq = batch_seq, .acknowledge = batch_seq == 5}));
    WireBatch c;
    add_comm_up(c);
    older.send(c.finish({.pid = 2, .batch_seq = batch_seq}));
  }
  const auto answer = sender.receive();
  REQUIRE(answer.has_value());
  flatbuffers::Verifier verifier(answer->data(), answer->size());
  REQUIRE(wire::VerifyControlRequestBuffer(verifier));
  const auto& a = *wire::GetControlRequest(answer->data())->acknowledgement();
  CHECK(a.batch_seq() == 5);
  CHECK(a.batches() == 3);
  CHECK(a.session() != 0);
  const Json status = service.status_when([](const Json& s) { return s["ingest"]["batches"] == 6; });
  CHECK(status["undelivered_batches"] == 10);  // as its probe says
  CHECK(contains(service.ask({"status"}).output, "10 batches could not be delivered"));
  CHECK_FALSE(older.receive(std::chrono::milliseconds(1)).has_value());
}

TEST_CASE("A request to tune is refused unless it is one, and a web page cannot make one") {
  Service service;
  httplib::Client client(service.http);
  const std::string good = R"({"job": "demo", "sample_us": 500})";
  const auto as_text = client.Post("/v1/tune", good, "text/plain");
  REQUIRE(as_text);
  CHECK(as_text->status == 415);
  const auto bad = client.Post("/v1/tune", R"({"job": "demo", "sample_us": 5})", "application/json");
  REQUIRE(bad);
  CHECK(bad->status == 400);
  CHECK(contains(bad->body, "sample_us=5 is not valid"));
  const auto nobody = client.Post("/v1/tune", good, "application/json");
  REQUIRE(nobody);
  CHECK(nobody->status == 404);
}

TEST_CASE("What is not printable in a request does not reach the log") {
  Service service;
  httplib::Client client(service.http);
  const auto nobody =
      client.Post("/v1/tune", R"({"job": "a\u001b[31m\nb\u202ec", "sample_us": 500})", "application/json");
  REQUIRE(nobody);
  CHECK(nobody->status == 404);
  service.child.signal(SIGTERM);
  CHECK(service.child.wait() == 0);
  const std::string log = service.child.error();
  CHECK(contains(log, "for job 'a?[31m?b?c': 0 of 0 probes asked\n"));
  CHECK_FALSE(contains(log, "\x1b"));
}

TEST_CASE("Communicator initialization, metrics, network queues and Send and Recv show in status and metrics") {
  Service service;
  Sender sender(service.telemetry);
  WireBatch b;
  add_comm_up(b);
  add_comm_init(b, {.comm_hash = 0xfeed});
  add_in_flight(b, {.lanes = {}, .proxies = {}});
  add_metrics(b);
  add_net_queues(b);
  add_p2p_rounds(b);
  sender.send(b.finish());
  const Json status = service.status_when([](const Json& s) { return !s["initializations"].empty(); });
  CHECK(status["initializations"][0]["comm_hash"] == "000000000000feed");
  CHECK(status["initializations"][0]["never_heard"].size() == 3);
  CHECK(status["network"]["queues_stuck"] == 1);
  CHECK(status["processes"][0]["metrics"]["gpu_xid_last"]["0000:10:00.0"] == 79);
  CHECK(status["communicators"][0]["p2p"]["in_flight"] == 1);
  CHECK(status["communicators"][0]["p2p"]["completed"] == 2);
  const std::string text = service.ask({"status"}).output;
  CHECK(contains(text, "communicator initialization, hash 000000000000feed, 4 ranks, job demo"));
  CHECK(contains(text, "bootstrapped: 1 rank: 0"));
  CHECK(contains(text, "never heard of: 3 ranks: 1-3"));
  CHECK(contains(service.get_text("/metrics"),
                 "\nccld_probe_gpu_last_xid{training_job=\"demo\",host=\"node-a\",pid=\"4711\",device=\"0000:10:00.0\"} 79\n"));
}

TEST_CASE("Status and check say what a monitoring system and a script need") {
  Service service({"--set", "mismatch_settle_s=0"});
  const Finished nothing = service.ask({"status", "--check"});
  CHECK(nothing.status == 0);
  CHECK(nothing.output.find("CCLD OK: no open incident, 0 processes | confirmed=0") == 0);
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 1024, 2048});
  service.status_when([](const Json& s) { return s["incidents_confirmed"] == 1; });
  const Finished check = service.ask({"status", "--check"});
  CHECK(check.status == 2);
  CHECK(lines(check.output) == 1);
  CHECK(contains(check.output, "CCLD CRITICAL: 1 confirmed incident"));
  CHECK(service.ask({"status", "--check", "--job", "demo"}).status == 2);
  CHECK(service.ask({"status", "--check", "--job", "none"}).status == 3);
  const Finished job = service.ask({"status", "--job", "demo"});
  CHECK(job.status == 0);
  CHECK(contains(job.output, "ccld explain 1"));
  CHECK(Json::parse(service.ask({"status", "--job", "demo", "--json"}).output)["job"] == "demo");
  CHECK(Json::parse(service.ask({"status", "--json", "--limit", "1"}).output)["communicators"].size() == 1);
  const Finished wrong = service.ask({"status", "--after", "nonsense"});
  CHECK(wrong.status == 2);
  CHECK(contains(wrong.error, "after='nonsense'"));
  const std::string url = "http://127.0.0.1:" + std::to_string(free_port());
  const Finished unreachable = run({ccld, "status", "--check", "--http", url});
  CHECK(unreachable.status == 3);
  CHECK(unreachable.output.find("CCLD UNKNOWN: no service answers") == 0);
}

TEST_CASE("Into a pipe the status is 80 columns wide, unless told otherwise") {
  Service service;
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 1024});
  service.status_when([](const Json& s) { return s["ingest"]["batches"] == 2; });
  const auto widest = [](const std::string& text) {
    size_t width = 0;
    std::istringstream all(text);
    for (std::string line; std::getline(all, line);) width = std::max(width, line.size());
    return width;
  };
  const auto status = [&](std::vector<std::string> flags, const std::string& columns) {
    std::vector<std::string> words = {ccld, "status", "--ranks", "--http", service.http};
    words.insert(words.end(), flags.begin(), flags.end());
    const std::string variable = "COLUMNS=" + columns;
    return run(words, {variable}).output;
  };
  CHECK(widest(status({}, "")) <= 80);
  CHECK(widest(status({}, "40")) <= 40);
  CHECK(widest(status({}, "nonsense")) <= 80);
  CHECK(widest(status({"--wide"}, "40")) > 80);
}

TEST_CASE("What cannot be written is a failure of every command") {
  const Folder folder;
  Service service({"--record", folder.file("r.ccldrec"), "--set", "mismatch_settle_s=0"});
  Sender sender(service.telemetry);
  send_ranks(sender, {1024, 2048});
  service.status_when([](const Json& s) { return s["incidents_total"] == 1; });
  const std::string http = " --http " + service.http;
  std::ofstream(folder.file("v.jsonl")) << R"({"incident": 1})" << "\n";
  const std::vector<std::string> commands = {"status" + http,
                                             "status --json" + http,
                                             "status --check" + http,
                                             "status --watch 60" + http,
                                             "explain" + http,
                                             "explain 1 --json" + http,
                                             "settings",
                                             "--help",
                                             "--version",
                                             "serve --help",
                                             "frames --dir " + folder.file(""),
                                             "doctor --dir /dev/shm --endpoint " + service.telemetry + http,
                                             "top" + http};
  for (const std::string& command : commands) {
    INFO(command);
    const Finished full = run({"/bin/sh", "-c", ccld + " " + command + " > /dev/full"});
    CHECK(full.status != 0);
    CHECK(contains(full.error, "cannot write to standard output: No space left on device"));
    // A pipe whose only reader is closed before ccld begins.
    const std::string pipe = folder.file("pipe");
    const Finished closed = run({"/bin/sh", "-c", "rm -f " + pipe + "; mkfifo " + pipe + "; exec 4<>" + pipe + " 5>" + pipe +
                                                      " 4<&-; " + ccld + " " + command + " >&5"});
    CHECK(closed.status != 0);
    CHECK(contains(closed.error, "cannot write to standard output: Broken pipe"));
  }
  service.child.signal(SIGTERM);
  CHECK(service.child.wait() == 0);
  const Finished replay = run({"/bin/sh", "-c", ccld + " replay " + folder.file("r.ccldrec") + " > /dev/full"});
  CHECK(replay.status != 0);
}

TEST_CASE("The doctor says what is wrong and what to do") {
  const Folder folder;
  Service service;
  const Finished well = service.ask({"doctor", "--endpoint", service.telemetry, "--dir", folder.file("")});
  INFO(well.output);
  CHECK(well.status == 0);
  CHECK(contains(well.output, "ok    telemetry " + service.telemetry + " answers as ZeroMQ does\n"));
  CHECK(contains(well.output, "ok    service " + service.http + " is well"));
  CHECK(contains(well.output, "service and this ccld are both version"));
  CHECK(contains(well.output, "warn  the service has heard of no process  -> "));
  // The query API accepts connections, too, and is no ZeroMQ.
  const Finished other = service.ask({"doctor", "--endpoint", "tcp://" + service.http.substr(7), "--dir", folder.file("")});
  CHECK(other.status == 1);
  CHECK(contains(other.output, "does not speak ZeroMQ  -> "));
  const std::string port = std::to_string(free_port());
  const Finished several =
      service.ask({"doctor", "--endpoint", service.telemetry + ",tcp://127.0.0.1:" + port, "--dir", folder.file("")});
  CHECK(several.status == 1);
  CHECK(contains(several.output, "ok    telemetry " + service.telemetry + " answers as ZeroMQ does\n"));
  CHECK(contains(several.output, "FAIL  telemetry tcp://127.0.0.1:" + port + " cannot be reached"));
  const Finished none = run({ccld, "doctor", "--http", "http://127.0.0.1:" + port, "--endpoint", "tcp://127.0.0.1:" + port, "--pid",
                             std::to_string(getpid()), "--dir", folder.file("none")});
  CHECK(none.status == 1);
  CHECK(contains(none.output, "FAIL  no service answers at"));
  CHECK(contains(none.output, "cannot be reached  -> "));
  CHECK(contains(none.output, "no libnccl.so.2 is loaded  -> "));
  CHECK(contains(none.output, "No such file or directory  -> "));
}

}  // namespace ccld::test
