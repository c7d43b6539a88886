#include "decision/validate/meeting.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "decision/server/descriptor_limit.h"
#include "decision/server/host_port.h"
#include "zmq.hpp"

namespace ccld::decision::validate {
namespace {

using Clock = std::chrono::steady_clock;

// A rank notices itself what hangs, and says so: the coordinator waits that much longer.
constexpr auto grace = std::chrono::seconds(5);
constexpr int linger_ms = 2000;  // the last messages may need a moment
constexpr size_t named_max = 16;
constexpr size_t other_descriptors = 256;                   // NCCL's, CUDA's and ZeroMQ's own
constexpr auto ask_again = std::chrono::milliseconds(100);  // whether it is still wanted

Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

absl::StatusOr<server::HostPort> parsed_address(const std::string& address) {
  auto parsed = server::parse_host_port(address);
  if (parsed.ok() && parsed->port == 0)
    return absl::InvalidArgumentError(absl::StrCat("'", address, "': a port is needed"));
  return parsed;
}

// Where rank 0 is reached. Sockets are bound and connected to addresses, not to names.
absl::StatusOr<std::string> endpoint_of(const std::string& address) {
  const auto parsed = parsed_address(address);
  if (!parsed.ok()) return parsed.status();
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = getaddrinfo(parsed->host.c_str(), nullptr, &hints, &found); error != 0)
    return absl::UnavailableError(absl::StrCat("'", parsed->host, "' is not known: ", gai_strerror(error)));
  char text[NI_MAXHOST] = {};
  // IPv4 first where a name has both: that is what launchers mean.
  const addrinfo* chosen = found;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next)
    if (a->ai_family == AF_INET) {
      chosen = a;
      break;
    }
  getnameinfo(chosen->ai_addr, chosen->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  const bool ipv6 = chosen->ai_family == AF_INET6;
  freeaddrinfo(found);
  return absl::StrCat("tcp://", ipv6 ? "[" : "", text, ipv6 ? "]" : "", ":", parsed->port);
}

bool is_numeric(const std::string& host) {
  in6_addr any{};
  return inet_pton(AF_INET, host.c_str(), &any) == 1 || inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

// Where rank 0 listens. A host's own name may stand for another address there than elsewhere (127.0.1.1 in /etc/hosts,
// an address that is translated on the way): ranks that know it by name reach it at whichever they know.
absl::StatusOr<std::string> endpoint_to_listen(const std::string& address) {
  const auto parsed = parsed_address(address);
  if (!parsed.ok()) return parsed.status();
  if (is_numeric(parsed->host) || parsed->host == "localhost") return endpoint_of(address);
  return absl::StrCat("tcp://*:", parsed->port);
}

void set_limits(zmq::socket_t& socket, const std::string& endpoint) {
  socket.set(zmq::sockopt::linger, linger_ms);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<int64_t>(message_bytes_max));
  socket.set(zmq::sockopt::sndhwm, 0);
  if (endpoint.find("tcp://[") == 0 || endpoint.find("tcp://*") == 0) socket.set(zmq::sockopt::ipv6, 1);
}

absl::string_view view(const zmq::message_t& m) { return {m.data<char>(), m.size()}; }

std::string named(const std::vector<int>& ranks) {
  std::vector<std::string> texts;
  for (const int rank : ranks) {
    if (texts.size() == named_max) {
      texts.push_back(absl::StrCat("and ", ranks.size() - named_max, " more"));
      break;
    }
    texts.push_back(absl::StrCat(rank));
  }
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(texts, ", "));
}

}  // namespace

struct Meeting::State {
  zmq::context_t context;
  zmq::socket_t socket{context, zmq::socket_type::router};
  std::string address;
  int ranks = 0;
  double timeout_s = 0;
  std::vector<Member> members;
  std::vector<std::string> routes;  // by rank; empty: it has not come

  // The next message, from whomever; false: the time is over.
  bool receive(Clock::time_point end, std::string& route, zmq::message_t& message) {
    zmq::pollitem_t item{socket.handle(), 0, ZMQ_POLLIN, 0};
    while (zmq::poll(&item, 1, std::chrono::milliseconds(milliseconds_until(end))) > 0) {
      zmq::message_t from;
      if (!socket.recv(from, zmq::recv_flags::dontwait)) continue;
      route.assign(from.data<char>(), from.size());
      int parts = 0;
      while (socket.get(zmq::sockopt::rcvmore)) {
        if (!socket.recv(message)) break;
        ++parts;
      }
      if (parts == 1) return true;
      if (Clock::now() >= end) return false;
    }
    return false;
  }

  // All get the same bytes: a step may have a megabyte, and ranks are many.
  void send(const std::string& route, zmq::message_t& content) {
    zmq::message_t shared;
    shared.copy(content);
    socket.send(zmq::buffer(route), zmq::send_flags::sndmore);
    socket.send(shared, zmq::send_flags::none);
  }
};

Meeting::Meeting(std::unique_ptr<State> state) : state_(std::move(state)) {}
Meeting::~Meeting() = default;

absl::StatusOr<std::unique_ptr<Meeting>> Meeting::open(const std::string& address, int ranks, double timeout_s) {
  const auto endpoint = endpoint_to_listen(address);
  if (!endpoint.ok()) return endpoint.status();
  const size_t needed = static_cast<size_t>(ranks) + other_descriptors;
  if (const size_t allowed = server::raise_descriptor_limit(needed); allowed < needed)
    return absl::ResourceExhaustedError(
        absl::StrCat(ranks, " ranks connect, and this process may have ", allowed, " files (ulimit -n)"));
  auto state = std::make_unique<State>();
  state->address = address;
  state->ranks = ranks;
  state->timeout_s = timeout_s;
  state->routes.resize(static_cast<size_t>(ranks));
  state->members.resize(static_cast<size_t>(ranks));
  set_limits(state->socket, *endpoint);
  try {
    state->socket.bind(*endpoint);
  } catch (const zmq::error_t& e) {
    return absl::UnavailableError(absl::StrCat("cannot listen at ", address, ": ", e.what()));
  }
  return std::unique_ptr<Meeting>(new Meeting(std::move(state)));
}

