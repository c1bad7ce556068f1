// SPDX-License-Identifier: Apache-2.0
// Two peers; the client offers return buffers with its requests.
#pragma once

#include "harness.hpp"

namespace conformance {

// The message carries items of the first size. An item of the second is written into its return buffer, or pulled.
inline constexpr std::size_t kCarried = 1000;
inline constexpr std::size_t kWritten = 100'000;

class ReturnBufferTest : public PairTest {
 protected:
  // Sends a request with these return buffers; returns its id.
  std::uint64_t request(std::span<const ripc_return_buffer> returns, Items items = {}, ripc_service_id to = 0,
                        Ticket* ticket = nullptr) {
    std::uint64_t id = 0;
    ripc_send_options options = send_options();
    options.return_count = static_cast<std::uint32_t>(returns.size());
    options.returns = returns.data();
    options.request_id = &id;
    ripc_ticket* handle = nullptr;
    EXPECT_EQ(ripc_send(client_.get(), to == 0 ? server_id() : to, std::data(items), items.size(), &options, &handle),
              RIPC_OK)
        << ripc_last_error();
    if (ticket != nullptr) {
      ticket->reset(handle);
    } else {
      EXPECT_EQ(handle, nullptr) << "return buffers alone make no ticket";
    }
    EXPECT_NE(id, 0u);
    return id;
  }
  std::uint64_t request(Bytes& buffer) {
    const ripc_return_buffer one{buffer.data(), buffer.size()};
    return request(std::span(&one, 1));
  }

  // Replies; returns a ticket if items had to travel as long items.
  Ticket reply(const Message& message, Items items) {
    ripc_ticket* ticket = nullptr;
    EXPECT_EQ(ripc_reply(server_.get(), message.get(), std::data(items), items.size(), nullptr, &ticket), RIPC_OK)
        << ripc_last_error();
    return Ticket(ticket);
  }

  void post(Bytes& window, std::uint64_t cookie) {
    ASSERT_EQ(ripc_window_post(client_.get(), window.data(), window.size(), cookie), RIPC_OK);
  }
};

// Whether an item with these bytes came outside a return buffer: short if its message carried it, else in a window.
inline testing::AssertionResult not_returned(const ripc_item_view& view, const Bytes& bytes) {
  return holds(view, bytes.size() == kWritten ? RIPC_VIEW_WINDOW : RIPC_VIEW_SHORT, bytes);
}

// Whether an item came into this return buffer with exactly these bytes.
inline testing::AssertionResult returned(const ripc_item_view& view, std::uint32_t index, const Bytes& buffer,
                                         const Bytes& bytes) {
  if (view.return_index != index) return testing::AssertionFailure() << "return index " << view.return_index;
  if (view.data != buffer.data()) return testing::AssertionFailure() << "not in the return buffer";
  return holds(view, RIPC_VIEW_RETURNED, bytes);
}

}  // namespace conformance
