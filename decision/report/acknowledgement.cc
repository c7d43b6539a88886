#include "decision/report/acknowledgement.h"

#include "absl/strings/str_cat.h"
#include "decision/report/text_format.h"

namespace ccld::decision::report {

Json acknowledgement_json(const Acknowledgement& a) {
  return {{"time", WallClock{}.text(a.time_ms * ns_per_ms)}, {"by", a.by}, {"note", a.note}};
}

void set_acknowledged(Json& verdict, const Acknowledgements& all) {
  const auto found = all.find(number_of(verdict, "incident"));
  verdict["acknowledged"] = found != all.end() ? acknowledgement_json(found->second) : Json(nullptr);
}

std::string acknowledged_text(const Json& verdict) {
  if (!has(verdict, "acknowledged")) return "";
  const Json& a = member(verdict, "acknowledged");
  const std::string note = text_of(a, "note");
  return absl::StrCat("by ", text_of(a, "by", "?"), ", ", text_of(a, "time"), note.empty() ? "" : ": ", note);
}

std::string state_text(const Json& verdict) {
  const std::string state = text_of(verdict, "state");
  const bool open = state == "suspected" || state == "confirmed";
  const Json& silenced = member(verdict, "silenced");  // of a row: whether; of a document: by which
  const bool quiet = silenced.is_boolean() ? silenced.get<bool>() : !silenced.is_null();
  return absl::StrCat(state, open && has(verdict, "acknowledged") ? ", acknowledged" : "", open && quiet ? ", silenced" : "");
}

}  // namespace ccld::decision::report
