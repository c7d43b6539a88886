#include "decision/cluster/member.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "decision/report/bounded_json.h"
#include "decision/report/text_format.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::cluster {
namespace {

using report::Json;

constexpr std::chrono::milliseconds look_period(100);
constexpr Nanoseconds tell_every_ns = 1 * ns_per_s;
constexpr Nanoseconds node_gone_ns = 10 * ns_per_s;
constexpr size_t nodes_max = 64;  // each analyses everything: more are a mistake
// Entries that are applied with one commit.
constexpr size_t applied_at_a_time = 500;
constexpr std::chrono::milliseconds append_again(100);
// Who follows asks its history now and then where it is: somebody may have put another one in its place.
constexpr Nanoseconds position_trusted_ns = 10 * ns_per_s;

absl::Span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

Member::Member(Bus& bus, MemberOptions options, Keeper keeper)
    : bus_(bus),
      options_(std::move(options)),
      keeper_(std::move(keeper)),
      holder_(options_.node + " " + options_.run),
      lease_(options_.lease) {}

Member::~Member() { stop(); }

absl::Status Member::listen() {
  return bus_.listen("nodes", [this](const std::string&, absl::Span<const uint8_t> bytes) { heard(bytes); });
}

void Member::start() {
  thread_ = std::thread([this] { run(); });
}

void Member::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Member::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    look();
    lock.lock();
    wake_.wait_for(lock, look_period, [this] { return stop_; });
  }
  const uint64_t held = lease_.revision();
  leads_ = false;
  lease_.lost();
  lock.unlock();
  if (held != 0) bus_.give_lease_back(held).IgnoreError();
}

void Member::look() {
  bus_.mend();
  say_connection();
  tell_others(options_.clock_ns());
  const bool held_up = keeper_.held_up_ns() >= options_.held_up_max_ns;
  if (held_up && leads()) give_way("its disk or the reader of its verdicts hangs", 0);
  if (hands_over()) give_way("the servers refuse its entries of the log", options_.rest_ns);
  const bool caught_up = leads() || (!held_up && bus_.connected() && follow_log());
  look_at_lease(options_.clock_ns(), caught_up);
}

void Member::give_way(const char* why, Nanoseconds rest_ns) {
  uint64_t held = 0;
  {
    const std::lock_guard lock(mutex_);
    held = lease_.revision();
    lease_.lost();
    lease_.tried(options_.clock_ns());
    lease_.rest_until(options_.clock_ns() + rest_ns);
  }
  follow(why);
  if (held != 0) bus_.give_lease_back(held).IgnoreError();
}

bool Member::hands_over() {
  const std::lock_guard lock(mutex_);
  return std::exchange(hands_over_, false);
}

bool Member::follow_log() {
  const absl::Status s = catch_up();
  const std::string what(s.message());
  if (!s.ok() && what != said_log_) spdlog::warn("cluster: {}", what);
  said_log_ = what;
  return s.ok();
}

void Member::say_connection() {
  const bool lost = !bus_.connected();
  if (lost == std::exchange(said_lost_, lost)) return;
  if (lost)
    spdlog::warn(
        "cluster: no NATS server is reached: this node sees what is sent to it alone, and tells nobody of incidents "
        "until one is");
  else
    spdlog::warn("cluster: a NATS server is reached");
}

