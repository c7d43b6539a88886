// A disk under the history that hangs, or becomes read-only, while the service runs.
#include <sys/mount.h>

#include <map>
#include <optional>

#include "test/integration/serve/service.h"

namespace ccld::test {
namespace {

const std::string with_sbin = "PATH=$PATH:/usr/sbin:/sbin; ";

bool sh(const std::string& script, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"/bin/sh", "-c", with_sbin + script});
  return run(arguments).status == 0;
}

// A small ext4 of its own. Only root can mount it.
class Disk {
 public:
  Disk() {
    const std::string image = folder_.file("image");
    std::filesystem::create_directories(path());
    std::ofstream(image).close();
    std::filesystem::resize_file(image, 32 << 20);
    mounted_ = geteuid() == 0 &&
               sh("mkfs.ext4 -q -F \"$0\" && mount -o loop,errors=remount-ro \"$0\" \"$1\"", {image, path()});
    if (!mounted_) WARN("skipped: only root can mount a small file system, with mkfs.ext4 and a loop device");
  }
  ~Disk() {
    if (mounted_) umount2(path().c_str(), MNT_DETACH);
  }
  bool is_there() const { return mounted_; }
  // As after an error of the hardware: read-only, and not to be made writable again. False: not allowed to.
  bool break_down() const {
    return sh("echo 1 > /sys/fs/ext4/$(basename \"$(findmnt -n -o SOURCE \"$0\")\")/trigger_fs_error", {path()});
  }
  // What operators do then: unmount, check, mount again. Whoever has files open keeps those of the old one.
  void repair() {
    REQUIRE(
        sh("umount -l \"$1\" && cp \"$0\" \"$0.2\" && { e2fsck -p -f \"$0.2\" > /dev/null; [ $? -le 1 ]; } && mount -o "
           "loop \"$0.2\" \"$1\"",
           {folder_.file("image"), path()}));
  }
  std::string path() const { return folder_.file("disk"); }
  std::string file(const std::string& name) const { return path() + "/" + name; }
  std::string beside(const std::string& name) const { return folder_.file(name); }

 private:
  const Folder folder_;
  bool mounted_ = false;
};

// As long as it lives who writes to the disk waits. Thawed after a while also if this program is killed.
class Frozen {
 public:
  explicit Frozen(const Disk& disk)
      : keeper_(
            {"/bin/sh", "-c",
             with_sbin + "trap : TERM; fsfreeze -f \"$0\" && echo frozen; sleep 30 & wait; fsfreeze -u \"$0\"; kill $!",
             disk.path()}) {
    REQUIRE_FALSE(keeper_.wait_for_output("frozen").empty());
  }
  ~Frozen() {
    keeper_.signal(SIGTERM);
    keeper_.wait();
  }

 private:
  ChildProcess keeper_;
};

// Nothing: no answer in time.
std::optional<Json> answer_within(const Service& service, const std::string& path, std::chrono::seconds within) {
  httplib::Client client(service.http);
  client.set_read_timeout(within);
  const auto answer = client.Get(path);
  if (!answer || answer->status != 200) return std::nullopt;
  return Json::parse(answer->body);
}

// How often each revision is in the database, and in the verdict file.
using Revisions = std::map<std::pair<uint64_t, uint64_t>, int>;
Revisions stored_in(const std::string& state) {
  Revisions found;
  const Json all =
      Json::parse(run({ccld, "incidents", "--state", state, "--json", "--after", "0", "--limit", "1000"}).output);
  for (const Json& incident : all["incidents"]) {
    const std::string id = incident["incident"].dump();
    for (const Json& r : Json::parse(run({ccld, "explain", id, "--revisions", "--json", "--state", state}).output))
      ++found[{r["incident"], r["revision"]}];
  }
  return found;
}
Revisions reported_in(const std::string& verdicts) {
  Revisions found;
  std::ifstream file(verdicts);
  for (std::string line; std::getline(file, line);) {
    const Json verdict = Json::parse(line);
    ++found[{verdict["incident"], verdict["revision"]}];
  }
  return found;
}

}  // namespace

