// What the query API understands of a request: bodies, parameters, headers. The first byte says which.
#include <cstdint>
#include <map>
#include <string>

#include "decision/admission/token_list.h"
#include "decision/report/page_query.h"
#include "decision/server/acknowledge.h"
#include "decision/server/request_checks.h"
#include "decision/server/silences.h"
#include "decision/server/tune.h"
#include "test/fuzz/bytes.h"
#include "test/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld;
  using namespace ccld::decision;
  fuzz::ByteReader bytes(data, size);
  switch (bytes.byte() % 6) {
    case 0: (void)server::parse_tune_request(std::string(bytes.rest())); break;
    case 1: (void)server::parse_acknowledge_request(std::string(bytes.rest())); break;
    case 2: {
      const auto silence = server::parse_silence(std::string(bytes.rest()), int64_t{1'700'000'000'000});
      if (silence.ok()) FUZZ_REQUIRE(silence->until_ms > int64_t{1'700'000'000'000});
      break;
    }
    case 3: {
      const unsigned known = bytes.byte();
      std::multimap<std::string, std::string> parameters;
      while (!bytes.empty() && parameters.size() < 16) {
        const std::string name(bytes.text_to_zero());
        parameters.emplace(name, std::string(bytes.text_to_zero()));
      }
      const auto query = report::parse_page_query(parameters, known, report::page_rows_max);
      if (query.ok()) FUZZ_REQUIRE(query->rows(1) <= report::page_rows_max);
      break;
    }
    case 4: {
      const auto request = server::parse_validate_request(std::string(bytes.rest()));
      if (!request.ok()) break;
      FUZZ_REQUIRE(request->validation.has_value() && !request->validation->meet.empty());
      FUZZ_REQUIRE(request->validation->hold_ms > 0 && request->validation->hold_ms <= ccld::abi::hold_ms_max);
      break;
    }
    default: {
      const std::string host(bytes.text_to_zero()), origin(bytes.text_to_zero()), rest(bytes.rest());
      (void)server::is_our_name(host, {"ccld.example.org"});
      (void)server::is_same_origin(origin, host, false);
      (void)server::is_this_host(host);
      (void)server::matches_etag(origin, rest);
      (void)admission::bearer_token(rest);
      break;
    }
  }
  return 0;
}
