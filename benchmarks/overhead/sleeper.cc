// What a thread costs that does nothing but wake up: the floor under every sampling thread on this machine.
//
// Usage: ccld-bench-sleeper PERIOD_US SECONDS        prints the share of a processor
#include <time.h>

#include <cstdio>
#include <cstdlib>

namespace {
double seconds_of(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}
}  // namespace

int main(int argc, char** argv) {
  const long period_us = argc == 3 ? atol(argv[1]) : 0;
  const double seconds = argc == 3 ? atof(argv[2]) : 0;
  if (period_us < 10 || period_us > 1000000 || seconds <= 0) {
    fprintf(stderr, "usage: ccld-bench-sleeper PERIOD_US SECONDS     (10 to 1000000, more than 0)\n");
    return 2;
  }
  timespec due;
  clock_gettime(CLOCK_MONOTONIC, &due);
  const double begin = seconds_of(CLOCK_MONOTONIC), used = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  while (seconds_of(CLOCK_MONOTONIC) - begin < seconds) {
    due.tv_nsec += period_us * 1000;
    due.tv_sec += due.tv_nsec / 1000000000;
    due.tv_nsec %= 1000000000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr);
  }
  printf("%.6f\n", (seconds_of(CLOCK_THREAD_CPUTIME_ID) - used) / (seconds_of(CLOCK_MONOTONIC) - begin));
  return 0;
}
