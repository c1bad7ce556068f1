// SPDX-License-Identifier: Apache-2.0
// Long items of an RDMA session that has no device. They come over a rail of sockets; both ends are in this process.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "support/failing_allocation.hpp"
#include "transport/verbs/bulk/rdma_bulk.hpp"
#include "unit/transport/socket/bulk_helpers.hpp"

namespace ripc::internal::verbs {
namespace {

using socket::testing::Gate;
using socket::testing::kMebibyte;
using socket::testing::kPatience;
using socket::testing::pattern;
using socket::testing::RawEnd;
namespace bulk = wire::bulk;

class End {
 public:
  End() : loop_(EventLoop::create().value()), events(EventSet::create().value()) {
    remote::BulkHooks hooks{.finished = [](std::uint64_t, std::uint64_t, ripc_status) {},
                            .dial = [this] { side->dial_failed(); },  // there is no device
                            .repeat = [](std::uint64_t, spi::Bytes) {}};
    side = std::make_shared<RdmaBulk>(remote::Endpoint(), nullptr, pool_, *loop_, std::move(hooks), kPatience);
    side->start();
    thread_ = std::thread([this] { loop_->run(); });
  }
  ~End() {
    side->died();
    loop_->stop();
    thread_.join();
  }
  void adopt(UniqueFd socket) {
    in_responder([&] { side->adopt_socket(remote::SecureSocket(std::move(socket))); });
  }
  void in_responder(const std::function<void()>& work) {
    Gate done;
    loop_->post([&] {
      work();
      done.open();
    });
    ASSERT_TRUE(done.wait());
  }
  RawEnd raw_end() {
    auto [near, far] = tcp_pair();
    adopt(std::move(near));
    return RawEnd(std::move(far));
  }
  // Takes a message of one long item, as core does.
  ripc_status take(const wire::Descriptor& item, std::span<std::byte> window) {
    if (const ripc_status begun = side->begin(std::span(&item, 1), events); begun != RIPC_OK) return begun;
    spi::Pull pull{.descriptor = item, .destination = window.data()};
    const ripc_status pulled = until_known([&] { return side->pull(pull, events); });
    return pulled == RIPC_OK ? finish(item) : pulled;
  }
  ripc_status finish(const wire::Descriptor& item) {
    return until_known([&] { return side->finish(item, RIPC_OK, events); });
  }
  template <typename Ask>
  ripc_status until_known(Ask&& ask) {
    for (;;) {
      const ripc_status status = ask();
      if (status != RIPC_PENDING || events.sleep(Deadline::after(kPatience), monotonic_now()) == RIPC_TIMEOUT)
        return status;
      events.drain();
    }
  }

 private:
  memory::Pool pool_{64 * kMebibyte};
  std::unique_ptr<EventLoop> loop_;
  std::thread thread_;

 public:
  EventSet events;
  std::shared_ptr<RdmaBulk> side;
};

class SocketRailsAlone : public testing::Test {
 protected:
  void connect() {
    auto [near, far] = tcp_pair();
    sender_.adopt(std::move(near));
    receiver_.adopt(std::move(far));
  }
  wire::Descriptor expose(std::span<const std::byte> bytes) {
    const spi::Exposure item{.bytes = bytes, .hold = nullptr};
    wire::Descriptor descriptor{};
    EXPECT_EQ(sender_.side->expose(1, std::span(&item, 1), std::span(&descriptor, 1), transfer_), RIPC_OK);
    return descriptor;
  }
  void expect_whole(std::size_t size) {
    const std::vector<std::byte> bytes = pattern(size);
    std::vector<std::byte> window(size);
    EXPECT_EQ(receiver_.take(expose(bytes), window), RIPC_OK);
    EXPECT_TRUE(window == bytes);
    const Deadline deadline = Deadline::after(kPatience);
    ripc_status status = RIPC_PENDING;
    while (status == RIPC_PENDING && !deadline.expired()) status = sender_.side->transfer_status(transfer_);
    EXPECT_EQ(status, RIPC_OK);
  }

