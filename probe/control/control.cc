#include "probe/control/control.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "schemas/abi/validation_library.h"
#include "schemas/endpoints/endpoint_list.h"
#include "schemas/wire/control_generated.h"

namespace ccld::probe {
namespace {

constexpr uint32_t sample_us_min = 100, sample_us_max = 1000000;
constexpr uint32_t budget_ppm_max = 1000000;
constexpr uint32_t known_fields = abi::control_running | abi::control_sample_us | abi::control_log |
                                  abi::control_endpoint | abi::control_budget_ppm;
constexpr size_t endpoint_bytes_max = sizeof(abi::ControlLine::endpoint) - 1;

bool usable_endpoint(const std::string& text) {
  if (text.empty()) return true;
  if (text.size() > endpoint_bytes_max) return false;
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c <= 0x20 || c >= 0x7f; })) return false;
  return !endpoints_in(text).empty();
}

bool usable(const wire::Validation& v) {
  return v.comm_uid() != 0 && v.meet() != nullptr && v.meet()->size() > 0 && v.meet()->size() <= abi::meet_bytes_max &&
         v.hold_ms() > 0 && v.hold_ms() <= abi::hold_ms_max;
}

}  // namespace

ControlInForce judge_wish(const ControlInForce& now, const ControlWish& wish) {
  ControlInForce next = now;
  next.applied_sequence = wish.sequence;
  next.refused_fields = wish.fields & ~known_fields;
  const auto judge = [&](uint32_t field, bool usable, auto apply) {
    if ((wish.fields & field) == 0) return;
    if (usable)
      apply();
    else
      next.refused_fields |= field;
  };
  judge(abi::control_running, true, [&] { next.running = wish.running; });
  judge(abi::control_sample_us, wish.sample_us >= sample_us_min && wish.sample_us <= sample_us_max,
        [&] { next.sample_us = wish.sample_us; });
  judge(abi::control_log, wish.log <= static_cast<uint32_t>(abi::LogVerbosity::trace), [&] { next.log = wish.log; });
  judge(abi::control_budget_ppm, wish.budget_ppm <= budget_ppm_max, [&] { next.budget_ppm = wish.budget_ppm; });
  judge(abi::control_endpoint, usable_endpoint(wish.endpoint), [&] { next.endpoint = wish.endpoint; });
  return next;
}

bool decode_control_request(const uint8_t* data, size_t size, ServiceWord* out) {
  *out = ServiceWord();
  if (size < 8) return false;
  // ZeroMQ may hand out a message at any address of its receive buffer; FlatBuffers reads words in place.
  std::vector<uint64_t> aligned;
  if (reinterpret_cast<uintptr_t>(data) % alignof(uint64_t) != 0) {
    aligned.resize((size + sizeof(uint64_t) - 1) / sizeof(uint64_t));
    memcpy(aligned.data(), data, size);
    data = reinterpret_cast<const uint8_t*>(aligned.data());
  }
  flatbuffers::Verifier verifier(data, size);
  if (!wire::VerifyControlRequestBuffer(verifier)) return false;
  const wire::ControlRequest& request = *wire::GetControlRequest(data);
  if (const wire::Acknowledgement* a = request.acknowledgement())
    out->acknowledgement = Acknowledgement{a->session(), a->batch_seq(), a->batches()};
  // No service says two things in one message: whoever does gets no wish.
  if (out->acknowledgement) return true;
  if (const wire::Validation* v = request.validation()) {
    if (!usable(*v)) return false;
    out->validation = ValidationWish{v->comm_uid(), v->meet()->str(), v->hold_ms()};
    return true;
  }
  if (request.sequence() == 0) return true;
  ControlWish& wish = out->wish.emplace();
  wish.sequence = request.sequence();
  wish.fields = request.fields();
  wish.running = request.running();
  wish.sample_us = request.sample_us();
  wish.log = request.log();
  wish.budget_ppm = request.budget_ppm();
  if (request.endpoint() != nullptr) wish.endpoint = request.endpoint()->str();
  return true;
}

}  // namespace ccld::probe
