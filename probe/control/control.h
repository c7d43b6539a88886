// What an operator may change while the process runs, wherever the wish comes from: the control line of the process
// file or the decision service. Meanings, ranges and units: ControlLine of schemas/abi/process.h.
//
// Contract: judge_wish() takes the fields that are usable and names those that are not; it changes nothing else. Never
// fails. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "schemas/abi/process.h"

namespace ccld::probe {

struct ControlWish {
  uint64_t sequence = 0;
  uint32_t fields = 0;  // abi::ControlField: which of the following are meant
  bool running = true;
  uint32_t sample_us = 0;
  uint32_t log = 0;  // abi::LogVerbosity
  uint32_t budget_ppm = 0;
  std::string endpoint;  // or several (schemas/endpoints); empty: send nothing
};

struct ControlInForce {
  uint64_t applied_sequence = 0;  // of the newest wish that was judged
  uint32_t refused_fields = 0;    // of that wish
  bool running = true;
  uint32_t sample_us = 0;
  uint32_t log = 0;
  uint32_t budget_ppm = 0;
  uint32_t period_us = 0;  // time between samples now, after the budget
  std::string endpoint;
};

// Applies what is usable of `wish` to a copy of `now` and says so in it. Unknown fields are refused.
ControlInForce judge_wish(const ControlInForce& now, const ControlWish& wish);

// Hardware is to be tested while the job runs: wire::Validation.
struct ValidationWish {
  uint64_t comm_uid = 0;
  std::string meet;  // host:port
  uint32_t hold_ms = 0;
};

// Which batches have come: wire::Acknowledgement.
struct Acknowledgement {
  uint64_t session = 0;
  uint64_t batch_seq = 0;
  uint64_t batches = 0;
};

// What the service says, verified. At most one of them is there; if none is, it says nothing that is known here.
struct ServiceWord {
  std::optional<ControlWish> wish;
  std::optional<Acknowledgement> acknowledgement;
  std::optional<ValidationWish> validation;
};
// A ControlRequest of the wire. False: it is none, or asks for a test that is not acceptable.
bool decode_control_request(const uint8_t* data, size_t size, ServiceWord* out);

}  // namespace ccld::probe
