// One payload of a message to its struct of model/events.h. Contract: as batch_decoder.h; false: `d` says what is
// wrong. Pure.
#pragma once

#include "decision/ingest/field_checks.h"
#include "decision/model/events.h"
#include "schemas/wire/telemetry_generated.h"

namespace ccld::decision::ingest {

// The last of the states that a communicator may be said to have.
constexpr uint32_t comm_state_max = static_cast<uint32_t>(abi::CommState::init_failed);

bool decode(Decoder& d, const wire::OpSignature& in, Signature& out);

bool decode(Decoder& d, const wire::CommUp& in, CommUp& out);
bool decode(Decoder& d, const wire::CommDown& in, CommDown& out);
bool decode(Decoder& d, const wire::CommInit& in, CommInit& out);
bool decode(Decoder& d, const wire::Rounds& in, Rounds& out);
bool decode(Decoder& d, const wire::P2pRounds& in, P2pRounds& out);
bool decode(Decoder& d, const wire::PackedRounds& in, Rounds& out);
bool decode(Decoder& d, const wire::PackedP2pRounds& in, P2pRounds& out);
// One for each communicator.
bool decode(Decoder& d, const wire::RoundGroups& in, std::vector<Payload>& out);
bool decode(Decoder& d, const wire::P2pGroups& in, std::vector<Payload>& out);
bool decode(Decoder& d, const wire::InFlight& in, InFlight& out);
bool decode(Decoder& d, const wire::AgentHealth& in, AgentHealth& out);
bool decode(Decoder& d, const wire::Metrics& in, Metrics& out);
bool decode(Decoder& d, const wire::NetQueues& in, NetQueues& out);
bool decode(Decoder& d, const wire::ControlState& in, ControlState& out);

}  // namespace ccld::decision::ingest
