#include "decision/report/text_format.h"

#include <catch2/catch.hpp>

namespace ccld::decision::report {

TEST_CASE("A table that fits is as it would be without a limit") {
  const std::vector<std::vector<std::string>> rows = {{"NAME", "N"}, {"a", "12"}};
  CHECK(fitted_table(rows, {{}, {.right = true}}, 80) == "NAME   N\na     12\n");
  CHECK(fitted_table(rows, {{}, {.right = true}}, 80) == table(rows, {false, true}));
}

TEST_CASE("Columns are shortened first, then left out, and what still does not fit is cut") {
  const std::vector<std::vector<std::string>> rows = {{"ID", "NAME", "DONE"}, {"0123456789", "a name that is long", "1,234"}};
  const std::vector<Column> layout = {{}, {.least = 6}, {.right = true, .leave_out = 1}};
  CHECK(fitted_table(rows, layout, 26) == "ID          NAME      DONE\n0123456789  a nam..  1,234\n");
  CHECK(fitted_table(rows, layout, 20) == "ID          NAME\n0123456789  a name..\n");
  CHECK(fitted_table(rows, layout, 8) == "ID    ..\n012345..\n");
}

TEST_CASE("What is not printable does not reach the terminal") {
  CHECK(printable("a\x1b[2Jb\n\x7f") == "a?[2Jb??");
  CHECK(printable("\xff\xc3\xa9\xc0\x80\xe4\xb8\xad\xc2\x9b") == "?\xc3\xa9??\xe4\xb8\xad?");
  // Too long, half of a pair, beyond the last: JSON and Prometheus take none of these.
  CHECK(printable("\xe0\x80\xaf\xed\xa0\x80\xf4\x90\x80\x80") == "??????????");
  CHECK(width_of("\xc3\xa9") == 1);
  CHECK(width_of("\xe4\xb8\xad") == 2);
}

TEST_CASE("Marks that turn or hide text do not reach the terminal") {
  for (const char* const mark :
       {"\xd8\x9c", "\xe2\x80\x8b", "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xae", "\xe2\x81\xa0", "\xe2\x81\xa9",
        "\xef\xbb\xbf", "\xc2\x80", "\xc2\x9f", "\xc2\xad", "\xe1\xa0\x8e", "\xef\xbf\xb9", "\xef\xbf\xbb",
        "\xf3\xa0\x80\x80", "\xf3\xa0\x81\xbf"})
    CHECK(printable(std::string("a") + mark + "b") == "a?b");
  for (const char* const beside : {"\xc2\xa0", "\xc2\xac", "\xc2\xae", "\xe1\xa0\x8d", "\xe1\xa0\x8f", "\xe2\x80\x90",
                                   "\xe2\x80\xaf", "\xe2\x81\xb0", "\xef\xbf\xb8", "\xef\xbf\xbc", "\xf3\xa0\x82\x80"})
    CHECK(printable(beside) == beside);
}

TEST_CASE("Strings of documents are printable, whatever a job is called") {
  const Json document = {{"job", "a\x1b]0;title\x07" "b"}, {"list", Json::array({"\xc2\x9b"})}};
  CHECK(text_of(document, "job") == "a?]0;title?b");
  CHECK(text_of(document, "list") == "[\"?\"]");
  CHECK(text_of(document, "missing", "-") == "-");
}

TEST_CASE("Shortened text ends with two dots and keeps characters whole") {
  CHECK(shortened("abcdef", 6) == "abcdef");
  CHECK(shortened("abcdef", 5) == "abc..");
  CHECK(shortened("\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad", 5) == "\xe4\xb8\xad..");
  CHECK(shortened("abc", 1) == "a");
}

}  // namespace ccld::decision::report
