#include "decision/recording/incident_files.h"

#include "test/unit/recording/recordings.h"

namespace ccld::test {
namespace {

Metadata incident(int id, const std::string& time) {
  Metadata m;
  m.source = "incident";
  m.incident = {{"time", time}, {"incident", id}, {"class", "H3"}};
  return m;
}

size_t files(const Folder& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder.path), std::filesystem::directory_iterator()));
}

}  // namespace

TEST_CASE("A recording of an incident is named after it, and the oldest give way to new ones") {
  const Folder folder;
  Packer packer;
  IncidentHistory history(1000, 1000);
  history.add(block_of({tick_at(start_ns)}), start_ns, start_ns);
  std::ofstream(folder.file("mine.ccldrec")) << "not of this kind";
  std::string newest;
  for (int id = 1; id <= 5; ++id) {
    const auto path = write_incident_file(folder.path, 3, incident(id, "2026-01-31T12:00:0" + std::to_string(id) + ".000Z"), history, {}, packer);
    REQUIRE(path.ok());
    newest = *path;
  }
  CHECK(newest == folder.file("incident-20260131T120005.000Z-5-H3.ccldrec"));
  CHECK(files(folder) == 4);
  CHECK(std::filesystem::exists(folder.file("incident-20260131T120003.000Z-3-H3.ccldrec")));
  const Reading r = read_all(Reader::open(newest));
  CHECK(r.closed);
  CHECK(r.metadata.incident["incident"] == 5);
}

TEST_CASE("A folder that cannot be written is named, and nothing half written stays") {
  CHECK(contains(check_incident_folder("/proc/nowhere").message(), "'/proc/nowhere'"));
  Packer packer;
  const IncidentHistory history(1000, 1000);
  CHECK_FALSE(write_incident_file("/proc", 3, incident(1, "t"), history, {}, packer).ok());
  const Folder folder;
  CHECK(check_incident_folder(folder.file("made/on/demand")).ok());
}

}  // namespace ccld::test
