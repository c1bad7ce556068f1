// SPDX-License-Identifier: Apache-2.0
// libripc for C++: the objects that are sent and received: items, messages, tickets. Part of ripc/ripc.hpp; include
// that.
//
// Message and Ticket are move-only owners of one handle. They must be gone before the Context they come from.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "ripc/error.hpp"
#include "ripc/handle.hpp"

namespace ripc {

using ServiceId = ripc_service_id;
using Bytes = std::span<const std::byte>;
using WritableBytes = std::span<std::byte>;

// ---- Items to send -------------------------------------------------------------------------------------------

// The bytes of a text, or of any contiguous range of plain values (vector, array, span). Borrowed from it.
inline Bytes bytes_of(std::string_view text) noexcept { return std::as_bytes(std::span(text)); }
template <std::ranges::contiguous_range Range>
requires(!std::is_convertible_v<const Range&, std::string_view> &&
         std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>) Bytes bytes_of(const Range& range)
noexcept { return std::as_bytes(std::span(range)); }

// One piece of a message: a range of the caller's memory, and how it travels. After the send has returned RIPC_OK, the
// memory is the caller's again, unless the item comes from borrow() or given_item().
using Item = ripc_item;

// One of several messages: items and tag. Borrows the items; see Service::send_many().
using OutgoingMessage = ripc_outgoing;
inline OutgoingMessage outgoing_message(std::span<const Item> items, std::uint32_t tag = 0) noexcept {
  return {items.data(), static_cast<std::uint32_t>(items.size()), tag};
}

// In the message itself if it fits; otherwise the receiver pulls it from a copy. A string literal is sent without its
// terminating zero.
inline Item item(Bytes bytes) noexcept { return {bytes.data(), bytes.size(), RIPC_ITEM_AUTO, 0}; }
template <std::convertible_to<std::string_view> Text>
Item item(const Text& text) noexcept {
  return item(bytes_of(text));
}
// In the message itself.
inline Item short_item(Bytes bytes) noexcept { return {bytes.data(), bytes.size(), RIPC_ITEM_SHORT, 0}; }
template <std::convertible_to<std::string_view> Text>
Item short_item(const Text& text) noexcept {
  return short_item(bytes_of(text));
}
// The receiver pulls the bytes directly from this memory, into a window or as a lent view. Nothing is copied, but the
// memory must not change until the Ticket of the send has completed. So borrow() accepts no temporary that owns its
// memory, such as a std::string made in the call. A Buffer may be released earlier. The memory of a received Message is
// valid only as long as that Message.
template <std::ranges::borrowed_range Range>
requires requires(const Range& range) { bytes_of(range); }
Item borrow(Range&& range) noexcept {
  const Bytes bytes = bytes_of(range);
  return {bytes.data(), bytes.size(), RIPC_ITEM_LONG, 0};
}
// Replies only: goes into return buffer `index` of the request. Bytes that the buffer cannot take travel short or long.
inline Item return_item(Bytes bytes, std::uint32_t index = 0) noexcept {
  return {bytes.data(), bytes.size(), RIPC_ITEM_RETURN, index};
}

// In the message itself, from a leased buffer that is given away with the message. Once the message was sent, call
// detach() on the Buffer of that lease.
inline Item given_item(Bytes bytes) noexcept { return {bytes.data(), bytes.size(), RIPC_ITEM_GIVEN, 0}; }

// The items of one message, as an argument: none; one Item; several, in braces or in any contiguous range; or bytes or
// a text, which make one item(). It refers to several items and to all bytes, so a variable of this type may outlive
// them.
class Items {
 public:
  Items() noexcept = default;
  Items(const Item& one) noexcept : one_(one), size_(1) {}  // NOLINT(google-explicit-constructor): an argument
  Items(const Item* first, std::size_t count) noexcept : data_(first), size_(count) {}
  Items(std::initializer_list<Item> items) noexcept : Items(items.begin(), items.size()) {}
  template <std::convertible_to<std::span<const Item>> Range>
  Items(const Range& items) noexcept  // NOLINT(google-explicit-constructor)
      : Items(std::span<const Item>(items).data(), std::ranges::size(items)) {}
  template <typename Content>
  requires requires(const Content& content) { item(content); }
  Items(const Content& content) noexcept : Items(item(content)) {}  // NOLINT(google-explicit-constructor)

  const Item* data() const noexcept { return data_ != nullptr ? data_ : &one_; }
  std::size_t size() const noexcept { return size_; }

 private:
  Item one_{};
  const Item* data_ = nullptr;  // nullptr: `one_` is the only item
  std::size_t size_ = 0;
};

// Memory that a reply may write. It belongs to the library until the reply was received and released, or until
// Service::cancel_request() returned.
using ReturnBuffer = ripc_return_buffer;
inline ReturnBuffer return_buffer(WritableBytes bytes) noexcept { return {bytes.data(), bytes.size()}; }

// ---- Received items ------------------------------------------------------------------------------------------

// One item of a received message. Cheap to copy; it borrows the bytes. Short items and lent views are valid only as
// long as their Message. Bytes in windows and return buffers are the caller's own memory.
class ItemView {
 public:
  ItemView() noexcept : view_{} {}
  explicit ItemView(const ripc_item_view& view) noexcept : view_(view) {}

