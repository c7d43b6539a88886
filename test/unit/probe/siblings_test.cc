#include "probe/agent/siblings.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <catch2/catch.hpp>

#include "probe/frames/frame_file.h"
#include "test/unit/probe/support.h"
#include "test/unit/schemas/synthetic_frame.h"

namespace ccld::probe {
namespace {

namespace fs = std::filesystem;

// A machine: a /proc and a folder of frames.
constexpr uint32_t own_namespace = 4026532001, other_namespace = 4026532002;

struct Machine {
  Machine() {
    char name[] = "/tmp/ccld-siblings-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    root = name;
    fs::create_directories(root / "proc");
    fs::create_directories(root / "frames");
    clock.at.monotonic_ns = 10000 * ns_per_s;
  }
  ~Machine() { fs::remove_all(root); }

  void process(uint32_t pid, char state, uint64_t start_ticks, const std::string& name = "python",
               uint64_t flags = 0x400140) {
    fs::create_directories(root / "proc" / std::to_string(pid));
    std::ofstream(root / "proc" / std::to_string(pid) / "stat")
        << pid << " (" << name << ") " << state << " 1 2 3 4 5 " << flags << " 7 8 9 10 11 12 13 14 15 16 17 18 "
        << start_ticks << " 20 21\n";
  }
  void gone(uint32_t pid) { fs::remove_all(root / "proc" / std::to_string(pid)); }
  fs::path frame(uint32_t pid, uint64_t start_ticks, const char* host = "node0", const char* boot_id = "boot",
                 uint64_t heartbeat_s = 9999, uint32_t pid_namespace = own_namespace) {
    test::SyntheticFrame f(1);
    abi::FrameIdentity& id = f.header().identity;
    id.pid = pid;
    id.pid_namespace = pid_namespace;
    id.pid_start_ticks = start_ticks;
    std::strcpy(id.host, host);
    std::strcpy(id.boot_id, boot_id);
    f.header().agent.heartbeat_monotonic_ns = heartbeat_s * ns_per_s;
    const fs::path path = root / "frames" / abi::frame_file_name({pid, pid_namespace}, 1);
    std::ofstream(path, std::ios::binary).write(static_cast<const char*>(f.memory()), static_cast<long>(f.bytes()));
    return path;
  }
  SiblingOptions options() const {
    SiblingOptions o;
    o.frames_dir = (root / "frames").string();
    o.proc_dir = (root / "proc").string();
    o.boot_id = "boot";
    o.host = "node0";
    o.own = {100, own_namespace};
    o.keep_ns = 600 * ns_per_s;
    return o;
  }

