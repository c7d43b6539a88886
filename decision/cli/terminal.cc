#include "decision/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/numbers.h"

namespace ccld::decision {

size_t output_columns() {
  // Narrower than this no table says anything; wider than that nobody's terminal is.
  constexpr size_t columns_min = 20, columns_max = 10'000;
  const auto fits = [](size_t columns) { return columns >= columns_min && columns <= columns_max; };
  uint32_t columns = 0;
  if (const char* text = std::getenv("COLUMNS"); text && absl::SimpleAtoi(text, &columns) && fits(columns)) return columns;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && fits(size.ws_col)) return size.ws_col;
  return terminal_columns_default;
}

}  // namespace ccld::decision
