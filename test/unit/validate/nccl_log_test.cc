#include "decision/validate/nccl_log.h"

#include <catch2/catch.hpp>

namespace ccld::decision::validate {
namespace {

// As NCCL 2.29 writes them.
constexpr char log_of_rank_3[] =
    "vm:17:20 [3] NCCL INFO NET/Socket : Using [0]data0:10.77.0.1<0> [1]data1:10.77.3.1<0>\n"
    "vm:17:20 [3] NCCL INFO Ring 00 : 2 -> 3 -> 4\n"
    "vm:17:20 [3] NCCL INFO Ring 01 : 5 -> 3 -> 0\n"
    "vm:17:20 [3] NCCL INFO Trees [0] 4/-1/-1->3->2 [1] 0/6/-1->3->-1\n"
    "vm:17:20 [3] NCCL INFO Channel 00/1 : 2[2] -> 3[3] [receive] via NET/Socket/0\n"
    "vm:17:20 [3] NCCL INFO Channel 00/1 : 3[3] -> 4[0] [send] via NET/Socket/1\n"
    "vm:17:20 [3] NCCL INFO Channel 00/1 : 3[3] -> 5[1] [send] via NET/IB/2(0)/GDRDMA/Shared\n"
    "vm:17:20 [3] NCCL INFO Channel 00 : 3[3] -> 2[2] via SHM/direct/direct\n"
    "vm:17:20 [3] NCCL INFO Channel 00/1 : 3[3] -> 1[1] via P2P/CUMEM/read\n"
    "[2026-01-01 00:00:00] vm:17:20 [3] x.cc:7 NCCL WARN something\n";

TEST_CASE("Neighbours of every channel are read") {
  const NcclLog log = read_nccl_log(log_of_rank_3, 3);
  REQUIRE(log.channels.size() == 2);
  CHECK(log.channels[0].ring_previous == 2);
  CHECK(log.channels[0].ring_next == 4);
  CHECK(log.channels[0].tree_parent == 2);
  CHECK(log.channels[1].ring_next == 0);
  CHECK(log.channels[1].tree_parent == -1);
}

TEST_CASE("Links have the kind by which they are compared, and their network device") {
  const NcclLog log = read_nccl_log(log_of_rank_3, 3);
  CHECK(log.sends_to.size() == 4);
  CHECK(log.sends_to.at(4).kind == "NET/Socket");
  CHECK(log.net_names.at(log.sends_to.at(4).net_device) == "data1");
  CHECK(log.sends_to.at(5).kind == "NET/IB/GDRDMA");
  CHECK(log.sends_to.at(5).net_device == 2);
  CHECK(log.sends_to.at(2).kind == "SHM/direct");
  CHECK(log.sends_to.at(1).kind == "P2P/CUMEM");
  CHECK(log.sends_to.at(1).net_device == -1);
}

TEST_CASE("What is cut off or of another rank tells nothing") {
  CHECK(read_nccl_log("", 3).channels.empty());
  CHECK(read_nccl_log("x NCCL INFO Ring 00 : 2 -> 3 ->", 3).channels.empty());
  CHECK(read_nccl_log("x NCCL INFO Ring 00 : 2 -> 4 -> 5", 3).channels.empty());
  CHECK(read_nccl_log("x NCCL INFO Ring 999999999999 : 2 -> 3 -> 5", 3).channels.empty());
  CHECK(read_nccl_log("x NCCL INFO Trees [0] [1] -> ->", 3).channels.empty());
  CHECK(read_nccl_log("x NCCL INFO Channel 00/1 : 3[3] -> via ", 3).sends_to.empty());
  CHECK(read_nccl_log("x NCCL INFO NET/IB : Using [0] [] [x]y", 3).net_names.empty());
}

}  // namespace
}  // namespace ccld::decision::validate
