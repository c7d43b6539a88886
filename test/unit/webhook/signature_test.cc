#include "decision/webhook/signature.h"

#include <catch2/catch.hpp>

namespace ccld::decision::webhook {

TEST_CASE("A signature is the HMAC-SHA256 of time and body, as other tools compute it") {
  // printf '1769860800.{"a":1}' | openssl dgst -sha256 -hmac 'sesame'
  CHECK(signature("sesame", 1769860800, R"({"a":1})") == "t=1769860800,v1=cabb5ea17d289c86729cbc3722dd7e177bd29ea2271da8e26a4133cd5bac743f");
  CHECK(signature("sesame", 1769860801, R"({"a":1})") != signature("sesame", 1769860800, R"({"a":1})"));
}

}  // namespace ccld::decision::webhook
