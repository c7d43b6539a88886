#include "decision/cli/frames_command.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "test/unit/schemas/synthetic_frame.h"

namespace ccld::decision {
namespace {

namespace fs = std::filesystem;
using abi::Direction;
using test::SyntheticFrame;

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
  fs::path write(SyntheticFrame& frame, uint32_t number = 1) {
    const fs::path path = fs::path(options.dir) / ("ccld-" + std::to_string(frame.header().identity.pid) + "-" +
                                                   std::to_string(number) + ".frame");
    std::ofstream(path, std::ios::binary)
        .write(static_cast<const char*>(frame.memory()), static_cast<long>(frame.bytes()));
    return path;
  }
  FramesOutput show() { return show_frames(options); }

  fs::path root;
  FramesOptions options;
};

// A rank that waits for data from 2 with 11 steps received.
void waiting(SyntheticFrame& frame) {
  for (uint32_t token = 1; token <= 119; ++token) frame.launch_operation(token, 1);
  frame.launch_operation(120, 1);
  frame.header().agent.completed_op_seq = 119;
  frame.begin(0, 120, 1000);
  abi::Lane& recv = frame.open_lane(0, Direction::recv, 120, 100, 2);
  recv.current_step = 111;
  frame.wait(recv, abi::WaitKind::data, 112, 111);
  frame.open_lane(0, Direction::send, 120, 100, 4).current_step = 112;
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
  CHECK(nlohmann::json::parse(host.show().text).empty());
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
  CHECK(contains(text, "channel 0: running, SendCount 12, RecvCount 11"));
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
  frame.begin(0, 1, 10);
  frame.open_lane(0, Direction::send, 1, 0, 4).current_step = 8;
  frame.end(0, 1, 20);
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
  bad.header().identity.abi_major = 2;
  bad.header().identity.pid = 4300;
  host.write(good);
  const std::string path = host.write(bad).string();
  std::ofstream(host.root / "frames" / "ccld-9-1.frame") << "short";
  std::ofstream(host.root / "frames" / "ccld-9-1.frame.swp") << "ignored";
  const FramesOutput output = host.show();
  CHECK(contains(output.text, " 4242 "));
  REQUIRE(output.errors.size() == 2);
  CHECK(output.errors[0] == path + ": frame version 2.0, this program reads 1.x");
  CHECK(contains(output.errors[1], "ccld-9-1.frame: truncated"));
  CHECK_FALSE(output.failed);
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
  const auto json = nlohmann::json::parse(host.show().text);
  REQUIRE(json.size() == 1);
  CHECK(json[0]["process"] == "stopped");
  CHECK(json[0]["rank"] == 3);
  CHECK(json[0]["operation"]["op_seq"] == 120);
  CHECK(json[0]["operation"]["algorithm"] == "Ring");
  CHECK(json[0]["channels"][0]["lanes"].size() == 2);
  CHECK(json[0]["channels"][0]["lanes"][0]["wait"] == "data");
  CHECK(json[0]["channels"][0]["lanes"][0]["polls"] == false);
  CHECK(json[0]["channels"][0]["lanes"][0]["want_step"] == 112);
  CHECK(json[0]["proxies"][0]["posted"] == 116);
}

}  // namespace
}  // namespace ccld::decision