// Who has not applied the log does not try to lead: meanwhile the lease would end.
void Member::look_at_lease(Nanoseconds now_ns, bool caught_up) {
  LeaseWatch::Step step{};
  uint64_t revision = 0;
  {
    const std::lock_guard lock(mutex_);
    step = lease_.next(now_ns);
    revision = lease_.revision();
    if (step == LeaseWatch::Step::take && !caught_up) step = LeaseWatch::Step::none;
    if (step == LeaseWatch::Step::take) lease_.tried(now_ns);
  }
  if (step != LeaseWatch::Step::none) {
    const auto got = ask_for_lease(step, revision);
    const std::lock_guard lock(mutex_);
    // The answer may come when the lease was over. Who reported meanwhile heard that this node does not lead.
    end_with_lease();
    if (got.ok())
      lease_.taken(now_ns, *got);
    else if (absl::IsAborted(got.status()))
      lease_.lost();
  }
  {
    const std::lock_guard lock(mutex_);
    if (end_with_lease()) return lease_.lost();
  }
  // What the analysis reports before it has heard that it does not lead any more has old numbers.
  if (leads() || turn_waits()) return;
  const absl::Status s = begin_to_lead();
  say_not_leading(s);
  // Not for want of a server: another node may be able to.
  if (absl::IsFailedPrecondition(s) || absl::IsOutOfRange(s)) give_way("", options_.rest_ns);
}

void Member::say_not_leading(const absl::Status& s) {
  const std::string what(s.message());
  if (what == std::exchange(said_not_leading_, what) || s.ok()) return;
  if (absl::IsFailedPrecondition(s))
    spdlog::warn("cluster: this node cannot lead and leaves that to another one, for {} s each time: {}",
                 options_.rest_ns / ns_per_s, what);
  else
    spdlog::warn("cluster: this node has the lease and cannot lead yet: {}", what);
}

absl::StatusOr<uint64_t> Member::ask_for_lease(LeaseWatch::Step step, uint64_t revision) {
  const auto got = step == LeaseWatch::Step::take ? bus_.take_lease(holder_) : bus_.renew_lease(holder_, revision);
  if (!absl::IsAborted(got.status())) return got;
  // This node's own, of which the answer was lost?
  const auto now = bus_.lease();
  if (now.ok() && now->has_value() && (*now)->holder == holder_) return bus_.renew_lease(holder_, (*now)->revision);
  return got;
}

absl::Status Member::begin_to_lead() {
  // Before it says so: what keeps it from leading shall not fill the log.
  auto found = standing_with_log();
  // Its database was replaced meanwhile: the log is applied to that one.
  if (absl::IsAborted(found.status())) found = standing_with_log();
  if (absl::IsAborted(found.status())) return absl::FailedPreconditionError(found.status().message());
  if (!found.ok()) return found.status();
  history::Standing& standing = *found;
  {
    const std::lock_guard lock(mutex_);
    if (!lease_.held(options_.clock_ns()))
      return absl::UnavailableError("its history took longer than the lease lasts");
    standing.last_id = std::max(standing.last_id, last_id_heard_);
  }
  const Json leads = history::leads_entry(options_.node, options_.run, standing.last_id);
  const auto appended = bus_.append(leads.dump(), standing.log.entry);
  if (!appended.ok()) {
    const std::lock_guard lock(mutex_);
    // As long as it is not for long, it may be that the servers choose who of them leads.
    if (absl::IsFailedPrecondition(appended.status()) && !refused_for_long(appended.status()))
      return absl::UnavailableError(appended.status().message());
    return appended.status();
  }
  keeper_.wrote(leads, {standing.log.made_ns, *appended});
  const std::lock_guard lock(mutex_);
  applied_ = last_ = *appended;
  led_last_id_ = standing.last_id;
  refusal_.clear(), refused_since_.reset();
  leads_ = true;
  spdlog::warn("cluster: this node leads; {} incidents are open", standing.open.size());
  turn_ = Turn{true, std::move(standing)};
  return absl::OkStatus();
}

// Aborted: the history has not all of the log.
absl::StatusOr<history::Standing> Member::standing_with_log() {
  if (absl::Status s = catch_up(); !s.ok()) return s;
  auto standing = keeper_.standing();
  if (!standing.ok()) return of_history(standing.status());
  const std::lock_guard lock(mutex_);
  position_.reset();
  if (standing->log != history::LogPosition{log_made_ns_, last_})
    return absl::AbortedError("its history has not all of the log");
  return standing;
}

