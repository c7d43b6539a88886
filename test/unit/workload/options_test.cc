#include "test/support/workload/options.h"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

using namespace ccld::workload;
using Catch::Contains;

namespace {

Options parse_words(std::vector<const char*> words) {
  words.insert(words.begin(), {"ccld-workload", "--rank", "1", "--ranks", "4", "--id-file", "/tmp/id"});
  return parse(static_cast<int>(words.size()), const_cast<char**>(words.data()));
}

}  // namespace

TEST_CASE("Sizes take K, M and G as powers of 1024") {
  CHECK(parse_bytes("4096") == 4096);
  CHECK(parse_bytes("4K") == 4096);
  CHECK(parse_bytes("1m") == 1u << 20);
  CHECK(parse_bytes("2G") == uint64_t{2} << 30);
  CHECK_THROWS_WITH(parse_bytes("4T"), Contains("unknown unit"));
  CHECK_THROWS_WITH(parse_bytes("much"), Contains("not a size"));
  CHECK_THROWS_WITH(parse_bytes("-1"), Contains("negative"));
}

TEST_CASE("The letters of nccl-tests mean what they mean there") {
  const Options options =
      parse_words({"-b", "4K", "-e", "1M", "-f", "4", "-n", "7", "-w", "2", "-c", "1", "-o", "max", "-d", "double"});
  CHECK(options.bytes_min == 4096);
  CHECK(options.bytes_max == 1u << 20);
  CHECK(options.factor == 4);
  CHECK(options.iterations == 7);
  CHECK(options.warm_up == 2);
  CHECK(options.check);
  CHECK(options.reduction == "max");
  CHECK(options.datatype == "double");
}

TEST_CASE("Without a largest size there is one size, and the status board lies beside the id file") {
  const Options options = parse_words({"-b", "64K"});
  CHECK(options.bytes_max == 65536);
  CHECK(options.status_file == "/tmp/id.status");
}

TEST_CASE("A layout is given by any of its sizes") {
  CHECK_FALSE(parse_words({}).layout);
  const Options options = parse_words({"--tp", "2", "--dp", "2", "--compute-ms", "3"});
  REQUIRE(options.layout);
  CHECK(options.layout->pp == 1);
  CHECK(options.shape.compute_ms == 3);
}
