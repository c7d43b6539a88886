// What a polling loop asks after each round (transform/rewrite_rules.py, abort-poll-yields). The hooks have a function
// of the same name for an int, which the compiler prefers; a library without them takes this one.
#pragma once

// Does the loop go on without looking at the abort flag?
template <class Spins>
bool ccld_polls_on(Spins&) {
  return true;
}
