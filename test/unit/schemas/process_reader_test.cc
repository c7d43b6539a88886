#include "schemas/abi/process_reader.h"

#include "schemas/abi/process_build.h"

#include <cstdlib>
#include <memory>

#include <catch2/catch.hpp>

namespace ccld::abi {
namespace {

struct SyntheticProcess {
  std::unique_ptr<void, decltype(&std::free)> memory{std::aligned_alloc(128, process_file_bytes()), std::free};
  ProcessHeader& header = *static_cast<ProcessHeader*>(memory.get());

  SyntheticProcess() {
    std::memset(memory.get(), 0, process_file_bytes());
    ProcessIdentityPart& id = header.identity;
    id.magic = id.end_marker = process_magic;
    id.abi_major = process_abi_major;
    id.file_bytes = process_file_bytes();
    id.pid = 77;
    id.metrics_offset = sizeof(ProcessHeader);
    id.inits_offset = id.metrics_offset + metrics_max * sizeof(uint64_t);
    id.inits_stride = sizeof(InitRecord);
    id.nets_offset = id.inits_offset + inits_max * sizeof(InitRecord);
    id.nets_stride = sizeof(NetRecord);
  }
  template <class T>
  T* part(uint32_t offset) {
    return reinterpret_cast<T*>(static_cast<char*>(memory.get()) + offset);
  }
  ProcessView open() {
    std::string error;
    const auto view = ProcessView::open(memory.get(), process_file_bytes(), &error);
    REQUIRE(error == "");
    return *view;
  }
  std::string refusal(size_t bytes = process_file_bytes()) {
    std::string error;
    CHECK_FALSE(ProcessView::open(memory.get(), bytes, &error).has_value());
    return error;
  }
};

TEST_CASE("a process file shows metrics, communicators being made and network queues") {
  SyntheticProcess file;
  const ProcessView view = file.open();
  CHECK(view.identity().pid == 77);
  file.part<uint64_t>(file.header.identity.metrics_offset)[static_cast<int>(MetricId::agent_samples)] = 41;
  CHECK(view.metric(MetricId::agent_samples) == 41);
  CHECK(view.metric(MetricId::process_user_ns) == 0);  // has no word

  InitRecord init{};
  CHECK_FALSE(view.read_init(3, &init));
  InitRecord& written = file.part<InitRecord>(file.header.identity.inits_offset)[3];
  written.stage = static_cast<uint32_t>(InitStage::bootstrapped);
  written.rank = 5;
  CHECK_FALSE(view.read_init(3, &init));  // not committed
  written.commit = 3;
  REQUIRE(view.read_init(3, &init));
  CHECK((init.rank == 5 && init.stage == static_cast<uint32_t>(InitStage::bootstrapped)));
  CHECK_FALSE(view.read_init(inits_max, &init));

  NetRecord net{};
  CHECK_FALSE(view.read_net(0, &net));
  file.part<NetRecord>(file.header.identity.nets_offset)[0].queue = 9;
  CHECK(view.read_net(0, &net));
  CHECK_FALSE(view.read_net(nets_max, &net));
}

TEST_CASE("a process file says which library is loaded, an older one does not") {
  alignas(128) static char memory[process_file_bytes_with_build()];
  ProcessIdentityPart identity{};
  identity.nets_offset = process_file_bytes() - nets_max * sizeof(NetRecord);
  identity.nets_stride = sizeof(NetRecord);
  auto* written = reinterpret_cast<ProcessBuild*>(memory + process_file_bytes());
  std::strcpy(written->release, "0.1.0");
  std::memset(written->build_id, 'x', sizeof written->build_id);  // without an end

  identity.file_bytes = process_file_bytes();
  CHECK(std::string(process_build(memory, identity).build_id).empty());
  identity.file_bytes = sizeof memory - 1;
  CHECK(std::string(process_build(memory, identity).build_id).empty());
  identity.file_bytes = sizeof memory;
  const ProcessBuild read = process_build(memory, identity);
  CHECK(std::string(read.release) == "0.1.0");
  CHECK(std::string(read.build_id) == std::string(63, 'x'));
}

TEST_CASE("a process file that is changed after it was checked leads nowhere") {
  alignas(128) static char memory[process_file_bytes_with_build()];
  const SyntheticProcess like;
  std::memcpy(memory, like.memory.get(), process_file_bytes());
  ProcessIdentityPart& id = reinterpret_cast<ProcessHeader*>(memory)->identity;
  std::strcpy(reinterpret_cast<ProcessBuild*>(memory + process_file_bytes())->release, "0.1.0");
  SECTION("with a build") {
    id.file_bytes = sizeof memory;
    const auto view = ProcessView::open(memory, sizeof memory, nullptr);
    REQUIRE(view.has_value());
    CHECK(std::string(view->build().release) == "0.1.0");
    id.nets_offset = 0x40000000u;
    id.file_bytes = UINT32_MAX;
    CHECK(std::string(view->build().release) == "0.1.0");
  }
  SECTION("without one") {
    const auto view = ProcessView::open(memory, process_file_bytes(), nullptr);
    REQUIRE(view.has_value());
    id.file_bytes = UINT32_MAX;
    CHECK(std::string(view->build().release).empty());
  }
}

TEST_CASE("a control line that is being written is not read") {
  SyntheticProcess file;
  const ProcessView view = file.open();
  ControlLine line;
  file.header.control.sequence = 3;
  CHECK_FALSE(view.read_control(&line));
  file.header.control.sample_us = 500;
  file.header.control.sequence = 4;
  REQUIRE(view.read_control(&line));
  CHECK(line.sample_us == 500);
  file.header.control_state.applied_sequence = 4;
  CHECK(view.control_state().applied_sequence == 4);
}

TEST_CASE("process files that cannot be read are refused with a reason") {
  SyntheticProcess file;
  ProcessIdentityPart& id = file.header.identity;
  SECTION("no magic") {
    id.magic = 0;
    CHECK(file.refusal() == "not a process file (or not initialized yet)");
  }
  SECTION("another version") {
    id.abi_major = 9;
    CHECK(file.refusal() == "process file version 9.0, this program reads 1.x");
  }
  SECTION("no end marker") {
    id.end_marker = 0;
    CHECK(file.refusal().find("end marker") != std::string::npos);
  }
  SECTION("too short") { CHECK(file.refusal(process_file_bytes() - 1).find("truncated") == 0); }
  SECTION("metrics outside") {
    id.metrics_offset = 0xffffff80u;
    CHECK(file.refusal().find("metrics lie outside") != std::string::npos);
  }
  SECTION("records too short") {
    id.inits_stride = 64;
    CHECK(file.refusal().find("communicators being made lie outside") != std::string::npos);
  }
  SECTION("queues that overflow") {
    id.nets_stride = 0xffffff80u;
    CHECK(file.refusal().find("network queues lie outside") != std::string::npos);
  }
}

}  // namespace
}  // namespace ccld::abi
