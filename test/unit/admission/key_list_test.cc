#include "decision/admission/key_list.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ccld::decision::admission {
namespace {

const std::string one = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
const std::string two = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
const std::string three = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6";

KeyList parsed(const std::string& text) {
  auto list = KeyList::parse(text, "keys");
  REQUIRE(list.ok());
  return *std::move(list);
}

std::string error(const std::string& text) {
  const auto list = KeyList::parse(text, "keys");
  REQUIRE_FALSE(list.ok());
  return std::string(list.status().message());
}

}  // namespace

TEST_CASE("A list has a key a line, of which jobs and hosts it may speak, and comments") {
  const KeyList list = parsed(absl::StrCat("# probes of the cluster\n\n", one, "\n  ", two,
                                           "\tjob=llm job=\"other job\" host=n7  # node7, since May\n", three,
                                           " host=n8\n#", one, " is not in force\n"));
  REQUIRE(list.entries().size() == 3);
  const KeyEntry* any = list.find(one);
  REQUIRE(any != nullptr);
  CHECK_FALSE(any->bound());
  CHECK(may_speak_for_job(*any, "whatever"));
  CHECK(may_speak_for_host(*any, "wherever"));
  const KeyEntry* bound = list.find(two);
  REQUIRE(bound != nullptr);
  CHECK(bound->jobs == std::vector<std::string>{"llm", "other job"});
  CHECK(bound->hosts == std::vector<std::string>{"n7"});
  CHECK(bound->comment == "node7, since May");
  CHECK(may_speak_for_job(*bound, "other job"));
  CHECK_FALSE(may_speak_for_job(*bound, "LLM"));
  CHECK_FALSE(may_speak_for_job(*bound, ""));
  CHECK(may_speak_for_host(*bound, "n7"));
  CHECK_FALSE(may_speak_for_host(*bound, "n70"));
  CHECK(list.find(three) != nullptr);
  CHECK(list.find(one.substr(1)) == nullptr);
  CHECK(list.find("") == nullptr);
}

TEST_CASE("An empty list lets in nobody") {
  for (const char* text : {"", "\n\n", "# nothing yet\n"}) CHECK(parsed(text).entries().empty());
}

TEST_CASE("What is wrong with a list is said with its file and line") {
  CHECK(error(absl::StrCat(one, "\n", one.substr(1), "\n")) ==
        "keys:2: it does not begin with a public key, 40 characters of Z85");
  CHECK(error(absl::StrCat("# a\n", one, " user=me")) == "keys:2: 'user' is not known: job or host is expected");
  CHECK(error(absl::StrCat(one, " llm")) == "keys:1: 'llm' is not name=value");
  CHECK(error(absl::StrCat(one, " =llm")) == "keys:1: '=llm' is not name=value");
  CHECK(error(absl::StrCat(one, " job=")) == "keys:1: job has no value");
  CHECK(error(absl::StrCat(one, " job=\"\"")) == "keys:1: job has no value");
  CHECK(error(absl::StrCat(one, " job=\"llm")) == "keys:1: job: the second \" is missing");
  CHECK(error(absl::StrCat(one, " job=\"llm\"host=n7")) == "keys:1: job: a blank is missing behind the second \"");
  CHECK(error(absl::StrCat(one, "\n", two, "\n", one, " job=llm\n")) == "keys:3: this key was in a line before");
}

TEST_CASE("A key is added and removed without a change to anything else") {
  const std::string before = absl::StrCat("# probes\n", one, " job=llm # kept\n\n# end");
  const auto more = with_key(before, "keys", {two, {"a b"}, {"n7"}, "node7"});
  REQUIRE(more.ok());
  CHECK(*more == absl::StrCat(before, "\n", two, " job=\"a b\" host=n7 # node7\n"));
  CHECK(parsed(*more).find(two)->jobs == std::vector<std::string>{"a b"});
  const auto less = without_key(*more, "keys", two);
  REQUIRE(less.ok());
  CHECK(*less == absl::StrCat(before, "\n"));
  const auto none = without_key(*less, "keys", one);
  REQUIRE(none.ok());
  CHECK(*none == "# probes\n\n# end\n");
}

TEST_CASE("What cannot be in a list is not written into one") {
  CHECK(absl::IsAlreadyExists(with_key(one, "keys", {one, {}, {}, ""}).status()));
  CHECK(absl::IsInvalidArgument(with_key("", "keys", {"no key", {}, {}, ""}).status()));
  CHECK(absl::IsInvalidArgument(with_key("", "keys", {one, {""}, {}, ""}).status()));
  CHECK(absl::IsInvalidArgument(with_key("", "keys", {one, {"a\"b"}, {}, ""}).status()));
  CHECK(absl::IsInvalidArgument(with_key("", "keys", {one, {}, {"a\nb"}, ""}).status()));
  CHECK(absl::IsInvalidArgument(with_key("", "keys", {one, {}, {}, absl::StrCat("x\n", two)}).status()));
  CHECK(absl::IsInvalidArgument(with_key("no list", "keys", {one, {}, {}, ""}).status()));
  CHECK(absl::IsNotFound(without_key(one, "keys", two).status()));
}

}  // namespace ccld::decision::admission
