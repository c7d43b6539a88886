// What happens to the probe of a job is not the job's trouble: the results of the training are right, and what is
// missing is one line. One case a run, all ranks in this process.
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "test/integration/adversity/hostile_service.h"
#include "test/integration/adversity/training.h"

extern char** environ;

namespace {

using namespace ccld::adversity;

// ---- files that others lay hands on --------------------------------------------------------------------------------

// `warning`: the one that is to be waited for.
template <class Change>
void with_changed_files(const std::string& warning, Change change) {
  Training training;
  training.goes_on();
  REQUIRE(files(".frame").size() == 2);
  for (const std::string& path : files(".frame")) change(path);
  training.goes_on(200);
  REQUIRE(is_warned_of(warning));
  training.ends();
  // And communicators that are made after that.
  Training next;
  next.goes_on();
  next.ends();
}

void truncated() {
  with_changed_files("truncated", [](const std::string& path) {
    REQUIRE(chmod(path.c_str(), 0600) == 0);
    REQUIRE(truncate(path.c_str(), 0) == 0);
  });
  REQUIRE(warnings_with("") == 1 && warnings_with("truncated") == 1);
}

void removed() {
  with_changed_files("has removed", [](const std::string& path) { REQUIRE(unlink(path.c_str()) == 0); });
  REQUIRE(warnings_with("") == 1);
}

void replaced() {
  const std::string warning = "has replaced";
  with_changed_files(warning, [](const std::string& path) {
    const std::string other = path + ".other";
    std::ofstream(other) << "another file";
    REQUIRE(rename(other.c_str(), path.c_str()) == 0);
  });
  with_changed_files(warning, [](const std::string& path) {
    REQUIRE(unlink(path.c_str()) == 0);
    REQUIRE(symlink("/dev/zero", path.c_str()) == 0);
  });
  with_changed_files(warning, [](const std::string& path) {
    REQUIRE(unlink(path.c_str()) == 0);
    REQUIRE(mkdir(path.c_str(), 0700) == 0);
  });
  REQUIRE(warnings_with(warning) == 1);  // in each process once
}

void unreadable() {
  with_changed_files("has made unreadable", [](const std::string& path) { REQUIRE(chmod(path.c_str(), 0) == 0); });
  REQUIRE(warnings_with("") == 1);
}

void process_file() {
  Training training;
  training.goes_on();
  for (const char* ending : {".process", ".proc", "process"})
    for (const std::string& path : files(ending)) REQUIRE(truncate(path.c_str(), 0) == 0);
  training.goes_on(200);
  Training next;
  next.goes_on();
  next.ends();
  training.ends();
}

void folder_removed() {
  Training training;
  training.goes_on();
  REQUIRE(system(("find " + folder() + " -mindepth 1 ! -name log -delete").c_str()) == 0);
  training.goes_on(100);
  REQUIRE(is_warned_of("has removed"));
  Training next;
  next.goes_on();
  next.ends();
  training.ends();
  REQUIRE(warnings_with("has removed") == 1);
}

// ---- what the process does -----------------------------------------------------------------------------------------

void forks() {
  Training training;
  for (int i = 0; i < 8; ++i) {
    training.goes_on(5);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // As a loader of data does: it works, it leaves by exit() or _exit(), and it calls nothing of NCCL.
      if (i % 2 == 0) _exit(0);
      exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    REQUIRE(files(".frame").size() == 2);
  }
  training.goes_on();
  training.ends();
  REQUIRE(warnings_with("") == 0);
}

void executes() {
  Training training;
  training.goes_on();
  pid_t child = 0;
  char name[] = "true";
  char* const arguments[] = {name, nullptr};
  for (int i = 0; i < 8; ++i) {
    REQUIRE(posix_spawnp(&child, "true", nullptr, nullptr, arguments, environ) == 0);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
  }
  training.goes_on();
  training.ends();
  if (getenv("CCLD_ADVERSITY_AGAIN") != nullptr) return;
  // This image is replaced while its communicators are there; the next one does the same training.
  Training left;
  left.goes_on();
  setenv("CCLD_ADVERSITY_AGAIN", "1", 1);
  unsetenv("NCCL_PROBE_FRAMES_DIR");
  unsetenv("NCCL_DEBUG_FILE");
  execl("/proc/self/exe", "adversity_test", "executes", nullptr);
  REQUIRE(false);
}

std::atomic<int> handled{0};

void signals() {
  // Handlers of the job, for everything that a job handles; no thread of the probe may take a signal.
  struct sigaction action {};
  action.sa_handler = [](int) {
    char thread[16] = "";
    prctl(PR_GET_NAME, thread);
    if (strcmp(thread, "ccld-probe") == 0 || strcmp(thread, "ccld-health") == 0) _exit(9);
    ++handled;
  };
  for (const int number : {SIGALRM, SIGUSR1, SIGUSR2, SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGPROF})
    REQUIRE(sigaction(number, &action, nullptr) == 0);
  // SIGBUS and SIGSEGV of its own, from before NCCL came.
  struct sigaction fatal {};
  fatal.sa_handler = [](int) { _exit(10); };
  REQUIRE(sigaction(SIGSEGV, &fatal, nullptr) == 0);
  itimerval every{{0, 500}, {0, 500}};
  Training training;
  REQUIRE(setitimer(ITIMER_REAL, &every, nullptr) == 0);
  for (int i = 0; i < 50; ++i) {
    training.goes_on(2);
    for (const int number : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGPIPE}) REQUIRE(kill(getpid(), number) == 0);
  }
  every = {};
  REQUIRE(setitimer(ITIMER_REAL, &every, nullptr) == 0);
  training.ends();
  REQUIRE(handled > 100);
}