TEST_CASE("A disk that hangs delays neither the analysis nor answers, and what waited is stored afterwards") {
  const Disk disk;
  if (!disk.is_there()) return;
  const std::string state = disk.file("state"), verdicts = disk.beside("v.jsonl");
  {
    Service service({"--state", state, "--verdicts", verdicts, "--set", "mismatch_settle_s=0"});
    Sender sender(service.telemetry);
    send_ranks(sender, {1024, 2048}, 0xa1);
    service.status_when(
        [](const Json& s) { return s["service"]["verdict_lines"] >= 1 && s["history"]["revisions_stored"] >= 1; });
    {
      const Frozen frozen(disk);
      // More who ask for incidents than the service has threads for one address, before it has anything to write.
      constexpr int curious = 24;
      std::vector<std::thread> asking;
      for (int i = 0; i < curious; ++i)
        asking.emplace_back([&] { answer_within(service, "/v1/incidents", std::chrono::seconds(3)); });
      for (std::thread& t : asking) t.join();
      send_ranks(sender, {1024, 2048}, 0xb2, 2);
      service.status_when([](const Json& s) { return s["incidents_open"] == 2; });
      CHECK(answer_within(service, "/healthz", std::chrono::seconds(5)).has_value());
      for (const char* path : {"/v1/incidents", "/v1/incidents/2", "/v1/incidents/2?revisions=1"}) {
        INFO(path);
        CHECK(answer_within(service, path, std::chrono::seconds(5)).has_value());
      }
      const auto listed = answer_within(service, "/v1/incidents", std::chrono::seconds(5));
      REQUIRE(listed.has_value());
      CHECK(listed->at("matching") == 2);
    }
    service.status_when([](const Json& s) {
      return s["service"]["verdict_lines"] >= 2 && s["history"]["revisions_waiting"] == 0 &&
             s["history"]["revisions_stored"] >= 2;
    });
    service.child.signal(SIGTERM);
    REQUIRE(service.child.wait() == 0);
  }
  const Revisions stored = stored_in(state), reported = reported_in(verdicts);
  CHECK(stored.size() >= 2);
  CHECK(stored == reported);
  for (const auto& [revision, times] : reported) CHECK(times == 1);
}

TEST_CASE("A disk that becomes read-only delays no verdict, and what waited is stored when it is back, once") {
  Disk disk;
  if (!disk.is_there()) return;
  const std::string state = disk.file("state"), verdicts = disk.beside("v.jsonl");
  {
    Service service({"--state", state, "--verdicts", verdicts, "--set", "mismatch_settle_s=0"});
    Sender sender(service.telemetry);
    send_ranks(sender, {1024, 2048}, 0xa1);
    service.status_when([](const Json& s) { return s["history"]["revisions_stored"] >= 1; });
    if (!disk.break_down()) {
      WARN("skipped: this kernel lets nobody make an ext4 fail");
      return;
    }
    uint64_t batch = 2;
    for (uint64_t comm_uid : {0xb2, 0xb3, 0xb4}) send_ranks(sender, {1024, 2048}, comm_uid, batch++);
    service.status_when(
        [](const Json& s) { return s["service"]["verdict_lines"] >= 4 && s["history"]["revisions_waiting"] >= 3; });
    CHECK(service.get("/v1/incidents")["matching"] == 4);
    disk.repair();
    service.status_when(
        [](const Json& s) { return s["history"]["revisions_waiting"] == 0 && s["history"]["revisions_stored"] >= 4; });
    send_ranks(sender, {1024, 2048}, 0xb5, batch);
    service.status_when([](const Json& s) { return s["history"]["revisions_stored"] >= 5; });
    service.child.signal(SIGTERM);
    REQUIRE(service.child.wait() == 0);
    size_t warnings = 0;
    std::istringstream log(service.child.error());
    for (std::string line; std::getline(log, line);) warnings += contains(line, "verdicts go on") ? 1 : 0;
    CHECK(warnings == 1);
    INFO(service.child.error());
    CHECK(contains(service.child.error(), "history: stored again"));
  }
  const Revisions stored = stored_in(state), reported = reported_in(verdicts);
  CHECK(stored.size() >= 5);
  CHECK(stored == reported);
  for (const auto& [revision, times] : reported) CHECK(times == 1);
}

}  // namespace ccld::test
