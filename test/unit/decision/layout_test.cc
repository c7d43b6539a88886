#include "decision/model/layout.h"

#include <catch2/catch.hpp>

namespace ccld::decision {

TEST_CASE("Groups of a layout are told from the numbers of their processes") {
  const Layout l{2, 2, 4, 2, "tp-dp-pp"};  // 16 processes: number = tp + 2 dp + 8 pp
  CHECK(role_of(l, {0, 1}) == CommRole::tensor);
  CHECK(role_of(l, {10, 11}) == CommRole::tensor);
  CHECK(role_of(l, {0, 2, 4, 6}) == CommRole::data);
  CHECK(role_of(l, {9, 11, 13, 15}) == CommRole::data);
  CHECK(role_of(l, {3, 11}) == CommRole::pipeline);
  CHECK(role_of(l, {4, 6}) == CommRole::expert);
  CHECK(role_of(l, {2, 4}) == CommRole::unknown);  // crosses two expert groups
  CHECK(role_of(l, {0, 3}) == CommRole::unknown);
  CHECK(role_of(l, {0, 99}) == CommRole::unknown);
  std::vector<int> all;
  for (int i = 0; i < 16; ++i) all.push_back(i);
  CHECK(role_of(l, all) == CommRole::world);
}

TEST_CASE("The order of the dimensions decides who is whose neighbour") {
  const Layout l{2, 4, 2, 0, "pp-tp-dp"};
  CHECK(role_of(l, {0, 1, 2, 3}) == CommRole::pipeline);
  CHECK(role_of(l, {0, 4}) == CommRole::tensor);
  CHECK(role_of(l, {0, 8}) == CommRole::data);
}

TEST_CASE("With one dimension all processes are its group") {
  CHECK(role_of({1, 1, 3, 0, "tp-dp-pp"}, {0, 1, 2}) == CommRole::data);
  CHECK(role_of({3, 1, 1, 0, "tp-dp-pp"}, {0, 1, 2}) == CommRole::tensor);
  CHECK(role_of({}, {0, 1, 2}) == CommRole::unknown);
}

TEST_CASE("An order names each dimension once") {
  CHECK(check_order("tp-dp-pp").ok());
  CHECK(check_order("pp-tp-dp").ok());
  for (const char* wrong : {"", "tp", "tp-tp-pp", "tp-dp-pp-ep", "tp,dp,pp"}) {
    CHECK_FALSE(check_order(wrong).ok());
    CHECK(std::string(check_order(wrong).message()).find("layout_order") != std::string::npos);
  }
}

}  // namespace ccld::decision
