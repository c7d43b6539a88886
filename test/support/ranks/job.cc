#include "test/support/ranks/job.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

namespace ccld::ranks {
namespace {

constexpr size_t id_bytes_max = 256;

double now_s() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::set<std::string> shared_memory_files() {
  std::set<std::string> files;
  if (DIR* folder = opendir("/dev/shm")) {
    while (const dirent* entry = readdir(folder)) {
      if (strncmp(entry->d_name, "nccl-", 5) == 0) files.insert(std::string("/dev/shm/") + entry->d_name);
    }
    closedir(folder);
  }
  return files;
}

void add_open_files(const std::string& process, std::set<std::string>* files) {
  const std::string path = process + "/fd";
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    char target[256];
    const ssize_t length = readlink((path + "/" + entry->d_name).c_str(), target, sizeof target);
    if (length > 0 && strncmp(target, "/dev/shm/nccl-", 14) == 0) files->insert({target, static_cast<size_t>(length)});
  }
  closedir(folder);
}

// NCCL's paths under /dev/shm that some process has open or mapped. Jobs of other tests run beside this one: their NCCL
// opens a segment when it makes it, and closes it once it is mapped, so what is open is looked at before what is
// mapped.
std::set<std::string> files_in_use() {
  std::set<std::string> files;
  DIR* processes = opendir("/proc");
  if (processes == nullptr) return files;
  while (const dirent* entry = readdir(processes)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    const std::string process = std::string("/proc/") + entry->d_name;
    add_open_files(process, &files);
    std::ifstream maps(process + "/maps");
    for (std::string line; std::getline(maps, line);) {
      const size_t begin = line.find("/dev/shm/nccl-");
      if (begin != std::string::npos) files.insert(line.substr(begin, line.find(' ', begin) - begin));
    }
  }
  closedir(processes);
  return files;
}

void remove_leftovers(const std::set<std::string>& before) {
  std::set<std::string> candidates;
  for (const std::string& file : shared_memory_files()) {
    if (before.count(file) == 0) candidates.insert(file);
  }
  if (candidates.empty()) return;
  const std::set<std::string> in_use = files_in_use();
  for (const std::string& file : candidates) {
    if (in_use.count(file) == 0) unlink(file.c_str());
  }
}

struct Rank {
  pid_t pid = -1;
  int pid_file = -1;  // becomes readable when the rank ends
  int id_pipe = -1;   // our end: the id comes out of rank 0's and goes into the others'
  bool ended = false;
  int status = 0;
};

Rank start_rank(const JobSpec& spec, int rank) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) abort();
  const int mine = rank == 0 ? ends[0] : ends[1], theirs = rank == 0 ? ends[1] : ends[0];
  Rank result;
  result.id_pipe = mine;
  const pid_t parent = getpid();
  result.pid = fork();
  if (result.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is itself killed leaves no ranks behind
    if (getppid() != parent) _exit(99);
    fcntl(theirs, F_SETFD, 0);
    for (const auto& [name, value] : spec.environment) setenv(name.c_str(), value.c_str(), 1);
    if (spec.ranks_of_node > 0) {
      setenv("NCCL_HOSTID", ("node" + std::to_string(rank / spec.ranks_of_node)).c_str(), 1);
    }
    if (rank == 1 && !spec.control_rank_file.empty()) {
      setenv("CCLD_CPU_DEVICE_CONTROL", spec.control_rank_file.c_str(), 1);
    }
    const std::string rank_text = std::to_string(rank), ranks_text = std::to_string(spec.ranks),
                      pipe_text = std::to_string(theirs);
    execl("/proc/self/exe", "rank", "--rank", spec.suite.c_str(), rank_text.c_str(), ranks_text.c_str(),
          pipe_text.c_str(), nullptr);
    _exit(98);
  }
  close(theirs);
  result.pid_file = static_cast<int>(syscall(SYS_pidfd_open, result.pid, 0));
  return result;
}

