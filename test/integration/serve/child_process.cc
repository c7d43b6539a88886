#include "test/integration/serve/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace ccld::test {

using Clock = std::chrono::steady_clock;

ChildProcess::ChildProcess(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that dies leaves nothing behind
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  out_.fd = out[0];
  err_.fd = err[0];
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {out_.fd, err_.fd}) {
    if (fd >= 0) close(fd);
  }
}

bool ChildProcess::read_some(Clock::time_point deadline) {
  pollfd fds[] = {{out_.fd, POLLIN, 0}, {err_.fd, POLLIN, 0}};  // poll skips what is closed, -1
  if (out_.fd < 0 && err_.fd < 0) return false;
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now()).count();
  if (left <= 0 || poll(fds, 2, static_cast<int>(left)) <= 0) return false;
  for (Stream* stream : {&out_, &err_}) {
    const pollfd& p = fds[stream == &out_ ? 0 : 1];
    if (p.fd < 0 || p.revents == 0) continue;
    char buffer[65536];
    const ssize_t n = read(p.fd, buffer, sizeof(buffer));
    if (n > 0) {
      stream->text.append(buffer, static_cast<size_t>(n));
    } else {
      close(stream->fd);
      stream->fd = -1;
    }
  }
  return true;
}

std::string ChildProcess::wait_for(Stream& stream, const std::string& part, Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    for (size_t end; (end = stream.text.find('\n', stream.searched)) != std::string::npos;) {
      const std::string line = stream.text.substr(stream.searched, end - stream.searched);
      stream.searched = end + 1;
      if (line.find(part) != std::string::npos) return line;
    }
    if (!read_some(deadline)) return "";
  }
}

std::string ChildProcess::wait_for_output(const std::string& part, Milliseconds timeout) {
  return wait_for(out_, part, timeout);
}
std::string ChildProcess::wait_for_error(const std::string& part, Milliseconds timeout) {
  return wait_for(err_, part, timeout);
}

void ChildProcess::signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

int ChildProcess::wait(Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (read_some(deadline)) {
  }
  int status = 0;
  // Its streams are closed: it has ended or is about to.
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) return -1;
    usleep(1000);
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Finished run(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  ChildProcess child(command, environment);
  const int status = child.wait();
  return {status, child.output(), child.error()};
}

}  // namespace ccld::test
