#include "schemas/abi/bus_guard.h"

#include <catch2/catch.hpp>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ccld::abi {
namespace {

// A file of some pages, mapped for writing.
struct MappedFile {
  MappedFile() : bytes(4 * static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    char name[] = "/tmp/ccld-guard-XXXXXX";
    fd = mkstemp(name);
    REQUIRE(fd >= 0);
    unlink(name);
    REQUIRE(ftruncate(fd, static_cast<off_t>(bytes)) == 0);
    memory = static_cast<volatile char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    REQUIRE(memory != MAP_FAILED);
    memory[0] = memory[bytes - 1] = 7;
  }
  ~MappedFile() {
    munmap(const_cast<char*>(memory), bytes);
    close(fd);
  }
  void* address() const { return const_cast<char*>(memory); }
  void truncate() const { REQUIRE(ftruncate(fd, 0) == 0); }

  size_t bytes;
  int fd;
  volatile char* memory;
};

// The signal that ends a child which runs `body`; 0: none.
template <class Body>
int signal_that_ends(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("Memory of a file that is truncated becomes zeros, and can be written") {
  const MappedFile file;
  const BusGuard guard = BusGuard::over(file.address(), file.bytes);
  CHECK_FALSE(guard.lost());
  file.truncate();
  CHECK(file.memory[file.bytes - 1] == 0);
  CHECK(guard.lost());
  CHECK(file.memory[0] == 0);
  file.memory[0] = 9;
  CHECK(file.memory[0] == 9);
}

TEST_CASE("A guard that has moved still guards, and one that is gone does not") {
  const MappedFile file, other;
  BusGuard guard;
  guard = BusGuard::over(file.address(), file.bytes);
  BusGuard moved(std::move(guard));
  file.truncate();
  CHECK(file.memory[0] == 0);
  CHECK(moved.lost());
  CHECK_FALSE(guard.lost());
  { const BusGuard gone = BusGuard::over(other.address(), other.bytes); }
  other.truncate();
  CHECK(signal_that_ends([&] { (void)other.memory[0]; }) == SIGBUS);
}

TEST_CASE("A fault elsewhere ends the process as ever") {
  const MappedFile file, other;
  const BusGuard guard = BusGuard::over(file.address(), file.bytes);
  other.truncate();
  CHECK(signal_that_ends([&] { (void)other.memory[0]; }) == SIGBUS);
  CHECK(signal_that_ends([&] { raise(SIGBUS), raise(SIGBUS); }) == SIGBUS);
  CHECK_FALSE(guard.lost());
}

TEST_CASE("More guards than there is room for protect nothing, and do no harm") {
  const MappedFile file;
  std::unique_ptr<BusGuard[]> guards(new BusGuard[BusGuard::guards_max + 1]);
  for (size_t i = 0; i <= BusGuard::guards_max; ++i) guards[i] = BusGuard::over(file.address(), file.bytes);
  CHECK_FALSE(guards[BusGuard::guards_max].lost());
}

}  // namespace ccld::abi
