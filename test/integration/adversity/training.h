// A job of two ranks in this process, on the CPU device, whose results are checked: what must go on whatever happens to
// the probe. And what its log says. Errors: what is not so is a line on standard error, and the end of the process with
// status 1.
#pragma once

#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define REQUIRE(condition)                                                    \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      fprintf(stderr, "%s", ccld::adversity::log_text().c_str());             \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

namespace ccld::adversity {

// A folder for frames and the log; NCCL's variables for a small job. Before NCCL is called.
void prepare();
const std::string& folder();
void remove_folder();
std::string log_text();
// Warnings of the probe in which this stands.
int warnings_with(const std::string& text);
// Waits until there is one.
bool is_warned_of(const std::string& text);
// Names in the folder with that ending.
std::vector<std::string> files(const std::string& ending);

class Training {
 public:
  Training();
  // Rounds with right results, a few milliseconds each.
  void goes_on(int rounds = 20);
  void ends();

 private:
  static constexpr int ranks = 2;
  ncclComm_t comms_[ranks];
  int round_ = 0;
};

}  // namespace ccld::adversity
