// What to do about an incident, and what it gains, as a part of the answer about it: field `mitigation` (README.md). Made from the
// incident's document, so that incidents of files and of earlier runs have it, too. When an action pays is an instant: who
// reads it later compares `due_time` with the present time.
// Errors: nlohmann::json::exception where the document is not a verdict. Threads: any.
#pragma once

#include "decision/advise/facts.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision::report {

advise::Facts advice_facts(const Json& verdict, const advise::Known&);

// null: closed.
Json mitigation_json(const Json& verdict, const advise::Known&);
void set_mitigation(Json& verdict, const advise::Known&);

// With which settings and layout the mitigation of the document was made; the defaults if it has none.
advise::Known known_from(const Json& verdict);

}  // namespace ccld::decision::report
