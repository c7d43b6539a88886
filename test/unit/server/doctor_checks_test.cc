#include "decision/cli/doctor_checks.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "decision/cli/local_processes.h"
#include "schemas/abi/file_names.h"
#include "test/support/files/folder.h"
#include "test/unit/frames_command/process_file.h"

namespace ccld::decision {
namespace {

// A /proc in which process 7 has a library mapped.
struct FakeProc {
  explicit FakeProc(const std::string& library) {
    std::filesystem::create_directories(folder.path / "7" / "root" / "lib");
    std::ofstream(folder.path / "7" / "maps") << "7f00-7f01 r-xp 00000000 08:01 42    /lib/libnccl.so.2.29.7\n";
    std::ofstream(folder.path / "7" / "root" / "lib" / "libnccl.so.2.29.7", std::ios::binary) << library;
  }
  std::vector<Checked> check(const std::vector<uint32_t>& pids) const {
    DoctorOptions options;
    options.pids = pids;
    options.proc_dir = folder.path;
    options.dir = folder.file("no-frames");
    return check_processes(options, nullptr);
  }
  test::Folder folder;
};

}  // namespace

TEST_CASE("A library of somebody else is told by what it does not know") {
  const auto found = FakeProc("NCCL_DEBUG NCCL_ALGO").check({7});
  REQUIRE(found.size() == 1);
  CHECK(text_of(found[0]) ==
        "FAIL  pid 7: libnccl is not ours (/lib/libnccl.so.2.29.7)  -> LD_LIBRARY_PATH or LD_PRELOAD must name ours before it starts");
}

TEST_CASE("Our library is known wherever the name of the setting lies in the file") {
  constexpr size_t block = 1 << 20;
  for (const size_t at : {size_t{0}, block - 7, block, 2 * block - 1, 3 * block}) {
    const auto found = FakeProc(std::string(at, 'x') + "NCCL_PROBE_ENDPOINT").check({});
    REQUIRE(found.size() == 2);
    CHECK(text_of(found[0]) == "ok    pid 7: our libnccl is loaded (/lib/libnccl.so.2.29.7)");
    CHECK(found[1].health == Health::warn);
    CHECK(found[1].what.find("no process file") != std::string::npos);
  }
}

TEST_CASE("A process that is not there, and a folder that is not, are findings") {
  const FakeProc proc("");
  const auto found = proc.check({8});
  REQUIRE(found.size() == 1);
  CHECK(found[0].health == Health::fail);
  DoctorOptions options;
  options.dir = proc.folder.file("none");
  CHECK(check_folder(options).front().health == Health::fail);
  options.dir = proc.folder.path;
  CHECK(check_folder(options).back().health == Health::ok);
}

TEST_CASE("A process that ends while it is looked at is no finding") {
  const FakeProc proc("NCCL_PROBE_ENDPOINT");
  const std::filesystem::path folder = proc.folder.path / "7", maps = folder / "maps";
  std::filesystem::remove(maps);
  REQUIRE(mkfifo(maps.c_str(), 0600) == 0);
  std::thread process([&] {
    std::ofstream out(maps);  // waits for the reader, who then waits until this is closed
    out << "7f00-7f01 r-xp 00000000 08:01 42    /lib/libnccl.so.2.29.7\n";
    std::filesystem::remove_all(folder);
  });
  const auto found = proc.check({});
  process.join();
  REQUIRE(found.size() == 1);
  CHECK(text_of(found[0]).find("warn  no process of this user uses NCCL here") == 0);
}

TEST_CASE("Of a process that was given several endpoints all are checked, and the one that it uses is named") {
  const std::string given = "tcp://a:1,tcp://b:1,tcp://c:1";
  for (const auto& [in_use, expected] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"tcp://b:1", {"tcp://a:1", "tcp://b:1", "tcp://c:1"}}, {"tcp://elsewhere:1", {"tcp://elsewhere:1"}}}) {
    const FakeProc proc("NCCL_PROBE_ENDPOINT");
    const std::string text =
        "PATH=/bin" + std::string(1, '\0') + "NCCL_PROBE_ENDPOINT=" + given + std::string(1, '\0') + "HOME=/";
    std::ofstream(proc.folder.path / "7" / "environ", std::ios::binary) << text;
    test::SyntheticProcessFile file;
    in_use.copy(file.header().control_state.endpoint, in_use.size());
    file.metric(abi::MetricId::agent_service_state) = static_cast<uint64_t>(abi::ServiceState::reached);
    DoctorOptions options;
    options.pids = {7};
    options.proc_dir = proc.folder.path;
    options.dir = proc.folder.path;
    file.write(proc.folder.file(abi::process_file_name(LocalProcesses(options.proc_dir).name_of(7))));
    std::vector<std::string> endpoints;
    const auto found = check_processes(options, &endpoints);
    CHECK(endpoints == expected);
    CHECK(found.back().what ==
          "pid 7: it sends to " + in_use + (expected.size() > 1 ? " (one of 3)" : "") + ", without keys");
  }
}

