// Catch2's implementation, compiled once for all test programs: it takes half a minute.
//
// A program that links ccld_catch and has no main() gets one; one with a main() of its own calls run_tests() there.
#pragma once

namespace ccld::test {

// Runs the tests of this program as the command line says; returns the exit status.
int run_tests(int argc, char** argv);

}  // namespace ccld::test
