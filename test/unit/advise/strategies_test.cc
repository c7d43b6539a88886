#include "decision/advise/strategies.h"

#include <catch2/catch.hpp>

#include "decision/advise/compute_model.h"
#include "decision/advise/known_settings.h"

namespace ccld::decision::advise {
namespace {

constexpr double s = 1e9, ms = 1e6;

Suspect suspect(Fault fault, std::optional<uint64_t> process, std::string host, double share = 1) {
  Suspect out;
  out.fault = fault;
  out.process = process;
  out.host = std::move(host);
  out.share = share;
  return out;
}

Facts slow(double now, double without, std::vector<Suspect> suspects) {
  Facts f;
  f.confirmed = true;
  f.confirmed_after = 5 * s;
  f.of_iteration = true;
  f.now = now;
  f.without = without;
  f.suspects = std::move(suspects);
  return f;
}

Facts hang(std::vector<Suspect> suspects) {
  Facts f;
  f.kind = Facts::Kind::hang;
  f.goes_on = false;
  f.confirmed = true;
  f.confirmed_after = 10 * s;
  f.suspects = std::move(suspects);
  return f;
}

Known known(uint64_t tp, uint64_t pp, uint64_t dp, uint64_t micro_batches, double part = 0) {
  Known k;
  k.layout = {tp, pp, dp, 0, "tp-dp-pp"};
  k.micro_batches = micro_batches;
  k.micro_batch_part = part;
  return k;
}

const Strategy& of(const Advice& advice, Action action) {
  for (const Strategy& o : advice.strategies)
    if (o.action == action) return o;
  throw std::logic_error("no such action");
}

// The last in the order of costs that pays `elapsed` after the onset. nullptr: none but waiting.
const Strategy* due_now(const Advice& advice, double elapsed) {
  const Strategy* due = nullptr;
  for (const Strategy& o : advice.strategies)
    if (o.action != Action::wait && o.possible() && o.due_after.has_value() && *o.due_after <= elapsed) due = &o;
  return due;
}

}  // namespace

TEST_CASE(
    "A replica of half the speed gets half the micro-batches of the other, and the time of an iteration follows") {
  // Two replicas with 12 each; one takes 20 ms for each, the other 10.
  const Facts f = slow(240 * ms, 120 * ms, {suspect(Fault::compute, 1, "node1")});
  const Strategy m = of(advise(f, known(1, 1, 2, 24, 1)), Action::micro_batches);
  REQUIRE(m.possible());
  REQUIRE(m.shares.size() == 2);
  CHECK(m.shares[0].count == 16);
  CHECK(m.shares[0].replicas == std::vector<uint64_t>{0});
  CHECK(m.shares[1].count == 8);
  CHECK(m.shares[1].replicas == std::vector<uint64_t>{1});
  CHECK(m.equal_share == 12);
  CHECK(m.time->expected == Approx(160 * ms));
  CHECK(m.time->low == Approx(160 * ms * (1 - model_error)));
  CHECK(m.time->high == Approx(160 * ms * (1 + model_error)));
}

TEST_CASE("Where nobody knows what part micro-batches take, the interval covers every part") {
  const Facts f = slow(240 * ms, 120 * ms, {suspect(Fault::compute, 1, "node1")});
  const Strategy any = of(advise(f, known(1, 1, 2, 24)), Action::micro_batches);
  const std::vector<uint64_t> counts = {any.shares[0].count, any.shares[1].count};
  const Troubles troubles = troubles_of(f, known(1, 1, 2, 24).layout, 12);
  for (const double rest : {0.0, 0.1, 0.2, 0.5, 0.8, 0.99}) {
    const double time = longest(replicas_of({1, 2}, troubles.cells, 12, f.without, rest * f.without), counts);
    INFO(rest);
    CHECK(time >= any.time->low);
    CHECK(time <= any.time->high);
  }
  CHECK(any.time->high <= f.now);
}

TEST_CASE("A pipeline's slow stage slows its replica, whichever stage it is") {
  const Facts f = slow(200 * ms, 110 * ms, {suspect(Fault::compute, 2, "node1")});  // stage 1 of replica 0
  const Strategy m = of(advise(f, known(1, 2, 2, 20, 1)), Action::micro_batches);
  REQUIRE(m.possible());
  CHECK(m.shares.back().replicas == std::vector<uint64_t>{0});
  CHECK(m.time->expected < f.now);
  CHECK(m.time->expected > f.without);
}

TEST_CASE("What is not known is said, and nothing is predicted from it") {
  const Facts f = slow(240 * ms, 120 * ms, {suspect(Fault::compute, 1, "node1")});
  const auto why = [&](const Facts& facts, const Known& k, Action a) { return of(advise(facts, k), a).why_not; };
  CHECK(why(f, {}, Action::micro_batches).find("layout not known") == 0);
  CHECK(why(f, {}, Action::placement).find("layout not known") == 0);
  CHECK(why(f, known(1, 1, 2, 0), Action::micro_batches).find("number of micro-batches not known") == 0);
  CHECK(why(f, known(2, 1, 1, 24), Action::micro_batches) == "there is one replica only");
  Facts unnumbered = f;
  unnumbered.suspects[0].process.reset();
  CHECK(why(unnumbered, known(1, 1, 2, 24), Action::micro_batches).find("numbers the processes") != std::string::npos);
  Facts nobody = f;
  nobody.suspects.clear();
  for (const Action a : {Action::micro_batches, Action::placement, Action::restart})
    CHECK(why(nobody, known(1, 1, 2, 24), a).find("nobody is singled out") == 0);
  Facts window = f;
  window.of_iteration = false;
  CHECK(why(window, known(1, 1, 2, 24), Action::micro_batches) == "time of an iteration not known");
  CHECK(why(f, known(1, 1, 1, 0), Action::placement) != "");
}

TEST_CASE("A layout with fewer processes than the job says so") {
  const Facts f = slow(240 * ms, 120 * ms, {suspect(Fault::compute, 9, "node1")});
  CHECK(of(advise(f, known(1, 1, 2, 24)), Action::micro_batches).why_not.find("layout does not fit") == 0);
}

TEST_CASE("A slow link between replicas is moved to where nothing is sent; micro-batches do not help it") {
  Suspect link = suspect(Fault::link, 0, "node0");
  link.peer_process = 1;
  link.peer_host = "node1";
  const Facts f = slow(200 * ms, 100 * ms, {link});
  const Advice advice = advise(f, known(1, 2, 2, 0));
  const Strategy p = of(advice, Action::placement);
  REQUIRE(p.possible());
  CHECK(p.exchanges.size() == 1);
  CHECK(p.time->expected == Approx(100 * ms));
  CHECK(p.only_if != "");
  CHECK(of(advice, Action::micro_batches).why_not == "no slow GPU or host is the cause");
  const Strategy r = of(advice, Action::restart);
  CHECK(r.hosts == std::vector<std::string>{"node0", "node1"});
  CHECK(r.either_host);
}

TEST_CASE("Without a pipeline no placement relieves a slow link") {
  Suspect link = suspect(Fault::link, 0, "node0");
  link.peer_process = 1;
  CHECK_FALSE(of(advise(slow(200 * ms, 100 * ms, {link}), known(1, 1, 4, 0)), Action::placement).possible());
}

TEST_CASE("A slow link that the layout does not use is not moved, and that is said") {
  Suspect link = suspect(Fault::link, 1, "node0");  // stage 0 of replica 1 to stage 1 of replica 0
  link.peer_process = 2;
  const Strategy p = of(advise(slow(200 * ms, 100 * ms, {link}), known(1, 2, 2, 0)), Action::placement);
  CHECK(p.why_not.find("send each other nothing") != std::string::npos);
}

TEST_CASE("Exchanged processes are those of the layout's order") {
  // Stages 0 and 2 of replica 0, both slow, in a grid of 4 stages and 2 replicas of tensor groups of two.
  for (const std::string& order : {std::string("tp-dp-pp"), std::string("tp-pp-dp")}) {
    Known k = known(2, 4, 2, 16);
    k.layout.order = order;
    const uint64_t stage_two = order == "tp-dp-pp" ? 2 * 2 * 2 : 2 * 2;
    const Facts f =
        slow(200 * ms, 100 * ms, {suspect(Fault::compute, 0, "a", 0.5), suspect(Fault::compute, stage_two, "b", 0.5)});
    const Strategy p = of(advise(f, k), Action::placement);
    INFO(order);
    REQUIRE(p.possible());
    REQUIRE(p.exchanges.size() == 1);
    const auto [a, b] = p.exchanges[0];
    CHECK((a == 0 || a == stage_two));
    CHECK(place_of(k.layout, b).data == 1);
    CHECK(place_of(k.layout, b).tensor == 0);
    CHECK(p.time->expected < f.now);
  }
}

TEST_CASE("A restart without the slow host takes what the job would take without it, and pays when as much is lost") {
  const Facts f = slow(200 * ms, 150 * ms, {suspect(Fault::compute, 3, "node3")});
  const Advice advice = advise(f, {});
  CHECK(advice.loss_share == Approx(0.25));
  const Strategy r = of(advice, Action::restart);
  CHECK(r.hosts == std::vector<std::string>{"node3"});
  CHECK(r.time->expected == Approx(150 * ms));
  CHECK(r.cost == Approx(900 * s));
  CHECK(*r.due_after == Approx(3600 * s));
  CHECK(due_now(advice, 3599 * s) == nullptr);
  CHECK(due_now(advice, 3601 * s)->action == Action::restart);
}

TEST_CASE("A restart's interval reaches to what iterations took before, be it less or more than the model promises") {
  Facts f = slow(200 * ms, 150 * ms, {suspect(Fault::compute, 3, "node3")});
  f.usual = 100 * ms;
  const Strategy r = of(advise(f, {}), Action::restart);
  CHECK(r.time->expected == Approx(150 * ms));
  CHECK(r.time->low == Approx(100 * ms * (1 - model_error)));
  f.usual = 170 * ms;
  CHECK(of(advise(f, {}), Action::restart).time->high == Approx(170 * ms * (1 + model_error)));
}

TEST_CASE("Costs that the operator set decide the order and when to act") {
  Known k = known(1, 1, 2, 24, 1);
  REQUIRE(parse_known_setting(k, "advise_restart_cost_s=1").ok());
  REQUIRE(parse_known_setting(k, "advise_checkpoint_cost_s=0").ok());
  const Facts f = slow(200 * ms, 100 * ms, {suspect(Fault::compute, 1, "node1")});
  const Advice advice = advise(f, k);
  CHECK(advice.strategies[1].action == Action::restart);
  CHECK(*advice.strategies[1].due_after == Approx(5 * s));  // not before it is confirmed
}

TEST_CASE("Nobody acts on a suspicion") {
  Facts f = slow(200 * ms, 100 * ms, {suspect(Fault::compute, 1, "node1")});
  f.confirmed = false;
  const Advice advice = advise(f, known(1, 1, 2, 24, 1));
  CHECK(due_now(advice, 1e6 * s) == nullptr);
}

TEST_CASE("A hang does not end by waiting: restart without the hardware that stopped, as soon as that is sure") {
  const Advice advice = advise(hang({suspect(Fault::machine, 3, "node3")}), {});
  CHECK(advice.loss_share == 1);
  CHECK_FALSE(of(advice, Action::wait).possible());
  CHECK_FALSE(of(advice, Action::micro_batches).possible());
  CHECK_FALSE(of(advice, Action::placement).possible());
  const Strategy r = of(advice, Action::restart);
  CHECK(r.hosts == std::vector<std::string>{"node3"});
  CHECK(*r.due_after == Approx(10 * s));
  CHECK(r.cost == Approx(600 * s));  // a hung job makes no checkpoint
  CHECK(r.cost_is_least);
  CHECK_FALSE(r.time.has_value());
}

TEST_CASE("Hosts of stopped processes stay, for nothing accuses them") {
  const Strategy r = of(advise(hang({suspect(Fault::process, 2, "node2")}), {}), Action::restart);
  CHECK(r.possible());
  CHECK(r.hosts.empty());
}

TEST_CASE("A program that makes other calls fails on other hosts, too") {
  const Strategy r = of(advise(hang({suspect(Fault::program, 2, "node2")}), {}), Action::restart);
  CHECK(r.hosts.empty());
  CHECK(r.only_if.find("program") != std::string::npos);
}

TEST_CASE("Settings of advice are checked and named") {
  Known k;
  CHECK(parse_known_setting(k, "advise_micro_batches=64").ok());
  CHECK(k.micro_batches == 64);
  CHECK(changed_known_settings(k) == std::vector<std::pair<std::string, std::string>>{{"advise_micro_batches", "64"}});
  for (const char* wrong : {"advise_micro_batches=1.5", "advise_restart_cost_s=-1", "advise_micro_batch_part=2",
                            "advise_restart_cost_s=x", "advise_x=1", "advise_restart_cost_s"}) {
    INFO(wrong);
    const absl::Status status = parse_known_setting(k, wrong);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(status.message()).find(std::string(wrong).substr(0, std::string(wrong).find('='))) !=
          std::string::npos);
  }
  for (const SettingRow& row : describe_known_settings()) {
    Known defaults;
    CHECK(parse_known_setting(defaults, std::string(row.name) + "=" + row.default_text).ok());
    CHECK(changed_known_settings(defaults).empty());
  }
}

}  // namespace ccld::decision::advise
