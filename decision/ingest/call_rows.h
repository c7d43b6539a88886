// Rows of finished calls and of link stages, however they came, to rounds. Contract: as batch_decoder.h; false: `d`
// says what is wrong. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "decision/ingest/field_checks.h"
#include "decision/model/events.h"
#include "schemas/wire/packed_calls.h"
#include "schemas/wire/packed_links.h"

namespace ccld::decision::ingest {

// Names of the columns about links, for what is refused.
struct LinkFields {
  const char *links, *proxy_away_us, *first_step;
};
bool take(Decoder& d, const LinkFields& fields, const wire::LinkRow& in, LinkStages& out);
// As packed_links.h packs them; `bytes` has been charged.
bool unpack_links(Decoder& d, const LinkFields& fields, uint32_t rows, absl::Span<const uint8_t> bytes,
                  std::vector<LinkStages>& out);

using Signatures = absl::InlinedVector<Signature, 8>;
bool take(Decoder& d, const Signatures& signatures, absl::Span<const wire::CallRow> rows, std::vector<Round>& out);

struct P2pPeer {
  int32_t peer = 0;
  uint8_t direction = 0;
  uint64_t bytes = 0;
};
bool take(Decoder& d, const P2pPeer& of, const wire::CallRow& r, P2pRound& out);

}  // namespace ccld::decision::ingest
