#include "decision/recording/incident_files.h"

#include "test/unit/recording/recordings.h"

namespace ccld::test {
namespace {

constexpr int64_t now_ms = 1'769'860'900'000;  // 2026-01-31T12:01:40Z

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
    const auto path = write_incident_file(folder.path, {.files_max = 3}, now_ms, incident(id, "2026-01-31T12:00:0" + std::to_string(id) + ".000Z"), history, {}, packer);
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

TEST_CASE("Recordings of incidents go when they are too old or too large together; the newest stays") {
  const Folder folder;
  const auto exists = [&](const std::string& name) { return std::filesystem::exists(folder.file(name)); };
  const std::string old = "incident-20260129T120000.000Z-1-H3.ccldrec", second = "incident-20260131T120000.000Z-2-H3.ccldrec",
                    newest = "incident-20260131T120100.000Z-3-H3.ccldrec";
  for (const std::string& name : {old, second, newest}) std::ofstream(folder.file(name)) << std::string(1000, 'x');
  remove_old_incident_files(folder.path, {.bytes_max = 1 << 20, .age_max_ms = 24 * 3600 * 1000}, now_ms);
  CHECK_FALSE(exists(old));
  CHECK(exists(second));
  remove_old_incident_files(folder.path, {.bytes_max = 1500, .age_max_ms = 24 * 3600 * 1000}, now_ms);
  CHECK_FALSE(exists(second));
  remove_old_incident_files(folder.path, {.bytes_max = 10, .age_max_ms = 24 * 3600 * 1000}, now_ms);
  CHECK(exists(newest));
}

TEST_CASE("What a service that was killed left unfinished goes after an hour") {
  const Folder folder;
  const std::string old = folder.file("incident-20260131T110000.000Z-1-H3.ccldrec.tmp"),
                    young = folder.file("incident-20260131T120000.000Z-2-H3.ccldrec.tmp");
  for (const std::string& name : {old, young}) std::ofstream(name) << "half";
  remove_old_incident_files(folder.path, {}, now_ms);
  CHECK_FALSE(std::filesystem::exists(old));
  CHECK(std::filesystem::exists(young));
}

TEST_CASE("A folder that cannot be written is named, and nothing half written stays") {
  CHECK(contains(check_incident_folder("/proc/nowhere").message(), "'/proc/nowhere'"));
  Packer packer;
  const IncidentHistory history(1000, 1000);
  CHECK_FALSE(write_incident_file("/proc", {.files_max = 3}, now_ms, incident(1, "t"), history, {}, packer).ok());
  const Folder folder;
  CHECK(check_incident_folder(folder.file("made/on/demand")).ok());
}

}  // namespace ccld::test
