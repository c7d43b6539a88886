#include "probe/process/init_records.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

namespace ccld::probe {
namespace {

struct ReleaseFile {
  void operator()(ProcessFile* file) const { process_file_release(file); }
};
using OwnedFile = std::unique_ptr<ProcessFile, ReleaseFile>;

OwnedFile memory_only() {
  std::string error;
  return OwnedFile(process_file_create({"/proc/no-such-folder", "job", "host"}, &error));
}

std::vector<CommInitMessage> told(InitTeller& teller, uint64_t now_ms) {
  std::vector<Message> messages;
  teller.collect({now_ms * ns_per_ms, 0}, &messages);
  std::vector<CommInitMessage> result;
  for (Message& message : messages) result.push_back(std::get<CommInitMessage>(message));
  return result;
}

TEST_CASE("An initialization that never ends is told again and again, with the stage it reached") {
  const OwnedFile file = memory_only();
  InitTeller teller(*file);
  CHECK(told(teller, 1).empty());
  init_record_enter(*file, 1, {0xabc, 3, 8, 5}, 100 * ns_per_ms);
  auto messages = told(teller, 600);
  REQUIRE(messages.size() == 1);
  CHECK(messages[0].number == 1);
  CHECK(messages[0].comm_hash == 0xabc);
  CHECK((messages[0].rank == 3 && messages[0].rank_count == 8 && messages[0].cuda_device == 5));
  CHECK(messages[0].stage == abi::InitStage::entered);
  CHECK((messages[0].enter_age_ms == 500 && messages[0].stage_age_ms == 500));
  init_record_reach(*file, 1, abi::InitStage::bootstrapped, 0, 0, 700 * ns_per_ms);
  messages = told(teller, 800);
  REQUIRE(messages.size() == 1);
  CHECK(messages[0].stage == abi::InitStage::bootstrapped);
  CHECK((messages[0].enter_age_ms == 700 && messages[0].stage_age_ms == 100));
  CHECK(told(teller, 900).size() == 1);
}

TEST_CASE("An initialization that became ready is not told, one that failed is told once with its reason") {
  const OwnedFile file = memory_only();
  InitTeller teller(*file);
  init_record_enter(*file, 1, {1, 0, 2, 0}, 1);
  init_record_enter(*file, 2, {2, 0, 2, 0}, 1);
  init_record_reach(*file, 1, abi::InitStage::connected, 0, 17, 2);
  init_record_reach(*file, 1, abi::InitStage::ready, 0, 17, 3);
  init_record_reach(*file, 2, abi::InitStage::failed, 6, 0, 3);
  const auto messages = told(teller, 1);
  REQUIRE(messages.size() == 1);
  CHECK((messages[0].number == 2 && messages[0].stage == abi::InitStage::failed && messages[0].result == 6));
  CHECK(told(teller, 2).empty());
  CHECK(file->inits[1].comm_number == 17);
}

TEST_CASE("The place of an old initialization is taken by a new one, which the old one cannot touch any more") {
  const OwnedFile file = memory_only();
  InitTeller teller(*file);
  init_record_enter(*file, 5, {5, 0, 2, 0}, 1);
  init_record_enter(*file, 5 + abi::inits_max, {6, 1, 2, 0}, 1);
  init_record_reach(*file, 5, abi::InitStage::failed, 1, 0, 2);
  const auto messages = told(teller, 1);
  REQUIRE(messages.size() == 1);
  CHECK((messages[0].comm_hash == 6 && messages[0].stage == abi::InitStage::entered));
}

}  // namespace
}  // namespace ccld::probe