bool pass_on_id(std::vector<Rank>* ranks) {
  char id[id_bytes_max];
  ssize_t length = 0;
  do {
    length = read((*ranks)[0].id_pipe, id, sizeof id);
  } while (length < 0 && errno == EINTR);
  for (size_t i = 1; i < ranks->size(); ++i) {
    if (length > 0 && write((*ranks)[i].id_pipe, id, static_cast<size_t>(length)) != length) length = -1;
  }
  for (Rank& rank : *ranks) {
    close(rank.id_pipe);
    rank.id_pipe = -1;
  }
  return length > 0;
}

// Until all ranks ended or the time is over; once one failed, the others have little time left. Returns whether one
// did.
bool wait_for_ranks(const JobSpec& spec, std::vector<Rank>* ranks) {
  constexpr double grace_s = 2;
  double deadline_s = now_s() + spec.timeout_s;
  bool failed = false;
  for (;;) {
    std::vector<pollfd> running;
    for (const Rank& rank : *ranks) {
      if (!rank.ended) running.push_back({rank.pid_file, POLLIN, 0});
    }
    const double left_s = deadline_s - now_s();
    if (running.empty() || left_s <= 0) return failed;
    if (poll(running.data(), running.size(), static_cast<int>(left_s * 1e3) + 1) < 0) continue;
    for (Rank& rank : *ranks) {
      if (rank.ended || waitpid(rank.pid, &rank.status, WNOHANG) != rank.pid) continue;
      rank.ended = true;
      const bool bad = WIFSIGNALED(rank.status) ? WTERMSIG(rank.status) != SIGKILL : WEXITSTATUS(rank.status) != 0;
      if (bad && !failed) {
        failed = true;
        deadline_s = std::min(deadline_s, now_s() + grace_s);
      }
    }
  }
}

bool judge(const JobSpec& spec, int index, const Rank& rank) {
  bool killed_as_planned = false;
  for (int killed : spec.killed_ranks) killed_as_planned = killed_as_planned || killed == index;
  if (WIFSIGNALED(rank.status)) {
    if (killed_as_planned && WTERMSIG(rank.status) == SIGKILL) return true;
    fprintf(stderr, "%s: rank %d ended by signal %d\n", spec.name.c_str(), index, WTERMSIG(rank.status));
    return false;
  }
  if (killed_as_planned) {
    fprintf(stderr, "%s: rank %d was to be killed and was not\n", spec.name.c_str(), index);
    return false;
  }
  if (WEXITSTATUS(rank.status) != 0) {
    fprintf(stderr, "%s: rank %d failed with status %d\n", spec.name.c_str(), index, WEXITSTATUS(rank.status));
    return false;
  }
  return true;
}

}  // namespace

bool run_job(const JobSpec& spec) {
  const std::set<std::string> files_before = shared_memory_files();
  std::vector<Rank> ranks;
  for (int i = 0; i < spec.ranks; ++i) ranks.push_back(start_rank(spec, i));
  if (pass_on_id(&ranks) && spec.meanwhile) {
    std::vector<pid_t> pids;
    for (const Rank& rank : ranks) pids.push_back(rank.pid);
    spec.meanwhile(pids);
  }
  const bool failed = wait_for_ranks(spec, &ranks);
  bool good = true;
  for (int i = 0; i < spec.ranks; ++i) {
    Rank& rank = ranks[static_cast<size_t>(i)];
    if (rank.ended) {
      good = judge(spec, i, rank) && good;
    } else {
      good = false;
      if (!failed) fprintf(stderr, "%s: rank %d did not end within %d s\n", spec.name.c_str(), i, spec.timeout_s);
      kill(rank.pid, SIGKILL);
      waitpid(rank.pid, &rank.status, 0);
    }
    close(rank.pid_file);
  }
  remove_leftovers(files_before);
  return good;
}

void send_id(const RankIdentity& identity, const void* id, size_t bytes) {
  if (write(identity.id_in, id, bytes) != static_cast<ssize_t>(bytes)) abort();
  close(identity.id_in);
}

bool receive_id(const RankIdentity& identity, void* id, size_t bytes) {
  const ssize_t length = read(identity.id_in, id, bytes);
  close(identity.id_in);
  return length == static_cast<ssize_t>(bytes);
}

}  // namespace ccld::ranks
