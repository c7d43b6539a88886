#include "schemas/wire/telemetry_generated.h"

#include <catch2/catch.hpp>

namespace ccld::wire {
namespace {

TEST_CASE("the structs of the wire keep their sizes") {
  CHECK(sizeof(OpSignature) == 24);
  CHECK(sizeof(LinkStages) == 56);
  CHECK(sizeof(LaneState) == 44);
  CHECK(sizeof(ProxyState) == 80);
  CHECK(sizeof(ChannelState) == 24);
  CHECK(sizeof(P2pInFlight) == 56);
  CHECK(sizeof(NetProgress) == 80);
}

TEST_CASE("a buffer of another kind is refused by its identifier") {
  flatbuffers::FlatBufferBuilder builder;
  const auto health = CreateAgentHealth(builder, 1);
  builder.Finish(health, "CCL9");
  flatbuffers::Verifier verifier(builder.GetBufferPointer(), builder.GetSize());
  CHECK_FALSE(VerifyBatchBuffer(verifier));
}

}  // namespace
}  // namespace ccld::wire
