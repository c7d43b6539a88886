// operations_matrix TEST: one ctest case of real NCCL and what its probe says; prints only what is wrong.
// operations_matrix --rank SUITE RANK RANKS PIPE: one rank of it.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "test/integration/operations/suites.h"

using namespace ccld::operations_test;

int main(int argc, char** argv) {
  if (argc == 6 && strcmp(argv[1], "--rank") == 0) {
    return run_rank(argv[2], {atoi(argv[3]), atoi(argv[4]), atoi(argv[5])});
  }
  const int result = argc == 2 ? run_test(argv[1]) : -1;
  if (result < 0) {
    fprintf(stderr, "usage: operations_matrix TEST (see CMakeLists.txt for their names)\n");
    return 2;
  }
  return result;
}
