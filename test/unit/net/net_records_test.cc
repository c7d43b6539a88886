#include "probe/net/net_records.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>

namespace ccld::probe {
namespace {

using abi::Direction;
using abi::NetKind;

struct ReleaseFile {
  void operator()(ProcessFile* file) const { process_file_release(file); }
};
using OwnedFile = std::unique_ptr<ProcessFile, ReleaseFile>;

OwnedFile memory_only() {
  std::string error;
  return OwnedFile(process_file_create({"/proc/no-such-folder", "job", "host"}, &error));
}

NetQueuesMessage told(NetTeller& teller, uint64_t now_ms) {
  std::vector<Message> messages;
  teller.collect({now_ms * ns_per_ms, 0}, &messages);
  return messages.empty() ? NetQueuesMessage{} : std::get<NetQueuesMessage>(messages.at(0));
}

TEST_CASE("In flight is what was posted and not completed, and completions bring the bytes of their posts") {
  const OwnedFile file = memory_only();
  NetRecords records(*file);
  NetQueue* queue = records.open(NetKind::infiniband, 0xabc, 117, 2, "mlx5_2");
  REQUIRE(queue != nullptr);
  const abi::NetRecord& record = *queue->record;
  CHECK((record.queue == 0xabc && record.number == 117 && record.device == 2));
  CHECK(std::string(record.device_name) == "mlx5_2");
  net_posted(queue, Direction::send, 1, 1000);
  net_posted(queue, Direction::send, 0, 64);  // unsignalled: its bytes complete with the next
  net_posted(queue, Direction::send, 1, 500);
  CHECK(record.send_posted - record.send_completed == 2);
  CHECK(record.send_bytes_posted == 1564);
  net_completed(queue, Direction::send, 1, net_bytes_as_posted, false);
  CHECK((record.send_completed == 1 && record.send_bytes_completed == 1000));
  net_completed(queue, Direction::send, 1, net_bytes_as_posted, false);
  CHECK((record.send_completed == 2 && record.send_bytes_completed == 1564));
  net_posted(queue, Direction::recv, 3, 0);
  net_completed(queue, Direction::recv, 1, 4096, false);
  CHECK((record.recv_posted == 3 && record.recv_completed == 1 && record.recv_bytes_completed == 4096));
  CHECK(record.complete_monotonic_ns >= record.post_monotonic_ns);
}

TEST_CASE("Errors are counted, bring no bytes, and never make less than nothing in flight") {
  const OwnedFile file = memory_only();
  NetRecords records(*file);
  NetQueue* queue = records.open(NetKind::infiniband, 1, 1, 0, "mlx5_0");
  net_posted(queue, Direction::send, 1, 1000);
  for (int i = 0; i < 3; ++i) net_completed(queue, Direction::send, 1, net_bytes_as_posted, true);
  CHECK(queue->record->errors == 3);
  CHECK(queue->record->send_completed == 1);
  CHECK(queue->record->send_bytes_completed == 0);
}

TEST_CASE("Queues beyond the records are not watched and counted; a closed queue makes room") {
  const OwnedFile file = memory_only();
  NetRecords records(*file);
  NetQueue* first = records.open(NetKind::socket, 1, 0, 0, "eth0");
  net_posted(first, Direction::send, 1, 7);
  for (unsigned i = 1; i < abi::nets_max; ++i) REQUIRE(records.open(NetKind::socket, 1 + i, 0, 0, "eth0") != nullptr);
  CHECK(records.open(NetKind::socket, 9999, 0, 0, "eth0") == nullptr);
  CHECK(metric_get(file.get(), abi::MetricId::net_records_dropped) == 1);
  net_posted(nullptr, Direction::send, 1, 7);  // who has no queue need not ask
  net_completed(nullptr, Direction::send, 1, 7, true);
  records.close(first);
  NetQueue* next = records.open(NetKind::socket, 10000, 0, 1, "a name that is longer than the field for it");
  REQUIRE(next != nullptr);
  CHECK(next->record->send_posted == 0);  // nothing of the queue before it
  CHECK(strlen(next->record->device_name) == sizeof(next->record->device_name) - 1);
}

TEST_CASE("Queues that hold or move something are told, with the bytes of the last looks") {
  const OwnedFile file = memory_only();
  NetRecords records(*file);
  NetTeller teller(*file);
  CHECK(told(teller, 1000).queues.empty());
  NetQueue* queue = records.open(NetKind::infiniband, 5, 31, 1, "mlx5_1");
  CHECK(told(teller, 2000).queues.empty());  // idle
  net_posted(queue, Direction::send, 2, 3000);
  NetQueuesMessage message = told(teller, 3000);
  REQUIRE(message.queues.size() == 1);
  CHECK(message.device_names == std::vector<std::string>{"", "mlx5_1"});
  CHECK(
      (message.queues[0].in_flight() == 2 && message.queues[0].send_posted() == 2 && message.queues[0].number() == 31));
  CHECK(message.queues[0].window_bytes() == 0);
  CHECK(message.queues[0].complete_age_ms() == 0xffffffffu);
  net_completed(queue, Direction::send, 2, net_bytes_as_posted, false);
  message = told(teller, 4000);
  REQUIRE(message.queues.size() == 1);
  CHECK((message.queues[0].in_flight() == 0 && message.queues[0].window_bytes() == 3000));
  CHECK(message.queues[0].window_ms() == 2000);
  CHECK(told(teller, 5000).queues.empty());  // nothing in flight, nothing moved
  // Six seconds later the window has passed over the old bytes.
  for (uint64_t ms = 6000; ms <= 9000; ms += 1000) told(teller, ms);
  net_posted(queue, Direction::send, 1, 10);
  message = told(teller, 10000);
  REQUIRE(message.queues.size() == 1);
  CHECK((message.queues[0].window_bytes() == 0 && message.queues[0].window_ms() == 4000));
  // Another queue in the same place starts anew.
  records.close(queue);
  queue = records.open(NetKind::infiniband, 6, 32, 1, "mlx5_1");
  net_posted(queue, Direction::recv, 4, 0);
  message = told(teller, 11000);
  REQUIRE(message.queues.size() == 1);
  CHECK((message.queues[0].recv_in_flight() == 4 && message.queues[0].window_ms() == 0));
}

}  // namespace
}  // namespace ccld::probe
