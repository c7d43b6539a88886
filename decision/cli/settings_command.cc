#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "decision/advise/known_settings.h"
#include "decision/cli/command.h"
#include "decision/report/text_format.h"
#include "decision/settings.h"

namespace ccld::decision {

void add_settings_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("settings", "List every setting of `ccld serve --set` with default, range, meaning and reason");
  command->callback([] {
    constexpr size_t indent = 4;
    std::vector<SettingRow> rows = describe_settings();
    for (SettingRow& row : advise::describe_known_settings()) rows.push_back(std::move(row));
    for (const SettingRow& row : rows) {
      std::printf("%s = %s  (%s)\n%*s%s\n%*s%s\n", std::string(row.name).c_str(), row.default_text.c_str(), row.range_text.c_str(),
                  static_cast<int>(indent), "", report::wrapped(std::string(row.help), indent).c_str(), static_cast<int>(indent), "",
                  report::wrapped(absl::StrCat("because: ", std::string(row.reason)), indent).c_str());
    }
  });
}

}  // namespace ccld::decision
