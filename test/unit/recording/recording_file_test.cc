#include "decision/recording/recording_file.h"

#include "test/unit/recording/recordings.h"

namespace ccld::test {

TEST_CASE("A recording that is being written can be read up to here, and a closed one to its end") {
  const Folder folder;
  Packer packer;
  auto file = RecordingFile::create(folder.file("r"), false, Metadata{}, packer);
  REQUIRE(file.ok());
  REQUIRE((*file)->write(block_of({tick_at(start_ns)})).ok());
  const Reading open = read_all(Reader::open(folder.file("r")));
  CHECK(open.status.ok());
  CHECK(open.entries.size() == 1);
  CHECK(contains(open.warning, "never closed, or still being written"));
  REQUIRE((*file)->close({.reason = "stopped"}, packer).ok());
  CHECK((*file)->bytes() == content(folder.file("r")).size());
  CHECK(read_all(Reader::open(folder.file("r"))).closed);
}

TEST_CASE("An existing file is refused unless it may be replaced") {
  const Folder folder;
  std::ofstream(folder.file("r")) << "precious, and longer than the beginning of a recording is: " << std::string(1000, 'x');
  Packer packer;
  const auto refused = RecordingFile::create(folder.file("r"), false, Metadata{}, packer);
  CHECK(absl::IsAlreadyExists(refused.status()));
  CHECK(contains(content(folder.file("r")), "precious"));
  const auto replaced = RecordingFile::create(folder.file("r"), true, Metadata{}, packer);
  REQUIRE(replaced.ok());
  CHECK(content(folder.file("r")) .size() == (*replaced)->bytes());
}

TEST_CASE("A disk that is full is one error with path and reason, and nothing is written afterwards") {
  Packer packer;
  const auto full = RecordingFile::create("/dev/full", true, Metadata{}, packer);
  CHECK(contains(full.status().message(), "cannot write '/dev/full': No space left on device"));
  CHECK(contains(RecordingFile::create("/nowhere/r", true, Metadata{}, packer).status().message(), "cannot write '/nowhere/r'"));
}

TEST_CASE("Numbers of bytes take K, M, G and T") {
  CHECK(*parse_bytes("4096") == 4096);
  CHECK(*parse_bytes("64k") == 64 << 10);
  CHECK(*parse_bytes("64M") == 64 << 20);
  CHECK(*parse_bytes("1G") == 1 << 30);
  CHECK(*parse_bytes("2T") == uint64_t{2} << 40);
  for (const char* text : {"", "M", "0", "-1", "1.5G", "1P", "64 MB", "99999999999T"}) {
    INFO(text);
    CHECK(absl::IsInvalidArgument(parse_bytes(text).status()));
  }
}

}  // namespace ccld::test