  End sender_, receiver_;
  std::uint64_t transfer_ = 0;
};

TEST_F(SocketRailsAlone, BringItemsOfEverySizeAndTellHowTheyEnd) {
  ASSERT_NO_FATAL_FAILURE(connect());
  for (const std::size_t size : {std::size_t{8}, std::size_t{64} << 10, kMebibyte, 5 * kMebibyte + 8}) {
    SCOPED_TRACE(size);
    expect_whole(size);
  }
}

TEST_F(SocketRailsAlone, BringWhatWasAskedForBeforeTheyWereThere) {
  std::thread late([&] { connect(); });
  expect_whole(64 << 10);
  late.join();
}

TEST_F(SocketRailsAlone, OneThatIsLostLeavesWhatItOwesAndTheAnswersToTheNext) {
  const std::vector<std::byte> bytes = pattern(4096);
  const wire::Descriptor item = expose(bytes);
  std::vector<std::byte> window(bytes.size());
  ripc_status taken = RIPC_PENDING;
  std::optional<RawEnd> silent(receiver_.raw_end());
  std::thread receiving([&] { taken = receiver_.take(item, window); });
  const std::optional<bulk::Frame> request = silent->receive();
  EXPECT_TRUE(request && request->type == bulk::Type::pull_request);
  silent.emplace(receiver_.raw_end());  // it takes the place of the first one
  const std::optional<bulk::Frame> again = silent->receive();
  EXPECT_TRUE(again && again->type == bulk::Type::pull_request && again->length == bytes.size());
  if (again) {
    EXPECT_TRUE(silent->send({.type = bulk::Type::data, .length = 4096, .id = again->id}, bytes));
  }
  const std::optional<bulk::Frame> finish = silent->receive();
  EXPECT_TRUE(finish && finish->type == bulk::Type::finish && finish->key == item.key);
  silent.reset();
  connect();  // where the same Finish is answered
  receiving.join();
  EXPECT_EQ(taken, RIPC_OK);
  EXPECT_TRUE(window == bytes);
}

// One that is there is not dialed again.
TEST_F(SocketRailsAlone, OneThatFindsNoMemoryIsNotThere) {
  bool failed = true;
  for (std::uint64_t allocation = 1; failed; ++allocation) {
    SCOPED_TRACE(allocation);
    auto [near, far] = tcp_pair();
    remote::SecureSocket socket(std::move(near));
    receiver_.in_responder([&] {
      const support::FailingAllocation scarce(allocation);
      receiver_.side->adopt_socket(std::move(socket));
      failed = scarce.failed();
    });
    EXPECT_EQ(receiver_.side->sockets().empty(), failed);
  }
  ASSERT_NO_FATAL_FAILURE(connect());
  expect_whole(4096);
}

TEST_F(SocketRailsAlone, NothingIsPushedOverThem) {
  ASSERT_NO_FATAL_FAILURE(connect());
  std::vector<std::byte> buffer(64);
  wire::Grant grant{};
  ASSERT_EQ(receiver_.side->grant(1, buffer, grant), RIPC_OK);
  const std::vector<std::byte> bytes(64, std::byte{1});
  EXPECT_EQ(sender_.side->push(grant, bytes), RIPC_UNSUPPORTED) << "the requester pulls it";
  EXPECT_EQ(receiver_.side->end_grant(grant), RIPC_EMPTY);
  EXPECT_TRUE(socket::testing::all_are(buffer, std::byte{0}));
}

TEST_F(SocketRailsAlone, WriteNothingForAPullThatWasGivenUp) {
  RawEnd late = receiver_.raw_end();
  const wire::Descriptor item{.key = 11, .location = 22, .length = 4096};
  std::vector<std::byte> window(item.length);
  ASSERT_EQ(receiver_.side->begin(std::span(&item, 1), receiver_.events), RIPC_OK);
  spi::Pull pull{.descriptor = item, .destination = window.data()};
  ASSERT_EQ(receiver_.side->pull(pull, receiver_.events), RIPC_PENDING);
  const std::optional<bulk::Frame> request = late.receive();
  ASSERT_TRUE(request);
  receiver_.side->abandon(pull);
  const std::vector<std::byte> strange(item.length, std::byte{1});
  ASSERT_TRUE(late.send({.type = bulk::Type::data, .length = 4096, .id = request->id}, strange));
  ASSERT_TRUE(late.send({.type = bulk::Type::ask_read}));  // what no socket accepts: handled after the data
  EXPECT_TRUE(late.is_closed());
  EXPECT_TRUE(socket::testing::all_are(window, std::byte{0}));
}

}  // namespace
}  // namespace ripc::internal::verbs
