#include "nccl/hooks/shared_gpus_rule.h"

#include <catch2/catch.hpp>
#include <set>

using ccld::hooks::host_of_process;
using ccld::hooks::parse_share_gpus;

TEST_CASE("ranks share GPUs only when told to, and what means nothing is no answer") {
  CHECK(parse_share_gpus(nullptr) == false);
  CHECK(parse_share_gpus("0") == false);
  CHECK(parse_share_gpus("1") == true);
  for (const char* text : {"", "2", "yes", "1 ", "01"}) CHECK(!parse_share_gpus(text).has_value());
}

TEST_CASE("each process of a machine is another machine, the same one each time it is asked") {
  std::set<uint64_t> machines;
  for (uint64_t host : {0x1234u, 0x1235u}) {
    for (uint64_t process = 0; process < 1000; ++process) {
      machines.insert(host_of_process(host, process));
      CHECK(host_of_process(host, process) == host_of_process(host, process));
    }
  }
  CHECK(machines.size() == 2000);
}