  // Empty if the item is missing: see status().
  Bytes bytes() const noexcept {
    return view_.data == nullptr ? Bytes() : Bytes(static_cast<const std::byte*>(view_.data), view_.size);
  }
  std::string_view text() const noexcept {
    return view_.data == nullptr ? std::string_view()
                                 : std::string_view(static_cast<const char*>(view_.data), view_.size);
  }
  // The size that the sender announced, even if the item is missing.
  std::size_t size() const noexcept { return view_.size; }
  bool ok() const noexcept { return view_.status == RIPC_OK; }
  // RIPC_OK, or why the item is missing.
  ripc_status status() const noexcept { return static_cast<ripc_status>(view_.status); }
  ripc_view_kind kind() const noexcept { return static_cast<ripc_view_kind>(view_.kind); }
  // The cookie of the window, for RIPC_VIEW_WINDOW.
  std::uint64_t cookie() const noexcept { return view_.cookie; }
  // The index of the return buffer, for RIPC_VIEW_RETURNED.
  std::uint32_t return_index() const noexcept { return view_.return_index; }
  // How many times libripc copied the bytes on this side.
  std::uint32_t copied() const noexcept { return view_.copied; }

 private:
  ripc_item_view view_;
};

// The proven identity of the peer at the other end.
struct Peer {
  Peer() = default;
  explicit Peer(const ripc_peer& peer) : identity(peer.identity) {
    if (peer.is_on_this_host != 0) user = peer.user;
  }

  std::string identity;               // its name in the trust file; "" if none is proven
  std::optional<std::uint32_t> user;  // user ID on this host; nullopt: on another host, or unknown
};

// A received message. The destructor gives it back, in any thread. A moved-from or default-made Message is empty:
// source 0, no items.
class Message {
 public:
  Message() noexcept = default;
  // Takes ownership of a handle from ripc_receive().
  explicit Message(ripc_message* handle) noexcept : handle_(handle) {}

  bool empty() const noexcept { return handle_ == nullptr; }
  // The sender.
  ServiceId source() const noexcept { return ripc_message_get_source(handle_.get()); }
  // The sender's proven identity: see ripc_message_peer().
  Peer peer() const {
    ripc_peer peer;
    ripc_peer_init(&peer);
    if (handle_ != nullptr) (void)ripc_message_peer(handle_.get(), &peer);
    return Peer(peer);
  }
  std::uint32_t tag() const noexcept { return ripc_message_get_tag(handle_.get()); }
  std::size_t item_count() const noexcept { return ripc_message_get_item_count(handle_.get()); }
  // O(1). A wrong index gives a view with kind RIPC_VIEW_FAILED and status RIPC_INVALID_ARGUMENT.
  ItemView item(std::size_t index) const noexcept {
    ripc_item_view view;
    const ripc_status status = ripc_message_get_item(handle_.get(), index, &view);
    if (status != RIPC_OK) view = {nullptr, 0, RIPC_VIEW_FAILED, static_cast<std::uint32_t>(status), 0, 0, 0};
    return ItemView(view);
  }
  // The request this message answers (SendOptions::request_id); 0 if none.
  std::uint64_t in_reply_to() const noexcept { return ripc_message_get_in_reply_to(handle_.get()); }
  // Return buffers attached by the sender, and the room in each.
  std::size_t return_count() const noexcept { return ripc_message_get_return_count(handle_.get()); }
  std::size_t return_size(std::size_t index) const noexcept {
    return ripc_message_get_return_size(handle_.get(), index);
  }
  // Gives the message back early. Its short items and lent views become invalid.
  void release() noexcept { handle_.reset(); }
  // Borrowed, for calls into ripc.h.
  ripc_message* handle() const noexcept { return handle_.get(); }

 private:
  detail::Owner<ripc_message, ripc_message_release> handle_;
};

// ---- Ticket --------------------------------------------------------------------------------------------------

// The completion of a message with at least one item that travels long. It also ends the loan of memory that borrow()
// sent. Any thread.
//
// It owns the handle. Dropping it stops neither the message nor a loan, but then nothing reports the end. An empty
// Ticket belongs to a message that travels short. Such a message is complete when send() returns, so its status is
// RIPC_OK.
class [[nodiscard]] Ticket {
 public:
  Ticket() noexcept = default;
  // Takes ownership of a handle from ripc_send().
  explicit Ticket(ripc_ticket* handle) noexcept : handle_(handle) {}

  bool empty() const noexcept { return handle_ == nullptr; }
  // RIPC_PENDING, or the final status. ripc_ticket_poll() in ripc/ticket.h says what each means for the message:
  // delivered, not delivered, or unknown.
  Error poll() noexcept { return finish(empty() ? RIPC_OK : ripc_ticket_poll(handle_.get())); }
  // Waits for the final status. RIPC_PENDING if the timeout ran out first.
  Error wait(Nanoseconds timeout = kForever) noexcept {
    return finish(empty() ? RIPC_OK : ripc_ticket_wait(handle_.get(), detail::to_c(timeout)));
  }
  // Withdraws the message if the peer has not taken it yet. Returns the final status, or RIPC_PENDING if the peer holds
  // a lent view of it.
  Error cancel() noexcept { return finish(empty() ? RIPC_OK : ripc_ticket_cancel(handle_.get())); }
  // Gives the handle back. The message continues.
  void release() noexcept { handle_.reset(); }
  // Borrowed, for calls into ripc.h.
  ripc_ticket* handle() const noexcept { return handle_.get(); }

 private:
  static Error finish(ripc_status status) noexcept {
    return status == RIPC_OK ? Error() : Error::from_last_call(status);
  }

  detail::Owner<ripc_ticket, ripc_ticket_release> handle_;
};

}  // namespace ripc
