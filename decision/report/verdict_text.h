// An incident for people: what happens, where, why, the proof, what is not known, what to do. One page that is read once.
// Made from the JSON document, so that every surface says the same about a running service, a file and the history.
// Errors: nlohmann::json::exception where the document is not a verdict. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "decision/report/verdict_json.h"

namespace ccld::decision::report {

// A labelled piece of the page; an empty label goes on with the last one.
struct Paragraph {
  enum Form { prose, verbatim };  // verbatim: a command or a row of a table, not to be wrapped
  std::string label;
  std::string text;
  Form form = prose;
};

std::string verdict_title(const Json& verdict);  // "HANG, 1 min 12 s: process of rank 2 is stopped"
std::string verdict_state(const Json& verdict);  // "confirmed, 95 %"
// What follows the title. `evidence`: as below.
std::vector<Paragraph> verdict_paragraphs(const Json& verdict, bool evidence = false);
// The whole in 80 columns, in short; `evidence`: with all rows of evidence, the chain of waits, further communicators and the training stage.
std::string verdict_text(const Json& verdict, bool evidence = false);
// One line per incident; newest last. `incidents`: an array of verdicts.
std::string incident_list_text(const Json& incidents, size_t columns);

}  // namespace ccld::decision::report