  fs::path root;
  test::FakeClock clock;
};

TEST_CASE("the processes with frames of the same machine and node are siblings") {
  Machine m;
  m.process(100, 'S', 1);
  m.process(101, 'R', 2, "a (strange) name");
  m.process(102, 'S', 3);
  m.process(103, 'S', 4);
  m.process(104, 'S', 5);
  m.frame(100, 1);  // itself
  m.frame(101, 2);
  m.frame(102, 3, "node1");  // another fake node on this machine
  m.frame(103, 4, "node0", "other boot");
  std::ofstream(m.root / "frames" / "ccld-104-4026532001-1.frame") << "no frame";
  Siblings siblings(m.options());
  siblings.scan(m.clock.at);
  const auto states = siblings.states(m.clock.at);
  REQUIRE(states.size() == 1);
  CHECK(states[0].pid == 101);
  CHECK(states[0].pid_start_ticks == 2);
  CHECK(states[0].state == 'R');
}

TEST_CASE("a state has the age since which it was seen") {
  Machine m;
  m.process(101, 'S', 2);
  m.frame(101, 2);
  Siblings siblings(m.options());
  siblings.scan(m.clock.at);
  m.process(101, 'T', 2);
  m.clock.advance_ms(500);
  siblings.poll(m.clock.at);
  m.clock.advance_ms(1500);
  siblings.poll(m.clock.at);
  const auto states = siblings.states(m.clock.at);
  REQUIRE(states.size() == 1);
  CHECK(states[0].state == 'T');
  CHECK(states[0].state_age_ms == 1500);
}

TEST_CASE("a process has left since the last sign of life in its frames") {
  Machine m;
  m.process(101, 'S', 2);
  m.process(102, 'S', 3);
  m.frame(101, 2, "node0", "boot", 10002);
  m.frame(102, 3, "node0", "boot", 9000);  // its thread got no processor
  Siblings siblings(m.options());
  siblings.scan(m.clock.at);
  CHECK_FALSE(siblings.poll(m.clock.at));
  m.clock.advance_ms(3000);
  m.gone(101);
  m.gone(102);
  CHECK(siblings.poll(m.clock.at));
  const auto states = siblings.states(m.clock.at);
  REQUIRE(states.size() == 2);
  CHECK(states[0].state == 'X');
  CHECK(states[0].state_age_ms == 1000);
  CHECK(states[1].state_age_ms == 3000);  // it was there when it was looked at before
  m.clock.advance_ms(500);
  CHECK_FALSE(siblings.poll(m.clock.at));
  CHECK(siblings.states(m.clock.at)[0].state_age_ms == 1500);
}

TEST_CASE("a process that still gives its memory back has left") {
  Machine m;
  m.process(101, 'S', 2);
  m.frame(101, 2, "node0", "boot", 10000);
  Siblings siblings(m.options());
  siblings.scan(m.clock.at);
  CHECK_FALSE(siblings.poll(m.clock.at));
  m.process(101, 'D', 2, "python", 0x400144);
  m.clock.advance_ms(500);
  CHECK(siblings.poll(m.clock.at));
  REQUIRE(siblings.states(m.clock.at).size() == 1);
  CHECK(siblings.states(m.clock.at)[0].state == 'Z');
  CHECK(siblings.states(m.clock.at)[0].state_age_ms == 500);
  m.gone(101);
  m.clock.advance_ms(2000);
  CHECK_FALSE(siblings.poll(m.clock.at));
  CHECK(siblings.states(m.clock.at)[0].state_age_ms == 2500);
}

TEST_CASE("a process that left before anybody looked is known by its frame, for a minute after its last sign of life") {
  Machine m;
  m.frame(101, 2, "node0", "boot", 9990);
  m.frame(102, 3, "node0", "boot", 9930);
  Siblings siblings(m.options());
  siblings.scan(m.clock.at);
  CHECK(siblings.poll(m.clock.at));
  const auto states = siblings.states(m.clock.at);
  REQUIRE(states.size() == 1);
  CHECK(states[0].pid == 101);
  CHECK(states[0].state == 'X');
  CHECK(states[0].state_age_ms == 10000);
  m.clock.advance_ms(51000);
  siblings.scan(m.clock.at);
  siblings.poll(m.clock.at);
  CHECK(siblings.states(m.clock.at).empty());
}

TEST_CASE("a host's name that is longer than a frame has room for is that of its siblings, too") {
  Machine m;
  m.process(101, 'T', 2);
  const std::string name(64, 'n');
  m.frame(101, 2, name.substr(0, sizeof(abi::FrameIdentity::host) - 1).c_str());
  SiblingOptions options = m.options();
  options.host = name;
  Siblings siblings(options);
  siblings.scan(m.clock.at);
  siblings.poll(m.clock.at);
  CHECK(siblings.states(m.clock.at).size() == 1);
}

TEST_CASE("of a process that cannot speak its frame says how far it had come") {
  Machine m;
  m.process(101, 'S', 2);
  test::SyntheticFrame f(2);
  abi::FrameIdentity& id = f.header().identity;
  id.pid = 101;
  id.pid_namespace = own_namespace;
  id.pid_start_ticks = 2;
  std::strcpy(id.host, "node0");
  std::strcpy(id.boot_id, "boot");
  f.header().agent.heartbeat_monotonic_ns = 9999 * ns_per_s;
  const auto write = [&] {
    std::ofstream(m.root / "frames" / abi::frame_file_name({101, own_namespace}, 1), std::ios::binary)
        .write(static_cast<const char*>(f.memory()), static_cast<long>(f.bytes()));
  };
  f.launch_operation(1);
  f.begin_kernel(1, 1, 10);
  f.end_kernel(1, 20);
  f.launch_operation(2);
  f.enter();
  write();
  Siblings siblings(m.options());
  siblings.scan(m.clock.at);
  siblings.poll(m.clock.at);
  REQUIRE(siblings.states(m.clock.at).size() == 1);
  CHECK(siblings.states(m.clock.at)[0].last_operations.empty());  // it speaks for itself

  bool gone = false;
  SECTION("stopped") { m.process(101, 'T', 2); }
  SECTION("gone") {
    m.gone(101);
    gone = true;
  }
  m.clock.advance_ms(500);
  siblings.poll(m.clock.at);
  const auto last = siblings.states(m.clock.at)[0].last_operations;
  REQUIRE(last.size() == 1);
  CHECK(last[0].comm_uid == id.comm_uid);
  CHECK(last[0].rank == id.rank);
  CHECK(last[0].entered_op_seq == 3);
  CHECK(last[0].launched_op_seq == 2);
  CHECK(last[0].begun_op_seq == 1);

  // Its GPU goes on.
  f.begin_kernel(2, 2, 30);
  write();
  m.clock.advance_ms(999);
  siblings.poll(m.clock.at);
  CHECK(siblings.states(m.clock.at)[0].last_operations[0].begun_op_seq == 1);
  m.clock.advance_ms(1);
  siblings.poll(m.clock.at);
  CHECK(siblings.states(m.clock.at)[0].last_operations[0].begun_op_seq == 2);

  if (gone) return;
  m.process(101, 'S', 2);
  siblings.poll(m.clock.at);
  CHECK(siblings.states(m.clock.at)[0].last_operations.empty());
}

TEST_CASE("a damaged frame of a process that cannot speak says nothing") {
  Machine m;
  m.process(101, 'S', 2);
  const fs::path path = m.frame(101, 2);
  Siblings siblings(m.options());
  siblings.scan(m.clock.at);
  fs::resize_file(path, fs::file_size(path) / 2);
  m.process(101, 'T', 2);
  siblings.poll(m.clock.at);
  CHECK(siblings.states(m.clock.at)[0].state == 'T');
  CHECK(siblings.states(m.clock.at)[0].last_operations.empty());
}

TEST_CASE("a process that disappears is gone for a minute, even if its pid is used again") {
  Machine m;
  m.process(101, 'S', 2);
  m.frame(101, 2);
  Siblings siblings(m.options());
  siblings.scan(m.clock.at);
  SECTION("no such process") { m.gone(101); }
  SECTION("another process has its pid") { m.process(101, 'S', 99); }
  siblings.poll(m.clock.at);
  m.clock.advance_ms(30000);
  siblings.scan(m.clock.at);
  siblings.poll(m.clock.at);
  auto states = siblings.states(m.clock.at);
  REQUIRE(states.size() == 1);
  CHECK(states[0].state == 'X');
  CHECK(states[0].state_age_ms == 30000);
  m.clock.advance_ms(30001);
  siblings.poll(m.clock.at);
  CHECK(siblings.states(m.clock.at).empty());
  siblings.scan(m.clock.at);  // its frame is still there
  CHECK(siblings.states(m.clock.at).empty());
}

TEST_CASE("a process of another container has the id of one of ours, and is none of them") {
  Machine m;
  m.process(101, 'S', 2);
  m.frame(101, 2);
  // They share the folder: equal ids, even one that began at the same time, and our own.
  const fs::path twin = m.frame(101, 2, "node0", "boot", 9999, other_namespace);
  m.frame(100, 1, "node0", "boot", 9999, other_namespace);
  m.frame(102, 3, "node0", "boot", 9999, other_namespace);
  m.process(102, 'S', 3);
  Siblings siblings(m.options());
  siblings.scan(m.clock.at);
  CHECK(siblings.states(m.clock.at).size() == 1);
  m.gone(101);
  siblings.poll(m.clock.at);
  REQUIRE(siblings.states(m.clock.at).size() == 1);
  CHECK(siblings.states(m.clock.at)[0].state == 'X');
  // What has not been written for long goes, whoever it was.
  m.clock.advance_ms(700'000);
  siblings.scan(m.clock.at);
  CHECK_FALSE(fs::exists(twin));
}

TEST_CASE("a process that ended its communicators is no sibling any more") {
  Machine m;
  m.process(101, 'S', 2);
  const fs::path frame = m.frame(101, 2);
  Siblings siblings(m.options());
  siblings.scan(m.clock.at);
  fs::remove(frame);
  siblings.scan(m.clock.at);
  CHECK(siblings.states(m.clock.at).empty());
}

TEST_CASE("frames of processes that are gone are kept for a while and then removed") {
  Machine m;
  const fs::path old = m.frame(101, 2, "node0", "boot", 9399);
  const fs::path recent = m.frame(102, 2, "node0", "boot", 9401);
  const fs::path other_node = m.frame(103, 2, "node1", "boot", 9000);
  const fs::path other_machine = m.frame(104, 2, "node0", "other boot", 9000);
  m.process(105, 'T', 7);
  const fs::path stopped = m.frame(105, 7, "node0", "boot", 9000);
  std::ofstream(m.root / "frames" / "other-file") << "x";
  Siblings siblings(m.options());
  siblings.scan(m.clock.at);
  CHECK_FALSE(fs::exists(old));
  CHECK(fs::exists(recent));
  CHECK_FALSE(fs::exists(other_node));
  CHECK(fs::exists(other_machine));
  CHECK(fs::exists(stopped));
  CHECK(fs::exists(m.root / "frames" / "other-file"));
}

TEST_CASE("spare frames go with the process that kept them") {
  Machine m;
  const auto spare = [&m](uint32_t pid, uint64_t start_ticks, uint32_t pid_namespace = own_namespace) {
    const fs::path frame = m.frame(pid, start_ticks, "node0", "boot", 9000, pid_namespace);
    const fs::path path = frame.parent_path() / abi::spare_file_name({pid, pid_namespace}, 1);
    fs::rename(frame, path);
    return path;
  };
  m.process(101, 'S', 2);
  m.process(102, 'S', 3);
  const fs::path kept = spare(101, 2), pid_used_again = spare(102, 2), gone = spare(103, 2);
  const fs::path elsewhere = spare(104, 2, own_namespace + 1), own = spare(100, 2);
  Siblings siblings(m.options());
  siblings.scan(m.clock.at);
  CHECK(fs::exists(kept));
  CHECK_FALSE(fs::exists(pid_used_again));
  CHECK_FALSE(fs::exists(gone));
  CHECK(fs::exists(elsewhere));  // whether that process lives is not to be seen from here
  CHECK(fs::exists(own));
  CHECK(siblings.states(m.clock.at).empty());
}

TEST_CASE("a folder that is not there is no error") {
  Machine m;
  SiblingOptions o = m.options();
  o.frames_dir = "/nonexistent";
  Siblings siblings(o);
  siblings.scan(m.clock.at);
  siblings.poll(m.clock.at);
  CHECK(siblings.states(m.clock.at).empty());
}

TEST_CASE("a frame of another user is no sibling's, whatever it says") {
  if (geteuid() != 0) return;  // only root makes files of others
  Machine m;
  m.process(200, 'S', 5);
  const fs::path path = m.frame(200, 5);
  REQUIRE(chown(path.c_str(), 12345, 12345) == 0);
  Siblings siblings(m.options());
  siblings.scan(m.clock.at);
  siblings.poll(m.clock.at);
  CHECK(siblings.states(m.clock.at).empty());
}

}  // namespace
}  // namespace ccld::probe