// An error of this node's history: another node may have a better one.
absl::Status Member::of_history(const absl::Status& s) {
  const std::lock_guard lock(mutex_);
  position_.reset();
  return absl::IsAborted(s) ? s : absl::FailedPreconditionError(s.message());
}

absl::StatusOr<history::LogPosition> Member::position() {
  {
    const std::lock_guard lock(mutex_);
    if (position_.has_value() && options_.clock_ns() - position_asked_ns_ < position_trusted_ns) return *position_;
  }
  const auto now = keeper_.position();
  if (!now.ok()) return of_history(now.status());
  const std::lock_guard lock(mutex_);
  position_ = *now;
  position_asked_ns_ = options_.clock_ns();
  return *now;
}

absl::Status Member::catch_up() {
  const auto range = bus_.log();
  if (!range.ok()) return range.status();
  const auto asked = position();
  if (!asked.ok()) return asked.status();
  history::LogPosition at = *asked;
  const history::LogPosition newest{range->made_ns, range->last};
  // Else it is another log, or one that has lost entries: whoever had it has lost it.
  const bool same = at.made_ns == newest.made_ns && at.entry <= newest.entry;
  uint64_t next = std::max(same ? at.entry + 1 : 1, range->first);
  {
    const std::lock_guard lock(mutex_);
    log_made_ns_ = newest.made_ns;
    last_ = newest.entry;
    applied_ = same ? at.entry : 0;
  }
  while (at != newest) {
    std::vector<Json> entries;
    for (; next <= newest.entry && entries.size() < applied_at_a_time; ++next) {
      const auto text = bus_.read(next);
      if (absl::IsNotFound(text.status())) continue;
      if (!text.ok()) return text.status();
      auto entry = report::parse_bounded(*text);
      // Who applies it says that it is none, and goes on: it stays in the log of all.
      entries.push_back(entry.ok() ? *std::move(entry) : Json(Json::value_t::discarded));
    }
    const history::LogPosition through{newest.made_ns, std::min(next - 1, newest.entry)};
    if (absl::Status s = keeper_.apply(std::move(entries), at, through); !s.ok()) return of_history(s);
    at = through;
    const std::lock_guard lock(mutex_);
    position_ = at;
    applied_ = at.entry;
    refusal_.clear();  // the servers take entries of some node
    if (stop_ && at != newest) return absl::UnavailableError("the service is ending");
  }
  return absl::OkStatus();
}

bool Member::end_with_lease() {
  const bool over = !lease_.held(options_.clock_ns());
  if (over) stop_leading("its lease is over");
  return over;
}

void Member::follow(const char* why) {
  const std::lock_guard lock(mutex_);
  stop_leading(why);
}

void Member::stop_leading(const char* why) {
  if (!std::exchange(leads_, false)) return;
  spdlog::warn("cluster: this node does not lead any more: {}", why);
  turn_ = Turn{};
  refused_since_.reset();
}

std::optional<Member::Turn> Member::take_turn() {
  const std::lock_guard lock(mutex_);
  return std::exchange(turn_, std::nullopt);
}

bool Member::leads() const {
  const std::lock_guard lock(mutex_);
  return leads_now();
}

// The bus may hold up the thread that is to find that the lease is over.
bool Member::leads_now() const { return leads_ && lease_.held(options_.clock_ns()); }

bool Member::turn_waits() const {
  const std::lock_guard lock(mutex_);
  return turn_.has_value();
}

