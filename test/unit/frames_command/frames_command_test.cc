#include "decision/cli/frames_command.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "decision/cli/frames_report.h"
#include "schemas/abi/file_names.h"
#include "test/unit/frames_command/process_file.h"
#include "test/unit/schemas/synthetic_frame.h"

namespace ccld::decision {
namespace {

namespace fs = std::filesystem;
using abi::Direction;
using test::SyntheticFrame;
using test::SyntheticProcessFile;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A host: its /proc and its folder of frames.
struct Host {
  Host() {
    char name[] = "/tmp/ccld-frames-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    root = name;
    fs::create_directories(root / "frames");
    fs::create_directories(root / "proc/sys/kernel/random");
    std::ofstream(root / "proc/sys/kernel/random/boot_id") << "11111111-2222-3333-4444-555555555555\n";
    options.dir = (root / "frames").string();
    options.proc_dir = (root / "proc").string();
    options.pause = [] {};
  }
  ~Host() { fs::remove_all(root); }

  void process(uint32_t pid, char state, uint64_t start_ticks = 777) {
    fs::create_directories(root / "proc" / std::to_string(pid));
    std::ofstream(root / "proc" / std::to_string(pid) / "stat")
        << pid << " (a (b) c) " << state << " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 " << start_ticks
        << " 20 21\n";
  }
  // `process` lives in the namespace that the test calls `name`; gives its number.
  uint32_t in_namespace(const std::string& process, const std::string& name) {
    const fs::path one = root / name;
    if (!fs::exists(one)) std::ofstream(one) << "";
    fs::create_directories(root / "proc" / process / "ns");
    fs::create_hard_link(one, root / "proc" / process / "ns/pid");
    return abi::pid_namespace_of((root / "proc").string(), process);
  }
  fs::path write(SyntheticFrame& frame, uint32_t number = 1) {
    const fs::path path = fs::path(options.dir) / abi::frame_file_name(name_in(frame.header().identity), number);
    std::ofstream(path, std::ios::binary)
        .write(static_cast<const char*>(frame.memory()), static_cast<long>(frame.bytes()));
    return path;
  }
  fs::path write(SyntheticProcessFile& file) {
    const fs::path path = fs::path(options.dir) / abi::process_file_name(name_in(file.header().identity));
    file.write(path.string());
    return path;
  }
  FramesOutput show() { return show_frames(options); }
  template <class Identity>
  static abi::ProcessName name_in(const Identity& id) {
    return {id.pid, id.pid_namespace};
  }

