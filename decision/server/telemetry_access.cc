#include "decision/server/telemetry_access.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/admission/files.h"
#include "decision/admission/key_pair.h"
#include "decision/server/clock.h"
#include "decision/server/exposure.h"
#include "decision/server/surroundings.h"
#include "spdlog/spdlog.h"
#include "zmq.hpp"

namespace ccld::decision::server {
namespace {

constexpr char secret_flag[] = "--telemetry-secret-file", allow_flag[] = "--telemetry-allow-file";

absl::StatusOr<std::shared_ptr<const admission::KeyList>> read_list(const std::string& path) {
  const auto text = admission::read_file(path);
  if (!text.ok()) return text.status();
  auto list = admission::KeyList::parse(*text, path);
  if (!list.ok()) return list.status();
  return std::make_shared<const admission::KeyList>(*std::move(list));
}

void warn_if_others_can_read(const std::string& path) {
  if (admission::others_can_read(path))
    spdlog::warn("{}: others than its owner can read or write '{}'", secret_flag, path);
}

}  // namespace

absl::StatusOr<TelemetryAccess> open_telemetry_access(const TelemetryAccessOptions& options) {
  const bool keys = !options.secret_file.empty() || !options.allow_file.empty();
  if (absl::Status s = check_telemetry_exposure(options.listen, keys, options.insecure); !s.ok()) return s;
  TelemetryAccess result;
  if (!keys) {
    if (!is_local_endpoint(options.listen))
      spdlog::warn("--insecure: everyone who reaches {} can send telemetry", options.listen);
    return result;
  }
  if (options.allow_file.empty())
    return absl::InvalidArgumentError(absl::StrCat(secret_flag, " needs ", allow_flag, ": whose keys are let in"));
  if (options.secret_file.empty())
    return absl::InvalidArgumentError(
        absl::StrCat(allow_flag, " needs ", secret_flag, ": the key by which probes know this service"));
  if (zmq_has("curve") == 0) return absl::UnavailableError(absl::StrCat(secret_flag, ": this libzmq has no CURVE"));
  auto secret = admission::read_secret_key(options.secret_file);
  if (!secret.ok()) return naming(secret_flag, secret.status());
  warn_if_others_can_read(options.secret_file);
  auto list = read_list(options.allow_file);
  if (!list.ok()) return naming(allow_flag, list.status());
  if ((*list)->entries().empty())
    spdlog::warn("{}: no key is in '{}': no probe is let in", allow_flag, options.allow_file);
  auto book = std::make_shared<admission::KeyBook>(*std::move(list));
  result.files.push_back({allow_flag, {options.allow_file}, [book, path = options.allow_file] {
                            auto changed = read_list(path);
                            if (changed.ok()) book->replace(*std::move(changed));
                            return changed.status();
                          }});
  auto own = std::make_shared<admission::SecretBook>(std::make_shared<const std::string>(*std::move(secret)));
  result.door = ingest::DoorOptions{own, book, monotonic_now_ns};
  result.files.push_back({secret_flag, {options.secret_file}, [own, path = options.secret_file] {
                            auto changed = admission::read_secret_key(path);
                            if (!changed.ok()) return changed.status();
                            if (*changed == *own->newest()) return absl::OkStatus();
                            const auto open = admission::public_key_of(*changed);
                            if (!open.ok()) return open.status();
                            warn_if_others_can_read(path);
                            spdlog::warn("{}: new key; its public key, for NCCL_PROBE_SERVER_KEY: {}", secret_flag,
                                         *open);
                            own->replace(std::make_shared<const std::string>(*std::move(changed)));
                            return absl::OkStatus();
                          }});
  return result;
}

}  // namespace ccld::decision::server