absl::Status Meeting::wait_for_all(const std::string& program) {
  State& s = *state_;
  const auto end = Clock::now() + seconds(s.timeout_s);
  std::string route;
  zmq::message_t message;
  for (int came = 0; came < s.ranks;) {
    if (!s.receive(end, route, message)) {
      std::vector<int> missing;
      for (int r = 0; r < s.ranks; ++r)
        if (s.routes[static_cast<size_t>(r)].empty()) missing.push_back(r);
      return absl::DeadlineExceededError(
          absl::StrCat(named(missing), " of ", s.ranks, " did not come to ", s.address, " within ", s.timeout_s, " s"));
    }
    const auto hello = parse_hello(view(message));
    if (!hello.ok()) continue;
    const Member& m = hello->member;
    if (hello->program != program)
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", m.rank, " on ", m.host, " is ", hello->program, ", rank 0 is ", program));
    if (hello->ranks != s.ranks)
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", m.rank, " on ", m.host, " expects ", hello->ranks, " ranks, rank 0 ", s.ranks));
    std::string& known = s.routes[static_cast<size_t>(m.rank)];
    if (!known.empty())
      return absl::FailedPreconditionError(absl::StrCat(
          "two processes say that they are rank ", m.rank, ": ", m.pid, " on ", m.host, " and ",
          s.members[static_cast<size_t>(m.rank)].pid, " on ", s.members[static_cast<size_t>(m.rank)].host));
    known = route;
    s.members[static_cast<size_t>(m.rank)] = m;
    ++came;
  }
  return absl::OkStatus();
}

const std::vector<Member>& Meeting::members() const { return state_->members; }

void Meeting::set_timeout(double timeout_s) { state_->timeout_s = timeout_s; }

Answers Meeting::perform(const Step& step) {
  State& s = *state_;
  zmq::message_t content(to_text(step));
  for (const std::string& route : s.routes)
    if (!route.empty()) s.send(route, content);
  Answers out;
  if (step.kind == StepKind::end) return out;
  std::map<int, Answer> got;
  const auto end = Clock::now() + seconds(s.timeout_s) + grace;
  std::string route;
  zmq::message_t message;
  while (got.size() < static_cast<size_t>(s.ranks) && s.receive(end, route, message)) {
    auto answer = parse_answer(view(message), s.ranks);
    if (answer.ok() && s.routes[static_cast<size_t>(answer->rank)] == route) got[answer->rank] = *std::move(answer);
  }
  for (int r = 0; r < s.ranks; ++r) {
    if (const auto found = got.find(r); found != got.end())
      out.all.push_back(std::move(found->second));
    else
      out.missing.push_back(r);
  }
  return out;
}

double left_alone_s(double timeout_s) { return timeout_s + 3 * std::chrono::duration<double>(grace).count(); }

struct Attendance::State {
  zmq::context_t context;
  zmq::socket_t socket{context, zmq::socket_type::dealer};
  std::string address;
  int ranks = 0;
  double timeout_s = 0;
};

Attendance::Attendance(std::unique_ptr<State> state) : state_(std::move(state)) {}
Attendance::~Attendance() = default;

absl::StatusOr<std::unique_ptr<Attendance>> Attendance::open(const std::string& address, const Hello& hello,
                                                             double timeout_s) {
  const auto endpoint = endpoint_of(address);
  if (!endpoint.ok()) return endpoint.status();
  auto state = std::make_unique<State>();
  state->address = address;
  state->ranks = hello.ranks;
  state->timeout_s = timeout_s;
  set_limits(state->socket, *endpoint);
  try {
    state->socket.connect(*endpoint);  // again and again, until somebody listens
    state->socket.send(zmq::buffer(to_text(hello)), zmq::send_flags::none);
  } catch (const zmq::error_t& e) {
    return absl::UnavailableError(absl::StrCat("cannot connect to ", address, ": ", e.what()));
  }
  return std::unique_ptr<Attendance>(new Attendance(std::move(state)));
}

absl::StatusOr<Step> Attendance::next(const std::function<bool()>& wanted) {
  State& s = *state_;
  const auto end = Clock::now() + seconds(s.timeout_s) + 2 * grace;
  zmq::pollitem_t item{s.socket.handle(), 0, ZMQ_POLLIN, 0};
  for (;;) {
    const auto until = wanted ? std::min<Clock::time_point>(end, Clock::now() + ask_again) : end;
    if (zmq::poll(&item, 1, std::chrono::milliseconds(milliseconds_until(until))) > 0) break;
    if (wanted && !wanted()) return absl::CancelledError("it is not wanted any more");
    if (Clock::now() >= end) return absl::DeadlineExceededError(absl::StrCat("rank 0 says nothing at ", s.address));
  }
  zmq::message_t message;
  if (!s.socket.recv(message)) return absl::UnavailableError("the connection to rank 0 is broken");
  return parse_step(view(message), s.ranks);
}

void Attendance::answer(const Answer& answer) {
  state_->socket.send(zmq::buffer(to_text(answer)), zmq::send_flags::none);
}

}  // namespace ccld::decision::validate
