// SPDX-License-Identifier: Apache-2.0
// The memory of a long message: what its sender may do with it before the ticket has completed.
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tickets.hpp"

namespace conformance {
namespace {

class TicketMemory : public TicketTest {};
CONFORMANCE_SUITE(TicketMemory);

TEST_P(TicketMemory, PoolMemoryReleasedEarlyIsKeptUntilTheTicketCompletes) {
  post();
  void* data = nullptr;
  ASSERT_EQ(ripc_buffer_lease(client_context_.get(), data_.size(), &data), RIPC_OK);
  std::memcpy(data, data_.data(), data_.size());
  const Ticket ticket = send_long(client_, server_id(), {item_at(data, data_.size(), RIPC_ITEM_LONG)});
  ASSERT_EQ(ripc_buffer_release(client_context_.get(), data), RIPC_OK);
  EXPECT_EQ(pool_statistics_of(client_context_).deferred_releases, 1u);
  std::vector<decltype(lease(client_context_, 1))> others;
  for (int count = 0; count < 20; ++count) {
    others.push_back(lease(client_context_, data_.size()));
    std::memset(others.back().get(), 0xee, data_.size());
    EXPECT_NE(others.back().get(), data);
  }
  EXPECT_TRUE(holds(view_of(receive(server_), 0), RIPC_VIEW_WINDOW, data_));
  EXPECT_EQ(final_status(ticket), RIPC_OK);
  others.clear();
  EXPECT_TRUE(eventually([&] { return pool_statistics_of(client_context_).leased == 0; }));
}

// Nobody looks at a ticket that was not asked for, until its memory is needed.
TEST_P(TicketMemory, MessagesThatHaveEndedLeaveTheirMemoryToTheNextLeases) {
  constexpr std::size_t kSize = std::size_t{1} << 20;
  const Context context = make_context([](ripc_context_options& options) { options.pool_limit = 4 * kSize; });
  const Service sender = make_service(context);
  for (int round = 0; round < 20; ++round) {
    void* data = nullptr;
    ASSERT_EQ(ripc_buffer_lease(context.get(), kSize, &data), RIPC_OK) << ripc_last_error();
    ASSERT_EQ(send(sender, server_id(), {item_at(data, kSize, RIPC_ITEM_LONG)}), RIPC_OK);
    ASSERT_EQ(ripc_buffer_release(context.get(), data), RIPC_OK);
    ASSERT_NE(receive(server_, RIPC_RECEIVE_LEND), nullptr);
    // Between hosts, the receiver's report may still be under way.
    if (traits().lends) continue;
    ASSERT_TRUE(eventually([&] { return pool_statistics_of(context).leased == 0; }));
  }
}

TEST_P(TicketMemory, MessagesThatHaveEndedLeaveTheirMemoryToItemsThatArrive) {
  constexpr std::size_t kSize = std::size_t{3} << 20;
  const Context context = make_context([](ripc_context_options& options) { options.pool_limit = 8u << 20; });
  const Service service = make_service(context);
  const Bytes data = pattern(kSize, 1);
  for (int round = 0; round < 5; ++round) {
    for (int copy = 0; copy < 2; ++copy) {
      ASSERT_EQ(send(service, server_id(), {item(data)}), RIPC_OK) << ripc_last_error();
      ASSERT_NE(receive(server_, RIPC_RECEIVE_LEND), nullptr);
      if (traits().lends) continue;
      ASSERT_TRUE(eventually([&] { return pool_statistics_of(context).leased == 0; }));
    }
    const Ticket ticket = send_long(server_, id_of(service), {item(data, RIPC_ITEM_LONG)});
    EXPECT_TRUE(holds(view_of(receive(service, RIPC_RECEIVE_LEND), 0), RIPC_VIEW_LENT, data));
    EXPECT_EQ(final_status(ticket), RIPC_OK);
  }
}

TEST_P(TicketMemory, MemoryReusedAfterATimeoutIsNeverDeliveredTorn) {
  constexpr std::size_t kSize = std::size_t{1} << 20;
  constexpr unsigned kRounds = 150;
  Bytes window(kSize);
  const auto pooled = lease(client_context_, kSize);
  Bytes foreign(kSize);
  std::atomic<bool> finished{false};
  std::atomic<int> delivered{0};
  std::jthread receiver([&] {
    // An item that is withdrawn while it is pulled leaves the window posted.
    for (bool posted = false; !finished;) {
      if (!posted) {
        ASSERT_EQ(ripc_window_post(server_.get(), window.data(), kSize, 1), RIPC_OK);
      }
      posted = true;
      ripc_message* handle = nullptr;
      if (ripc_receive(server_.get(), 0, kMillisecond, &handle) != RIPC_OK) continue;
      posted = false;
      const Message message(handle);
      const ripc_item_view view = view_of(message, 0);
      ASSERT_EQ(view.status, RIPC_OK) << "what was withdrawn does not arrive";
      const auto* bytes = static_cast<const unsigned char*>(view.data);
      ++delivered;
      ASSERT_EQ(std::memcmp(bytes, bytes + 1, kSize - 1), 0) << "bytes of two rounds in one item";
    }
  });
  int taken = 0;
  for (unsigned round = 0; round < kRounds; ++round) {
    void* data = round % 2 == 0 ? static_cast<void*>(pooled.get()) : foreign.data();
    std::memset(data, static_cast<int>(round % 251 + 1), kSize);
    ripc_send_options options = send_options();
    options.timeout = 1000 + round % 10 * 100'000;  // from at once to long enough
    const Ticket ticket = send_long(client_, server_id(), {item_at(data, kSize, RIPC_ITEM_LONG)}, &options);
    const ripc_status status = final_status(ticket);
    EXPECT_TRUE(status == RIPC_OK || status == RIPC_TIMEOUT) << ripc_status_name(status);
    if (status == RIPC_OK) ++taken;
  }
  EXPECT_TRUE(eventually([&] { return delivered >= taken; })) << "what the ticket calls taken is delivered";
  finished = true;
  receiver.join();
  EXPECT_EQ(delivered, taken) << "what the ticket calls timed out is not delivered";
  server_.reset();  // its window may be in use still
}

TEST_P(TicketMemory, UnregisteringForeignMemoryRevokesWhatTravelsFromIt) {
  constexpr std::size_t kSize = 1'000'000;
  Bytes window(kSize, 0xee);
  for (int round = 0; round < 5; ++round) {
    void* data = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(data, MAP_FAILED);
    ASSERT_EQ(ripc_memory_register(client_context_.get(), data, kSize), RIPC_OK);
    const Ticket ticket = send_long(client_, server_id(), {item_at(data, kSize, RIPC_ITEM_LONG)});
    ASSERT_EQ(ripc_memory_unregister(client_context_.get(), data), RIPC_OK);
    ASSERT_EQ(munmap(data, kSize), 0);
    EXPECT_EQ(final_status(ticket), RIPC_CANCELLED);
    ASSERT_EQ(ripc_window_post(server_.get(), window.data(), kSize, 1), RIPC_OK);
    expect_nothing_more(server_);
    EXPECT_EQ(window, Bytes(kSize, 0xee));
    ripc_window_withdraw(server_.get(), 1, nullptr);
  }
}

TEST_P(TicketMemory, WhenUnregisterReturnsNothingReadsTheMemory) {
  constexpr std::size_t kSize = 4'000'000;
  Bytes window(kSize);
  for (int round = 0; round < 20; ++round) {
    void* data = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    ASSERT_NE(data, MAP_FAILED);
    std::memset(data, 7, kSize);
    ASSERT_EQ(ripc_memory_register(client_context_.get(), data, kSize), RIPC_OK);
    ASSERT_EQ(ripc_window_post(server_.get(), window.data(), kSize, 1), RIPC_OK);
    const Ticket ticket = send_long(client_, server_id(), {item_at(data, kSize, RIPC_ITEM_LONG)});
    bool delivered = false;
    std::jthread receiver([&] {
      Message message = receive(server_);
      if (ripc_message_get_tag(message.get()) != 0) return;  // the marker: the item was revoked in time
      const Bytes expected(kSize, 7);
      EXPECT_TRUE(holds(view_of(message, 0), RIPC_VIEW_WINDOW, expected));
      delivered = true;
      EXPECT_EQ(ripc_message_get_tag(receive(server_).get()), 1u);
    });
    ASSERT_EQ(ripc_memory_unregister(client_context_.get(), data), RIPC_OK);  // at some point during the copy
    std::memset(data, 9, kSize);
    munmap(data, kSize);
    ASSERT_EQ(send(client_, server_id(), {}, 1), RIPC_OK);
    receiver.join();
    EXPECT_EQ(final_status(ticket), delivered ? RIPC_OK : RIPC_CANCELLED);
    ripc_window_withdraw(server_.get(), 1, nullptr);
  }
}

}  // namespace
}  // namespace conformance