  fs::path root;
  FramesOptions options;
};

// A rank that waits for data from 2 with 11 steps received.
void waiting(SyntheticFrame& frame) {
  for (uint32_t token = 1; token <= 119; ++token) {
    frame.launch_operation(token, 1);
    frame.run_kernel(1, token, token * 10, token * 10 + 5);
  }
  frame.launch_operation(120, 1);
  frame.header().agent.completed_op_seq = 119;
  frame.begin_kernel(1, 120, 1000);
  abi::Lane& recv = frame.open_lane(0, Direction::recv, frame.run_of(0), 100, 2);
  recv.current_step = 111;
  frame.wait(recv, abi::WaitKind::data, 112, 111);
  frame.open_lane(0, Direction::send, frame.run_of(0), 100, 4).current_step = 112;
  abi::ProxyRecord& proxy = frame.proxy(0, Direction::send, 0, 4, 100, 1);
  proxy.posted = 116;
  proxy.transmitted = proxy.done = 112;
  proxy.step_count = 128;
}

TEST_CASE("a host without frames says so") {
  Host host;
  CHECK(host.show().text == "no frames in " + host.options.dir + "\n");
  CHECK_FALSE(host.show().failed);
  host.options.json = true;
  CHECK(nlohmann::json::parse(host.show().text)["frames"].empty());
}

TEST_CASE("a folder that cannot be read is an error") {
  Host host;
  host.options.dir = "/nonexistent";
  const FramesOutput output = host.show();
  CHECK(output.failed);
  CHECK(output.errors == std::vector<std::string>{"/nonexistent: No such file or directory"});
}

TEST_CASE("a stopped process shows where it stands") {
  Host host;
  SyntheticFrame frame(2);
  waiting(frame);
  host.write(frame);
  host.process(4242, 'T');
  const std::string text = host.show().text;
  INFO(text);
  CHECK(contains(text, "communicator 1122334455667788 world, 8 ranks, job job-a"));
  CHECK(contains(text, "stopped"));
  CHECK(contains(text, "#120 AllReduce 1024 x float32 sum, Ring Simple, 1 channel, launched"));
  CHECK(contains(text, "channel 0: running, SendCount 12, RecvCount 11, run 120"));
  CHECK(contains(text, "recv from 2: has 11, last seen waiting for data, wants 12, there is 11"));
  CHECK(contains(text, "send to 4: has 12\n"));
  CHECK(contains(text, "proxy of channel 0 send to 4 (net 1): posted 16, transmitted 12, done 12 of 128, not visited"));
}

TEST_CASE("a killed process is gone, a reused pid and a zombie too") {
  Host host;
  SyntheticFrame frame(2);
  waiting(frame);
  const fs::path path = host.write(frame);
  SECTION("no process") {}
  SECTION("another one with its pid") { host.process(4242, 'S', 1); }
  SECTION("not reaped yet") { host.process(4242, 'Z'); }
  CHECK(contains(host.show().text, " gone "));
  CHECK(contains(host.show().text, "RecvCount 11"));
  CHECK(fs::exists(path));
  host.options.clean = true;
  CHECK(contains(host.show().text, " gone "));
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("frames of living processes are never removed") {
  Host host;
  SyntheticFrame frame(1);
  const fs::path path = host.write(frame);
  host.process(4242, 'S');
  host.options.clean = true;
  host.show();
  CHECK(fs::exists(path));
}

TEST_CASE("spare frames are not shown, and removed when their process is gone") {
  Host host;
  SyntheticFrame frame(1);
  fs::path path = host.write(frame);
  path.replace_extension(".spare");
  fs::rename(host.write(frame), path);
  const abi::ProcessName owner = host.name_in(frame.header().identity);
  host.options.clean = true;
  host.process(owner.pid, 'S');
  CHECK(contains(host.show().text, "no frames in"));
  CHECK(fs::exists(path));
  fs::remove_all(host.root / "proc" / std::to_string(owner.pid));
  host.options.clean = false;
  host.show();
  CHECK(fs::exists(path));
  host.options.clean = true;
  CHECK(host.show().errors.empty());
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("processes of containers that share the folder are told apart, and found by their ids on the host") {
  Host host;
  host.in_namespace("self", "host");
  const auto contained = [&host](uint32_t pid_here, char state, const std::string& container) {
    host.process(pid_here, state);
    std::ofstream(host.root / "proc" / std::to_string(pid_here) / "status")
        << "Name:\tpython\nNSpid:\t" << pid_here << "\t7\n";
    SyntheticFrame frame(1);
    frame.header().identity.pid = 7;
    frame.header().identity.pid_namespace = host.in_namespace(std::to_string(pid_here), container);
    frame.header().identity.rank = static_cast<int32_t>(pid_here % 10);
    return host.write(frame);
  };
  const fs::path one = contained(4711, 'S', "one"), two = contained(4712, 'T', "two");
  host.process(7, 'S');  // the host has a process 7 as well
  host.in_namespace("7", "host");
  CHECK(one != two);
  host.options.json = true;
  const auto states = [&host] {
    std::vector<std::string> found;
    const auto json = nlohmann::json::parse(host.show().text);
    for (const auto& frame : json["frames"])
      found.push_back(std::to_string(frame["rank"].get<int>()) + " " + frame["process"].get<std::string>());
    return found;
  };
  CHECK(states() == std::vector<std::string>{"1 running", "2 stopped"});
  host.options.pids = {4712};
  CHECK(states() == std::vector<std::string>{"2 stopped"});
  host.options.pids = {7};
  CHECK(states().empty());
  host.options.pids = {};
  // From inside another container they cannot be seen: what does not move may live, and stays.
  for (const char* process : {"4711", "4712"}) fs::remove_all(host.root / "proc" / process);
  host.options.clean = true;
  CHECK(states() == std::vector<std::string>{"1 not seen", "2 not seen"});
  CHECK((fs::exists(one) && fs::exists(two)));
  std::ofstream(one) << "of a version that this one cannot read";
  host.show();
  CHECK(fs::exists(one));
}

TEST_CASE("a file of another boot is not taken for a process of this one") {
  Host host;
  SyntheticFrame frame(1);
  std::strcpy(frame.header().identity.boot_id, "another");
  host.write(frame);
  host.process(4242, 'S');
  CHECK(contains(host.show().text, "other boot"));
}

// Between the two looks, `change` happens to the file.
std::function<void()> meanwhile(SyntheticFrame& frame, const fs::path& path,
                                const std::function<void(SyntheticFrame&)>& change) {
  return [&frame, path, change] {
    change(frame);
    // In place: the file is mapped.
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out)
        .write(static_cast<const char*>(frame.memory()), static_cast<long>(frame.bytes()));
  };
}

TEST_CASE("a lane that polls waits, and LL's polling warps are a wait of the receive lane") {
  Host host;
  SyntheticFrame frame(2);
  waiting(frame);
  host.process(4242, 'S');
  SECTION("announced") {
    host.options.pause =
        meanwhile(frame, host.write(frame), [](SyntheticFrame& f) { ++f.lane(0, Direction::recv).poll_tick; });
    CHECK(contains(host.show().text, "recv from 2: has 11, waits for data, wants 12, there is 11"));
  }
  SECTION("derived") {
    frame.lane(0, Direction::recv).wait_kind = 0;
    frame.plan(120, 120, 1, abi::Protocol::ll);
    host.options.pause =
        meanwhile(frame, host.write(frame), [](SyntheticFrame& f) { ++f.channel(0).warp_poll_tick[1]; });
    CHECK(contains(host.show().text, "recv from 2: has 11, waits for data, wants 12, there is 11"));
  }
  SECTION("moving") {
    host.options.pause =
        meanwhile(frame, host.write(frame), [](SyntheticFrame& f) { ++f.lane(0, Direction::send).current_step; });
    CHECK(contains(host.show().text, "send to 4: has 13, moves"));
  }
}

TEST_CASE("a process of another pid namespace lives as long as its agent writes") {
  Host host;
  SyntheticFrame frame(2);
  host.options.pause =
      meanwhile(frame, host.write(frame), [](SyntheticFrame& f) { ++f.header().agent.heartbeat_monotonic_ns; });
  CHECK(contains(host.show().text, " running "));
}

TEST_CASE("an idle communicator is one line, with --all its last kernel too") {
  Host host;
  SyntheticFrame frame(1);
  frame.launch_operation(1, 1);
  frame.open_lane(0, Direction::send, 1, 0, 4).current_step = 6;  // its last primitive
  frame.run_kernel(1, 1, 10, 20, 8, 0);
  host.write(frame);
  host.process(4242, 'S');
  std::string text = host.show().text;
  CHECK_FALSE(contains(text, "channel 0"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
  host.options.all = true;
  text = host.show().text;
  CHECK(contains(text, "#1 AllReduce 1024 x float32 sum, Ring Simple, 1 channel, finished"));
  CHECK(contains(text, "channel 0: ended, SendCount 8, RecvCount 0"));
}

TEST_CASE("an operation that is not launched says so") {
  Host host;
  SyntheticFrame frame(1);
  frame.enter(77);
  host.write(frame);
  host.process(4242, 'S');
  CHECK(contains(host.show().text, "#1 AllReduce 77 x float32 sum, entered"));
  CHECK(contains(host.show().text, "ago, not launched"));
}

TEST_CASE("a frame of another major version is one line, the others are shown") {
  Host host;
  SyntheticFrame good(1), bad(1);
  bad.header().identity.abi_major = 1;
  bad.header().identity.pid = 4300;
  host.write(good);
  const std::string path = host.write(bad).string();
  host.process(4300, 'S');
  std::ofstream(host.root / "frames" / "ccld-9-0-1.frame") << "short";
  std::ofstream(host.root / "frames" / "ccld-9-0-1.frame.swp") << "ignored";
  const FramesOutput output = host.show();
  CHECK(contains(output.text, " 4242 "));
  REQUIRE(output.errors.size() == 2);
  CHECK(output.errors[0] ==
        path + ": frame version 1." + std::to_string(abi::frame_abi_minor) + ", this program reads 5.x");
  CHECK(contains(output.errors[1], "ccld-9-0-1.frame: truncated"));
  CHECK(contains(output.errors[1], "no process has its pid (--clean removes it)"));
  CHECK_FALSE(output.failed);
  host.options.clean = true;
  CHECK(contains(host.show().errors[1], "removed"));
  CHECK(fs::exists(path));  // a process has its pid
  CHECK_FALSE(fs::exists(host.root / "frames" / "ccld-9-0-1.frame"));
  CHECK(fs::exists(host.root / "frames" / "ccld-9-0-1.frame.swp"));
}

TEST_CASE("frames are grouped by communicator and sorted by rank, and can be chosen by pid") {
  Host host;
  for (uint32_t i = 0; i < 3; ++i) {
    SyntheticFrame frame(1);
    frame.header().identity.pid = 500 - i;
    frame.header().identity.rank = static_cast<int32_t>(i);
    host.write(frame);
  }
  const std::string text = host.show().text;
  CHECK(text.find(" 500 ") < text.find(" 499 "));
  CHECK(text.find(" 499 ") < text.find(" 498 "));
  CHECK(text.find("communicator") == text.rfind("communicator"));
  host.options.pids = {499};
  CHECK(contains(host.show().text, " 499 "));
  CHECK_FALSE(contains(host.show().text, " 500 "));
}

TEST_CASE("JSON has the same facts") {
  Host host;
  SyntheticFrame frame(2);
  waiting(frame);
  std::memset(frame.header().identity.comm_name, 0xff, 4);  // not UTF-8
  host.write(frame);
  host.process(4242, 'T');
  host.options.json = true;
  const auto json = nlohmann::json::parse(host.show().text)["frames"];
  REQUIRE(json.size() == 1);
  CHECK(json[0]["process"] == "stopped");
  CHECK(json[0]["rank"] == 3);
  CHECK(json[0]["operation"]["op_seq"] == 120);
  CHECK(json[0]["operation"]["algorithm"] == "Ring");
  CHECK(json[0]["operation"]["signals"].size() == 4);
  CHECK(json[0]["channels"][0]["run"] == 120);
  CHECK(json[0]["channels"][0]["lanes"].size() == 2);
  CHECK(json[0]["channels"][0]["lanes"][0]["wait"] == "data");
  CHECK(json[0]["channels"][0]["lanes"][0]["polls"] == false);
  CHECK(json[0]["channels"][0]["lanes"][0]["want_step"] == 112);
  CHECK(json[0]["proxies"][0]["posted"] == 116);
}

TEST_CASE("an operation that shares its kernel says so, and the counts of an ended kernel are those of the kernel") {
  Host host;
  SyntheticFrame frame(1);
  const uint64_t first = frame.enter(), second = frame.enter();
  for (const uint64_t op_seq : {first, second}) {
    frame.plan(op_seq, 1, 1, abi::Protocol::simple, SyntheticFrame::signals_all, 2);
    frame.launch(op_seq);
  }
  frame.begin_kernel(1, 1, 10);
  host.write(frame);
  host.process(4242, 'S');
  CHECK(contains(host.show().text, "one of 2 in its kernel"));
  CHECK(contains(host.show().text, "(+1)"));
  frame.end_kernel(1, 20, 14, 15);
  host.write(frame);
  host.options.all = true;
  CHECK(contains(host.show().text, "channel 0: ended, SendCount 14, RecvCount 15, run 1"));
}

TEST_CASE("what was only recorded into a graph is not in flight, its replay is") {
  Host host;
  SyntheticFrame frame(2);
  frame.capture_operation(7, 3);
  host.process(4242, 'S');
  host.write(frame);
  CHECK_FALSE(contains(host.show().text, "channel 0"));
  frame.run_kernel(3, 7, 10, 20, 4, 4, 1);
  frame.begin_kernel(3, 7, 30, 2);
  frame.header().agent.completed_op_seq = 1;
  host.write(frame);
  const std::string text = host.show().text;
  INFO(text);
  CHECK(contains(text, "#1 AllReduce 1024 x float32 sum, Ring Simple, 2 channels, replay 2"));
  CHECK(contains(text, "channel 1: running, SendCount 0, RecvCount 0, run 2"));
  host.options.json = true;
  const auto json = nlohmann::json::parse(host.show().text)["frames"][0];
  CHECK(json["operation"]["replay"] == 2);
  CHECK(json["operation"]["captured"] == true);
  CHECK(json["captured_plans"] == 1);
}

TEST_CASE("what was not measured is said, and never taken for in flight") {
  Host host;
  SyntheticFrame frame(2);
  const uint64_t op_seq = frame.enter();
  frame.plan(op_seq, 1, 3, abi::Protocol::simple, 0);
  frame.launch(op_seq);
  host.write(frame);
  host.process(4242, 'S');
  host.options.all = true;
  CHECK(contains(host.show().text, "not measured"));
  host.options.json = true;
  CHECK(nlohmann::json::parse(host.show().text)["frames"][0]["operations_in_flight"] == 0);
}

TEST_CASE("what a communicator does unmeasured is said by name") {
  Host host;
  SyntheticFrame frame(1);
  frame.header().state.hidden = abi::hidden_device_api | abi::hidden_network;
  host.write(frame);
  host.process(4242, 'S');
  CHECK(contains(host.show().text, "not measured: device API, network plugin\n"));
  host.options.json = true;
  CHECK(nlohmann::json::parse(host.show().text)["frames"][0]["not_measured"] ==
        nlohmann::json({"device API", "network plugin"}));
}

TEST_CASE("the stream tells begin and end of what runs no kernel of ours") {
  Host host;
  SyntheticFrame frame(1);
  const uint64_t op_seq = frame.enter();
  frame.plan(op_seq, 5, 0, abi::Protocol::simple, abi::signal_stream);
  frame.launch(op_seq);
  host.process(4242, 'S');
  frame.header().stream.begun_token = 5;
  frame.header().stream.ended_token = 4;
  host.write(frame);
  CHECK(contains(host.show().text, "seen of it: stream; what is not seen was not measured"));
  frame.header().stream.ended_token = 5;
  host.write(frame);
  host.options.all = true;
  CHECK(contains(host.show().text, "finished"));
}

TEST_CASE("Send and Recv calls in flight are listed with peer, pair number and state") {
  Host host;
  SyntheticFrame frame(2);
  const uint64_t send = frame.enter_p2p(Direction::send, 4);
  frame.launch_p2p(send, 1, 1);
  frame.begin_kernel(1, 1, 10);
  frame.open_lane(0, Direction::send, 1, 100, 4).current_step = 103;
  frame.enter_p2p(Direction::recv, 5, 64);
  const uint64_t ended = frame.enter_p2p(Direction::recv, 6);
  frame.launch_p2p(ended, 2, 2);
  frame.run_kernel(2, 2, 10, 20);
  host.write(frame);
  host.process(4242, 'S');
  const std::string text = host.show().text;
  INFO(text);
  CHECK(contains(text, "2 Send/Recv"));
  CHECK(contains(text, "Send 1 to 4: 4096 bytes, launched"));
  CHECK(contains(text, "Recv 1 from 5: 64 bytes, entered"));
  CHECK(contains(text, "channel 0: running, SendCount 3, RecvCount 0, run 1"));
  CHECK_FALSE(contains(text, "from 6"));
  host.options.json = true;
  const auto json = nlohmann::json::parse(host.show().text)["frames"][0];
  CHECK(json["p2p_in_flight"] == 2);
  CHECK(json["p2p"][0]["pair_seq"] == 1);
  CHECK(json["p2p"][0]["begun"] == true);
  CHECK(json["p2p"][1]["launched"] == false);
}

TEST_CASE("a process file shows the probe, its counters, communicators being initialized and network queues") {
  Host host;
  SyntheticProcessFile file;
  file.metric(abi::MetricId::agent_samples) = 41;
  file.metric(abi::MetricId::agent_budget_slowdowns) = 2;
  file.header().identity.cuda_version = 13000;
  file.header().identity.driver_cuda_version = 12080;
  abi::InitRecord& init = file.init(1);
  init.comm_hash = 0xabc;
  init.rank = 3;
  init.rank_count = 8;
  init.enter_monotonic_ns = init.stage_monotonic_ns = 1;
  init.stage = static_cast<uint32_t>(abi::InitStage::bootstrapped);
  init.commit = 1;
  abi::NetRecord& net = file.net(0);
  net.queue = 1;
  net.number = 99;
  net.send_posted = 10;
  net.send_completed = 7;
  std::strcpy(net.device_name, "mlx5_0");
  file.net(1).queue = 2;  // rests
  const fs::path path = host.write(file);
  host.process(4242, 'S');
  std::string text = host.show().text;
  INFO(text);
  CHECK(contains(
      text, "process 4242 on node0, job job-a, running: probe running, sample 1000 us (now 1000), budget 3000 ppm"));
  CHECK(contains(text, "agent_samples 41, agent_budget_slowdowns 2"));
  CHECK(contains(text,
                 "libnccl was built with CUDA 13.0: needs driver 580.65.06 or newer; the driver here is for CUDA 12.8 "
                 "(too old)"));
  CHECK(contains(text, "hash 0000000000000abc, rank 3 of 8: bootstrapped"));
  CHECK(contains(text, "mlx5_0 queue pair 99: 3 sends in flight (10 posted)"));
  CHECK(contains(text, "last completion never"));
  host.options.json = true;
  const auto json = nlohmann::json::parse(host.show().text)["processes"];
  REQUIRE(json.size() == 1);
  CHECK(json[0]["counters"]["agent_samples"] == 41);
  CHECK(json[0]["initializations"][0]["stage"] == "bootstrapped");
  CHECK(json[0]["net_queues"].size() == 1);
  CHECK(json[0]["probe"]["running"] == true);
  // A stale one is recognised and removable like a frame.
  host.options.json = false;
  host.process(4242, 'S', 1);
  host.options.clean = true;
  CHECK(contains(host.show().text, "job job-a, gone"));
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a process file says whether the service takes what is sent, and what became of the batches") {
  Host host;
  SyntheticProcessFile file;
  std::strcpy(file.header().control_state.endpoint, "tcp://collector:5566");
  host.process(4242, 'S');
  host.write(file);
  CHECK_FALSE(contains(host.show().text, "service:"));  // an older library
  file.metric(abi::MetricId::agent_service_state) = static_cast<uint64_t>(abi::ServiceState::refused);
  file.metric(abi::MetricId::agent_service_monotonic_ns) = 1;
  file.metric(abi::MetricId::agent_acknowledged_batches) = 40;
  file.metric(abi::MetricId::agent_undelivered_batches) = 3;
  file.metric(abi::MetricId::agent_waiting_batches) = 256;
  file.metric(abi::MetricId::agent_unconfirmed_batches) = 2;
  host.write(file);
  const std::string text = host.show().text;
  INFO(text);
  CHECK(contains(text, "  service: nothing listens there, or there is no route, for "));
  CHECK(contains(text, "; batches: 40 acknowledged, 3 not delivered, 256 waiting, 2 unconfirmed\n"));
  CHECK_FALSE(contains(text, "agent_service_state"));
  host.options.json = true;
  const auto service = nlohmann::json::parse(host.show().text)["processes"][0]["service"];
  CHECK(service["state"] == "refused");
  CHECK(service["age_s"].is_number());
  CHECK(service["acknowledged_batches"] == 40);
  CHECK(service["undelivered_batches"] == 3);
  CHECK(service["waiting_batches"] == 256);
  CHECK(service["unconfirmed_batches"] == 2);
}

TEST_CASE("a process file of another major version is one line that names file and versions") {
  Host host;
  SyntheticProcessFile file;
  file.header().identity.abi_major = 9;
  const fs::path path = host.write(file);
  host.process(4242, 'S');
  const FramesOutput output = host.show();
  REQUIRE(output.errors.size() == 1);
  CHECK(output.errors[0] == path.string() + ": process file version 9.0, this program reads 1.x");
}

TEST_CASE("a link with the name of a frame is one line, and nothing behind it is read") {
  Host host;
  SyntheticFrame frame(1);
  const fs::path path = host.write(frame);
  fs::rename(path, host.root / "elsewhere");
  fs::create_symlink(host.root / "elsewhere", path);
  const FramesOutput output = host.show();
  REQUIRE(output.errors.size() == 1);
  CHECK(contains(output.errors[0], "it is a link"));
  CHECK(contains(output.text, "no frames"));
}

TEST_CASE("a file that is truncated between two looks is one line") {
  Host host;
  SyntheticFrame frame(1);
  waiting(frame);
  const fs::path path = host.write(frame);
  host.options.pause = [path] { fs::resize_file(path, 0); };
  const FramesOutput output = host.show();
  REQUIRE(output.errors.size() == 1);
  CHECK(contains(output.errors[0], "truncated while it was read"));
  CHECK(contains(output.text, "no frames"));
}

TEST_CASE("a file of another user than its living process is not believed") {
  Host host;
  SyntheticFrame frame(1);
  host.write(frame);
  host.process(4242, 'S');
  const auto runs_as = [&host](uid_t user) {
    std::ofstream(host.root / "proc/4242/status") << "Name:\tpython\nUid:\t1\t" << user << "\t1\t1\n";
  };
  runs_as(geteuid());
  CHECK(host.show().errors.empty());
  runs_as(geteuid() + 1);
  const FramesOutput output = host.show();
  REQUIRE(output.errors.size() == 1);
  CHECK(contains(output.errors[0], "the process to user " + std::to_string(geteuid() + 1)));
  CHECK(contains(output.text, "no frames"));
}

TEST_CASE("names that move the cursor, turn text or are no UTF-8 come out harmless, as text and as JSON") {
  Host host;
  SyntheticFrame frame(1);
  std::strcpy(frame.header().identity.comm_name, "a\x1b[2Jb\xc2\x9b" "31m\xe2\x80\xae" "c\xff");
  host.write(frame);
  host.process(4242, 'S');
  CHECK(contains(host.show().text, "a?[2Jb?31m?c?"));
  host.options.json = true;
  CHECK(nlohmann::json::parse(host.show().text)["frames"][0]["comm_name"] == "a?[2Jb?31m?c?");
}

TEST_CASE("what a process says of its build comes out harmless, too") {
  frames::ProcessReport report;
  std::strcpy(report.build.release, "1\x1b[2J");
  std::strcpy(report.build.build_id, "a\x1b]0;x\x07");
  CHECK(contains(frames::to_text({report}), "libnccl of ccld 1?[2J, build a?]0;x?\n"));
  const auto json = nlohmann::json::parse(frames::to_json({}, {report}, true))["processes"][0];
  CHECK(json["release"] == "1?[2J");
  CHECK(json["build_id"] == "a?]0;x?");
}

TEST_CASE("the files of another user are one line each that says who may read them") {
  Host host;
  SyntheticFrame frame(1);
  const fs::path path = host.write(frame);
  fs::permissions(path, fs::perms::none);
  if (geteuid() == 0) return;  // root reads everything
  const FramesOutput output = host.show();
  REQUIRE(output.errors.size() == 1);
  CHECK(contains(output.errors[0], path.string() + ": Permission denied"));
  CHECK(contains(output.errors[0], "owner"));
}

}  // namespace
}  // namespace ccld::decision
