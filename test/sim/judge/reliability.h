// Whether confidences are true: of the incidents that were said with one, how many are right; and what the table of
// decision/analysis/slow_confidence.h should say to make them so.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "test/sim/judge/judge.h"

namespace ccld::sim {

class Reliability {
 public:
  void add(const std::vector<Word>&);

  // By confidence, slowness and the rest apart; then by what told the causes of slowness. Empty: nothing was said.
  std::string text() const;

  // What each row of the table should say: the values by which the incidents that have it are expected to be right as
  // often as they are. Two incidents more for each, one right and one wrong, keep few from saying too much.
  std::vector<double> fitting() const;

 private:
  std::vector<Word> words_;
};

}  // namespace ccld::sim
