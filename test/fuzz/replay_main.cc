// Gives a fuzz target the inputs that are kept, and seeded changes of each: for compilers without libFuzzer.
//
// Usage: ccld_fuzz_NAME [--changes N] FOLDER...     (a folder that is not there has no inputs)
//        ccld_fuzz_NAME FILE...                      (as they are; for what a fuzzer has found)
//
// The input under way is told if the process ends by a signal.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

// A unit test has seconds, not minutes.
constexpr unsigned changes_usual = 32;
constexpr size_t changed_bytes_max = 64 * 1024;

char under_way[4096];
unsigned long executions = 0;

void tell_input(int signal) {
  const ssize_t written = write(STDERR_FILENO, under_way, strnlen(under_way, sizeof(under_way)));
  (void)written;
  ::signal(signal, SIG_DFL);
  raise(signal);
}

Bytes read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// A copy of its own size: a sanitizer sees what is read beyond its end.
void run(const Bytes& input, const std::string& name) {
  std::snprintf(under_way, sizeof(under_way), "input: %s\n", name.c_str());
  LLVMFuzzerTestOneInput(input.data(), input.size());
  ++executions;
}

// Bytes turned, cut out, doubled, or cut off.
Bytes changed(Bytes input, std::mt19937& random) {
  for (unsigned n = 1 + random() % 4; n > 0 && !input.empty(); --n) {
    const size_t at = random() % input.size();
    const size_t length = std::min<size_t>(1 + random() % 16, input.size() - at);
    const auto begin = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 6) {
      case 0: input[at] ^= static_cast<uint8_t>(1u << (random() % 8)); break;
      case 1: input[at] = static_cast<uint8_t>(random()); break;
      case 2: std::fill_n(begin, length, random() % 2 == 0 ? 0xff : 0x00); break;
      case 3: input.erase(begin, begin + static_cast<std::ptrdiff_t>(length)); break;
      case 4: {
        const Bytes part(begin, begin + static_cast<std::ptrdiff_t>(length));
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(random() % (input.size() + 1)), part.begin(),
                     part.end());
        break;
      }
      default: input.resize(at); break;
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, tell_input);
  size_t inputs = 0;
  unsigned long changes = changes_usual;
  run({}, "empty");
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--changes" && i + 1 < argc) {
      changes = std::strtoul(argv[++i], nullptr, 10);
      continue;
    }
    if (fs::is_regular_file(argv[i])) {
      run(read(argv[i]), argv[i]);
      ++inputs;
      continue;
    }
    std::vector<fs::path> paths;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(argv[i], missing)) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
      const Bytes input = read(path);
      run(input, path.string());
      std::mt19937 random(static_cast<uint32_t>(++inputs));
      for (unsigned long n = 0; n < changes && input.size() <= changed_bytes_max; ++n)
        run(changed(input, random), path.string() + ", change " + std::to_string(n));
    }
  }
  std::printf("%zu inputs, %lu executions\n", inputs, executions);
  return inputs > 0 ? 0 : 1;
}
