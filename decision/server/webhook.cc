#include "decision/server/webhook.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "decision/report/acknowledgement.h"
#include "decision/report/text_format.h"
#include "decision/server/clock.h"
#include "decision/server/surroundings.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

// A receiver that takes longer for 4 KB is tried again; services that are well answer within a second.
constexpr int64_t post_timeout_ms = 10'000;
constexpr size_t secret_bytes_max = 4096;

absl::StatusOr<std::string> read_secret(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(secret_bytes_max + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || (text.empty() && !file.eof())) return absl::UnavailableError(absl::StrCat("cannot read '", path, "'"));
  if (text.size() > secret_bytes_max) return absl::InvalidArgumentError(absl::StrCat("'", path, "' is longer than ", secret_bytes_max, " bytes"));
  absl::StripTrailingAsciiWhitespace(&text);  // editors end a file with a line feed
  if (text.empty()) return absl::InvalidArgumentError(absl::StrCat("'", path, "' is empty"));
  struct stat about{};
  if (stat(path.c_str(), &about) == 0 && (about.st_mode & (S_IRGRP | S_IROTH | S_IWGRP | S_IWOTH)) != 0) {
    spdlog::warn("--webhook-secret-file: others than its owner can read or write '{}'", path);
  }
  return text;
}

absl::StatusOr<webhook::MinState> parse_min_state(const std::string& text) {
  if (text == "suspected") return webhook::MinState::suspected;
  if (text == "confirmed") return webhook::MinState::confirmed;
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not known: suspected or confirmed is expected"));
}