TEST_CASE("Each endpoint is checked once, those that are given in place of those of processes") {
  using List = std::vector<std::string>;
  CHECK(endpoints_to_check("", {}) == List{"tcp://127.0.0.1:5566"});
  CHECK(endpoints_to_check("", {"tcp://b:1", "tcp://a:1", "tcp://b:1"}) == List{"tcp://a:1", "tcp://b:1"});
  CHECK(endpoints_to_check("tcp://c:1,tcp://d:1", {"tcp://a:1"}) == List{"tcp://c:1", "tcp://d:1"});
  CHECK(endpoints_to_check("tcp://c:1,", {}) == List{"tcp://c:1,"});
  CHECK(check_endpoint_answers("tcp://c:1,", std::nullopt).health == Health::fail);
}

TEST_CASE("A finding is one line, whatever is in it") {
  CHECK(text_of({Health::warn, "a\nb", "c\x1b"}) == "warn  a?b  -> c?");
  CHECK(text_of({Health::ok, "a", ""}) == "ok    a");
}

TEST_CASE("Why a handshake fails is said, with what to do on which side") {
  const auto text = [](Handshake h, bool keys) { return text_of(handshake_finding("tcp://h:1", h, keys)); };
  const auto contains = [](const std::string& whole, const std::string& part) { return whole.find(part) != std::string::npos; };
  CHECK(text(Handshake::done, false) == "ok    telemetry tcp://h:1 answers as ZeroMQ does");
  CHECK(contains(text(Handshake::done, true), "authentication is in force"));
  CHECK(contains(text(Handshake::rejected, true), "FAIL  telemetry tcp://h:1 does not accept our key  -> `ccld keys add`"));
  CHECK(contains(text(Handshake::one_sided, true), "FAIL  telemetry tcp://h:1 uses no keys"));
  // Whoever has no key at hand cannot tell whether it is well.
  CHECK(contains(text(Handshake::one_sided, false), "warn  telemetry tcp://h:1 lets in only who has a key"));
  CHECK(contains(text(Handshake::broken_off, true), "its key is not that of NCCL_PROBE_SERVER_KEY"));
  CHECK(contains(text(Handshake::broken_off, false), "does not speak ZeroMQ"));
  CHECK(contains(text(Handshake::unreachable, true), "cannot be reached"));
}

TEST_CASE("Keys for the doctor are read as a probe reads them") {
  const test::Folder folder;
  const std::string key = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID", secret = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs";
  std::ofstream(folder.file("key")) << "secret " << secret << "\n";
  std::ofstream(folder.file("pub")) << "public " << key << "\n";
  CHECK_FALSE(read_probe_keys("", "")->has_value());
  CHECK((*read_probe_keys(key, folder.file("key")))->server == key);
  CHECK((*read_probe_keys(folder.file("pub"), folder.file("key")))->secret == secret);
  for (const auto& [server, file] : {std::pair{key, std::string()}, {std::string(), folder.file("key")}, {std::string("junk"), folder.file("key")},
                                     {key, folder.file("pub")}, {folder.file("key"), folder.file("key")}, {key, folder.file("none")}})
    CHECK_FALSE(read_probe_keys(server, file).ok());
}

}  // namespace ccld::decision
