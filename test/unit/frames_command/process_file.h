// A process file in plain memory, written by the test in the roles of all its writers.
#pragma once

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "schemas/abi/process.h"

namespace ccld::test {

class SyntheticProcessFile {
 public:
  SyntheticProcessFile() : memory_(std::aligned_alloc(128, abi::process_file_bytes()), std::free) {
    std::memset(memory_.get(), 0, bytes());
    abi::ProcessIdentityPart& id = header().identity;
    id.abi_major = abi::process_abi_major;
    id.file_bytes = static_cast<uint32_t>(bytes());
    id.pid = 4242;
    id.pid_start_ticks = 777;
    id.metrics_offset = sizeof(abi::ProcessHeader);
    id.inits_offset = id.metrics_offset + abi::metrics_max * sizeof(uint64_t);
    id.inits_stride = sizeof(abi::InitRecord);
    id.nets_offset = id.inits_offset + abi::inits_max * sizeof(abi::InitRecord);
    id.nets_stride = sizeof(abi::NetRecord);
    std::strcpy(id.host, "node0");
    std::strcpy(id.boot_id, "11111111-2222-3333-4444-555555555555");
    std::strcpy(id.job, "job-a");
    abi::ControlStateLine& state = header().control_state;
    state.running = 1;
    state.sample_us = state.period_us = 1000;
    state.budget_ppm = 3000;
    id.magic = abi::process_magic;
    id.end_marker = abi::process_magic;
  }

  void* memory() { return memory_.get(); }
  static constexpr size_t bytes() { return abi::process_file_bytes(); }
  abi::ProcessHeader& header() { return *static_cast<abi::ProcessHeader*>(memory_.get()); }
  uint64_t& metric(abi::MetricId id) {
    return at<uint64_t>(header().identity.metrics_offset)[static_cast<unsigned>(id)];
  }
  abi::InitRecord& init(unsigned slot) { return at<abi::InitRecord>(header().identity.inits_offset)[slot]; }
  abi::NetRecord& net(unsigned slot) { return at<abi::NetRecord>(header().identity.nets_offset)[slot]; }

  void write(const std::string& path) {
    std::ofstream(path, std::ios::binary)
        .write(static_cast<const char*>(memory()), static_cast<std::streamsize>(bytes()));
  }

 private:
  template <class T>
  T* at(size_t offset) {
    return reinterpret_cast<T*>(static_cast<char*>(memory_.get()) + offset);
  }
  std::unique_ptr<void, decltype(&std::free)> memory_;
};

}  // namespace ccld::test
