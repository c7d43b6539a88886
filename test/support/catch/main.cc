#include "test/support/catch/catch.h"

int main(int argc, char** argv) { return ccld::test::run_tests(argc, argv); }