absl::StatusOr<history::LogPosition> Member::keep(const Json& entry) {
  const std::lock_guard one(appending_);
  const std::string text = entry.dump();
  for (;;) {
    history::LogPosition newest;
    {
      const std::lock_guard lock(mutex_);
      if (!leads_now() || stop_) return absl::UnavailableError("this node does not lead");
      newest = {log_made_ns_, last_};
    }
    auto appended = bus_.append(text, newest.entry);
    if (absl::IsOutOfRange(appended.status())) return appended.status();
    if (absl::IsAborted(appended.status())) {
      // Ours, of which the answer was lost?
      const auto next = bus_.read(newest.entry + 1);
      if (next.ok() && *next == text) {
        appended = newest.entry + 1;
      } else if (next.ok() || absl::IsNotFound(next.status())) {
        follow("another node has written to the log");
        return appended.status();
      }
    }
    std::unique_lock lock(mutex_);
    if (appended.ok()) {
      applied_ = last_ = *appended;
      refusal_.clear(), refused_since_.reset();
      return history::LogPosition{newest.made_ns, *appended};
    }
    if (refused_for_long(appended.status())) {
      stop_leading("the servers refuse its entries of the log");
      hands_over_ = true;
      return appended.status();
    }
    wake_.wait_for(lock, append_again, [this] { return stop_; });
  }
}

bool Member::refused_for_long(const absl::Status& append) {
  if (!absl::IsFailedPrecondition(append)) {
    refused_since_.reset();
    return false;
  }
  const std::string what(append.message());
  if (what != refusal_)
    spdlog::error("cluster: the servers are reached and refuse an entry of the log; nobody is told of incidents: {}",
                  what);
  refusal_ = what;
  const Nanoseconds now_ns = options_.clock_ns();
  if (!refused_since_.has_value()) refused_since_ = now_ns;
  return now_ns - *refused_since_ >= options_.refused_max_ns;
}

void Member::tell_others(Nanoseconds now_ns) {
  if (now_ns - told_ns_ < tell_every_ns) return;
  told_ns_ = now_ns;
  Json about = options_.about;
  about["node"] = options_.node;
  about["leads"] = leads() && !turn_waits();  // others send questions to it
  about["last_id"] = keeper_.last_id();       // whoever leads next goes on after it
  bus_.send("nodes", bytes_of(about.dump())).IgnoreError();
  const std::lock_guard lock(mutex_);
  // Else what it finds would take the numbers, and with them the places, of incidents that only that node has. A node
  // may have heard of a number from the log before this one has: not at once.
  if (leads_now() && heard_before_ > std::max(led_last_id_, about["last_id"].get<uint64_t>()))
    stop_leading("another node has incidents of higher numbers; it goes on after them");
  heard_before_ = last_id_heard_;
  nodes_[options_.node] = {options_.node, std::move(about), now_ns, leads_now()};
  std::erase_if(nodes_, [&](const auto& n) { return now_ns - n.second.heard_ns > node_gone_ns; });
}

void Member::heard(absl::Span<const uint8_t> bytes) {
  auto about = report::parse_bounded({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!about.ok()) return;
  const Json& name = report::member(*about, "node");
  const Json& leads = report::member(*about, "leads");
  if (!name.is_string() || !leads.is_boolean()) return;
  const Json& last_id = report::member(*about, "last_id");
  const uint64_t highest = last_id.is_number_unsigned() ? last_id.get<uint64_t>() : 0;
  Node node{name.get<std::string>(), {}, options_.clock_ns(), leads.get<bool>()};
  node.about = *std::move(about);
  const std::lock_guard lock(mutex_);
  if (highest < told_ids_end) last_id_heard_ = std::max(last_id_heard_, highest);
  if (nodes_.size() < nodes_max || nodes_.contains(node.name)) nodes_[node.name] = std::move(node);
}

Member::View Member::view() const {
  View v;
  v.connected = bus_.connected();
  const std::lock_guard lock(mutex_);
  v.leads = leads_now();
  v.reports = v.leads && !turn_.has_value();
  v.log_applied = applied_;
  v.log_last = last_;
  v.log_error = refusal_;
  Nanoseconds newest_ns = INT64_MIN;
  for (const auto& [name, node] : nodes_) {
    v.nodes.push_back(node);
    // Of two the one that said so last.
    if (name != options_.node && node.leads && node.heard_ns > newest_ns) v.leader = name, newest_ns = node.heard_ns;
  }
  if (v.leads) v.leader = options_.node;
  return v;
}

}  // namespace ccld::decision::cluster