// What an earlier run left; the next one that has a webhook begins anew if this one has none.
absl::StatusOr<history::Undelivered> take_left(history::History* history, bool wanted, int64_t now_ms, const webhook::QueueLimits& limits) {
  history::Undelivered left;
  if (history == nullptr) return left;
  const absl::Status status = history->change([&](history::Database& db) {
    if (!wanted) return history::end_deliveries(db);
    if (absl::Status s = history::begin_deliveries(db, now_ms); !s.ok()) return s;
    auto found = history::undelivered(db, now_ms - limits.give_up_ms, limits.deliveries_max);
    if (found.ok()) left = *std::move(found);
    return found.status();
  });
  if (!status.ok()) return status;
  return left;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Webhook>> Webhook::open(const WebhookOptions& options, history::History* history, const std::string& run,
                                                       int64_t now_ms) {
  std::unique_ptr<Webhook> hook(new Webhook);
  hook->run_ = run;
  hook->of_cluster_ = options.of_cluster;
  if (options.url.empty()) {
    if (!options.secret_file.empty()) return absl::InvalidArgumentError("--webhook-secret-file needs --webhook");
    // What is left is no reason not to start.
    if (const auto left = take_left(history, false, now_ms, {}); !left.ok()) spdlog::warn("{}", std::string(left.status().message()));
    return nullptr;
  }
  auto receiver = webhook::open_receiver(options.url, options.ca_file, post_timeout_ms);
  if (!receiver.ok()) return naming("--webhook", receiver.status());
  if (!options.ca_file.empty() && access(options.ca_file.c_str(), R_OK) != 0) {
    return absl::UnavailableError(absl::StrCat("--webhook-ca-file: cannot read '", options.ca_file, "': ", std::strerror(errno)));
  }
  hook->receiver_ = *std::move(receiver);
  hook->sender_options_.name = webhook::receiver_name(options.url);
  const auto min_state = parse_min_state(options.min_state);
  if (!min_state.ok()) return naming("--webhook-min-state", min_state.status());
  hook->min_state_ = *min_state;
  if (!options.secret_file.empty()) {
    auto secret = read_secret(options.secret_file);
    if (!secret.ok()) return naming("--webhook-secret-file", secret.status());
    hook->sender_options_.secret = *std::move(secret);
  }
  auto left = take_left(history, true, now_ms, hook->sender_options_.limits);
  if (left.ok()) hook->left_ = *std::move(left);
  else spdlog::warn("webhook: what an earlier run did not deliver is not known: {}", std::string(left.status().message()));
  if (history == nullptr && !options.of_cluster) spdlog::warn("webhook: without a history, what waits at the end of the service is lost");
  return hook;
}

// In a cluster: what the reporter tells, and what the node that sent before has not delivered, each once and for each
// incident in order. Of the reporting thread.
class Webhook::Takeover {
 public:
  using Put = std::function<void(webhook::Sender&, const report::Json& verdict)>;
  // `sender`: may end before us, when this node does not lead any more.
  Takeover(std::weak_ptr<webhook::Sender> sender, Put put) : sender_(std::move(sender)), put_(std::move(put)) {}

  void told(const report::Json& verdict) {
    const auto sender = sender_.lock();
    if (sender == nullptr) return;
    const auto [incident, revision] = key(verdict);
    const auto known = put_up_to_.find(incident);
    if (known != put_up_to_.end() && revision <= known->second) return;
    if (!found_)
      put_up_to_[incident] = revision;
    else if (known != put_up_to_.end())
      put_up_to_.erase(known);
    put_(*sender, verdict);
  }
  void found(const history::Undelivered& left) {
    const auto sender = sender_.lock();
    if (sender == nullptr) return;
    if (left.left_out > 0) {
      spdlog::warn("webhook: {} revisions that another node told are too many to be delivered", left.left_out);
      sender->count_dropped(left.left_out);
    }
    const std::map<uint64_t, uint64_t> told = std::exchange(put_up_to_, {});
    for (const report::Json& verdict : left.verdicts) {
      const auto [incident, revision] = key(verdict);
      // A newer one goes already: what is older is no news any more.
      if (told.contains(incident)) continue;
      put_up_to_[incident] = revision;
      put_(*sender, verdict);
    }
    found_ = true;
  }
  bool is_over() const { return sender_.expired(); }

 private:
  static std::pair<uint64_t, uint64_t> key(const report::Json& verdict) {
    return {report::number_of(verdict, "incident"), report::number_of(verdict, "revision")};
  }
  const std::weak_ptr<webhook::Sender> sender_;
  const Put put_;
  bool found_ = false;
  // Until what is left is found: what was told meanwhile. Then: what was left, until a newer one is told.
  std::map<uint64_t, uint64_t> put_up_to_;
};

void Webhook::take_over(Reporter& reporter, const std::shared_ptr<Takeover>& takeover,
                        const webhook::QueueLimits& limits) {
  reporter.look_later([takeover, limits, said = false](history::Database& db) mutable {
    if (takeover->is_over()) return absl::OkStatus();
    const auto left =
        history::undelivered(db, realtime_now_ns() / ns_per_ms - limits.give_up_ms, limits.deliveries_max);
    if (left.ok())
      takeover->found(*left);
    else if (!std::exchange(said, true))
      spdlog::warn("webhook: what another node did not deliver is not known yet: {}",
                   std::string(left.status().message()));
    return left.status();
  });
}

void Webhook::connect(const std::shared_ptr<Reporter>& reporter, HttpApi& http) {
  sender_options_.over = [keeper = std::weak_ptr<Reporter>(reporter)](const webhook::Delivery& d) {
    // An acknowledgement is of a revision that the receiver may not have yet.
    if (d.event != webhook::Event::revised && d.event != webhook::Event::closed) return;
    if (const auto r = keeper.lock(); r != nullptr) {
      r->change_history_later([incident = d.incident, revision = d.revision](history::Database& db) {
        return history::set_delivered(db, incident, revision);
      }, history::delivered_entry(d.incident, d.revision));
    }
  };
  sender_options_.held = [keeper = std::weak_ptr<Reporter>(reporter)](const webhook::Delivery& d, int64_t now_ms) {
    const auto r = keeper.lock();
    return r != nullptr && report::silence_of(d.facts, r->book().silences(now_ms), now_ms) != nullptr;
  };
  sender_ = std::make_shared<webhook::Sender>(std::move(receiver_), sender_options_);
  const auto put_into = [min = min_state_, run = run_](webhook::Sender& sender, const report::Json& verdict) {
    if (webhook::is_told(verdict, min)) sender.put(webhook::revision_delivery(verdict, run));
  };
  const auto put = [put_into, sender = sender_](const report::Json& verdict) { put_into(*sender, verdict); };
  if (left_.left_out > 0) {
    spdlog::warn("webhook: {} revisions of an earlier run are too many to be delivered", left_.left_out);
    sender_->count_dropped(left_.left_out);
  }
  for (const report::Json& verdict : left_.verdicts) put(verdict);
  left_ = {};
  // The reporter goes after us: its book is there when it calls.
  const auto tell = [r = reporter.get()](const report::Json& verdict, const auto& put) {
    report::Json document = verdict;
    document["recording"] = nullptr;  // it is written later
    report::set_acknowledged(document, r->book().acknowledgements());
    put(document);
  };
  if (of_cluster_) {
    const auto takeover = std::make_shared<Takeover>(sender_, put_into);
    reporter->tell(
        [tell, takeover](const report::Json& v) { tell(v, [&](const report::Json& d) { takeover->told(d); }); });
    take_over(*reporter, takeover, sender_options_.limits);
  } else {
    reporter->tell([tell, put](const report::Json& v) { tell(v, put); });
  }
  http.tell_acknowledgements([sender = sender_, min = min_state_, run = run_](const report::Json& verdict, bool withdrawn, int64_t time_ms) {
    if (webhook::is_told(verdict, min)) sender->put(webhook::acknowledgement_delivery(verdict, run, withdrawn, time_ms));
  });
}

}  // namespace ccld::decision::server