// ---- limits --------------------------------------------------------------------------------------------------------

// All that is left goes to the job: no descriptor for the probe and what it sends with.
void no_descriptors() {
  Training training;
  training.goes_on();
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const int next = dup(0);
  REQUIRE(next >= 0 && close(next) == 0);
  limit.rlim_cur = static_cast<rlim_t>(next);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  training.goes_on(300);
  limit.rlim_cur = limit.rlim_max;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  training.goes_on();
  training.ends();
}

// What the heap of the calling thread has grown to stays with it.
void grow_heap() {
  constexpr size_t piece_bytes = 64 << 10, pieces = 64;  // smaller than what malloc maps on its own
  REQUIRE(mallopt(M_TRIM_THRESHOLD, 2 * piece_bytes * pieces) == 1);
  std::vector<std::unique_ptr<char[]>> room(pieces);
  for (auto& piece : room) piece.reset(new char[piece_bytes]);
}

// The address space is as large as it is now: whatever the probe's threads still ask for, they do not get. The job has
// the memory for its launches before: without it any program would end.
void no_memory() {
  Training training;
  grow_heap();
  training.goes_on(100);
  long pages = 0;
  FILE* statm = fopen("/proc/self/statm", "re");
  REQUIRE(statm != nullptr && fscanf(statm, "%ld", &pages) == 1);
  fclose(statm);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit limit = before;
  limit.rlim_cur = static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
  training.goes_on(300);
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  training.ends();
}

// ---- who is at the other end ---------------------------------------------------------------------------------------

void hostile_service() {
  HostileService service;
  setenv("NCCL_PROBE_ENDPOINT", service.endpoint().c_str(), 1);
  Training training;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (service.sent() < 20'000) {
    REQUIRE(std::chrono::steady_clock::now() < until);
    training.goes_on(10);
  }
  training.ends();
}

// ---- settings without sense ----------------------------------------------------------------------------------------

void senseless_settings() {
  const char* const variables[] = {
      "NCCL_PROBE_ENABLE",        "NCCL_PROBE_ENDPOINT",     "NCCL_PROBE_JOB",          "NCCL_PROBE_FRAMES_DIR",
      "NCCL_PROBE_SAMPLE_US",     "NCCL_PROBE_BUDGET_PPM",   "NCCL_PROBE_IDLE_MS",      "NCCL_PROBE_REST_MS",
      "NCCL_PROBE_FLUSH_MS",      "NCCL_PROBE_LATE_MS",      "NCCL_PROBE_HEARTBEAT_MS", "NCCL_PROBE_LATE_REPORT_MS",
      "NCCL_PROBE_QUEUE_MAX",     "NCCL_PROBE_LINGER_MS",    "NCCL_PROBE_SIBLINGS_MS",  "NCCL_PROBE_STALE_KEEP_S",
      "NCCL_PROBE_HEALTH_MS",     "NCCL_PROBE_KEY_FILE",     "NCCL_PROBE_SERVER_KEY",   "NCCL_PROBE_POLL_FRESH_MS",
      "NCCL_PROBE_STREAM_WRITES", "NCCL_PROBE_FRAMES_SHARED"};
  const char* const value = getenv("CCLD_ADVERSITY_VALUE");
  const std::string garbage = value != nullptr ? value : std::string(5000, '%') + "\x1b[31m\n\xff-1e999 nan";
  for (const char* variable : variables) setenv(variable, garbage.c_str(), 1);
  Training training;
  training.goes_on();
  training.ends();
  // Whoever asked for a folder that is none has frames in /dev/shm; keys that are none are said where they are used.
  for (const char* variable : {"NCCL_PROBE_ENABLE", "NCCL_PROBE_SAMPLE_US", "NCCL_PROBE_FRAMES_SHARED"})
    REQUIRE(warnings_with(variable) == 1);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string which = count > 1 ? arguments[1] : "";
  const std::map<std::string, void (*)()> cases = {{"truncated", truncated},
                                                   {"removed", removed},
                                                   {"replaced", replaced},
                                                   {"unreadable", unreadable},
                                                   {"process_file", process_file},
                                                   {"folder_removed", folder_removed},
                                                   {"forks", forks},
                                                   {"executes", executes},
                                                   {"signals", signals},
                                                   {"no_descriptors", no_descriptors},
                                                   {"no_memory", no_memory},
                                                   {"hostile_service", hostile_service},
                                                   {"senseless_settings", senseless_settings}};
  const auto found = cases.find(which);
  if (found == cases.end()) {
    fprintf(stderr, "unknown case \"%s\"\n", which.c_str());
    return 2;
  }
  prepare();
  found->second();
  remove_folder();
  printf("%s: as it should be\n", which.c_str());
  return 0;
}
