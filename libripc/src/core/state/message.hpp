// SPDX-License-Identifier: Apache-2.0
// Received messages and the pool they come from. The receiving thread takes messages; any thread may give them back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/fork_guard.hpp"
#include "base/thread_epoch.hpp"
#include "memory/pool.hpp"
#include "ripc/ripc.h"
#include "spi/transport.hpp"
#include "wire/packet.hpp"

namespace ripc::internal::core {

class MessagePool;

// The pools of one context, so that the context can free, at its end, the messages that the application never gave
// back.
class MessagePools {
 public:
  // Frees every remaining pool with its messages. Nobody may use or release these any more.
  ~MessagePools();
  // In a forked child the messages are the parent's.
  bool usable() const noexcept { return ForkGuard::known_generation() == fork_generation_; }

 private:
  friend class MessagePool;
  const std::uint64_t fork_generation_ = ForkGuard::generation();
  std::mutex mutex_;
  std::unordered_set<MessagePool*> pools_;
};

struct Message {
  // The parts that only a few messages need.
  struct Attachments {
    std::shared_ptr<spi::Source> source;             // the one that attached the grants, or lends
    std::vector<wire::Grant> grants;                 // return buffers for the reply
    std::atomic<bool> replied{false};                // the grants were used, or refused
    std::vector<wire::Descriptor> lent;              // a transfer to finish on release: one or none
    ripc_status lent_status = RIPC_OK;               // the status to finish it with
    std::vector<std::shared_ptr<const void>> views;  // memory of the lent items, and of a packet that was not copied
    memory::Pool* pool = nullptr;                    // of the leases
    std::vector<std::byte*> leases;                  // items in library memory, given back on release
  };

  Message* next = nullptr;  // in the pool's lists, or the receiver's
  Message* made_before = nullptr;
  MessagePool* owner = nullptr;
  bool large = false;
  std::uint32_t tag = 0;
  ripc_service_id source = 0;
  const spi::Peer* peer = nullptr;  // the sender's peer; valid as long as the context
  std::uint64_t in_reply_to = 0;
  std::uint64_t request = 0;  // the sender's name for it, if it attached return buffers
  std::uint32_t item_count = 0;
  std::uint32_t item_capacity = 0;
  ripc_item_view* items = nullptr;
  std::byte* storage = nullptr;  // the packet's bytes
  std::size_t storage_size = 0;
  std::unique_ptr<Attachments> attachments;

  // Makes the attachments, with room for this many return buffers and lent items, so that adding them allocates
  // nothing.
  void attach(std::size_t grants, std::size_t lent_items);
  // Keeps the packet, or what follows its head, in this memory instead of a copy. Throws std::bad_alloc.
  void keep(spi::Bytes packet, const std::shared_ptr<const void>& memory);
  // The storage that was allocated with the message.
  std::byte* own_storage() const noexcept { return reinterpret_cast<std::byte*>(items + item_capacity); }
};

// Keeps the memory of lent items without their messages. Must be destroyed before the context.
struct ViewHold {
  std::vector<std::shared_ptr<const void>> views;
  std::vector<memory::Hold> leases;
  std::uint64_t fork_generation = ForkGuard::known_generation();
};
// Any thread. RIPC_EMPTY if nothing is lent. RIPC_FORKED.
Result<std::unique_ptr<ViewHold>> hold_views(const Message& message);

// Lives until its service is gone and all its messages are back, or its context is gone.
//
// The receiving thread takes messages and usually gives them back too: that needs no locked instruction. Any other
// thread gives them back through a list that the receiver empties as a whole.
class MessagePool {
 public:
  // packet_limit: bytes of the largest packet. max_messages: how many may be out at once.
  MessagePool(MessagePools& pools, std::size_t packet_limit, std::uint32_t max_messages);

  // Called by the receiving thread before it takes messages: it becomes the owner. Threads that take turns all give
  // messages back through the list, until one of them has stayed for a while.
  void enter(const ThreadEpoch::Record& thread) noexcept {
    if (owner_.load(std::memory_order_relaxed) != &thread) [[unlikely]]
      change_owner(thread);
  }

  // Enough for nearly all messages; the others get room for the largest.
  static constexpr std::size_t kSmallItems = 4;
  static constexpr std::size_t kSmallStorage = 512;

  // The receiving thread. nullptr: max_messages are out, or no memory. Allocates nothing once enough messages exist.
  Message* take(std::size_t bytes, std::size_t items) noexcept {
    List& list = bytes > kSmallStorage || items > kSmallItems ? large_ : small_;
    if (list.own == nullptr || out_ >= max_messages_) [[unlikely]] {
      if (!provide(list)) return nullptr;
    }
    return take_from(list);
  }

  // The usual case of take(), for up to kSingleStorage bytes and one item. nullptr: take() has to handle it.
  static constexpr std::size_t kSingleStorage = 256;
  Message* take_single() noexcept {
    static_assert(kSingleStorage <= kSmallStorage);
    return small_.own != nullptr && out_ < max_messages_ ? take_from(small_) : nullptr;
  }

  // The receiving thread. True if max_messages are out.
  bool exhausted() noexcept;
  // The receiving thread. True if fewer than half of max_messages are out.
  bool is_roomy() const noexcept { return out_ < max_messages_ / 2; }

  // Any thread. Ends what the message lends and gives it back to its pool. Not in a forked child, whose parent still
  // has what the message lends.
  static void release(Message* message) noexcept {
    if (message->attachments || !ThreadEpoch::has_current()) [[unlikely]]
      return release_prepared(message);
    MessagePool& pool = *message->owner;
    List& list = message->large ? pool.large_ : pool.small_;
    ThreadEpoch::Record& thread = ThreadEpoch::current();
    {
      const ThreadEpoch::Section section(thread);
      if (pool.owner_.load(std::memory_order_relaxed) == &thread) [[likely]] {
        message->next = std::exchange(list.own, message);
        --pool.out_;
        return;
      }
    }
    pool.give_back_from_elsewhere(list, message);
  }

  // Called when the service is gone, so nobody receives any more. The pool is freed, with all its messages, when the
  // last one is back.
  void close() noexcept;

 private:
  struct List {
    Message* own = nullptr;                   // the receiving thread's
    std::atomic<Message*> returned{nullptr};  // by other threads; closed_mark() after close()
  };
  friend class MessagePools;
  friend Result<std::unique_ptr<ViewHold>> hold_views(const Message& message);
  ~MessagePool();
  static void end_attachments(Message& message) noexcept;
  static void release_prepared(Message* message) noexcept;
  bool provide(List& list) noexcept;
  Message* take_from(List& list) noexcept {
    Message* message = std::exchange(list.own, list.own->next);
    message->in_reply_to = 0;
    message->request = 0;
    message->item_count = 0;
    ++out_;
    return message;
  }
  static Message* closed_mark() noexcept { return reinterpret_cast<Message*>(std::uintptr_t{1}); }
  Message* make(bool large) noexcept;
  void message_returned() noexcept;  // after close()
  void change_owner(const ThreadEpoch::Record& thread) noexcept;
  void collect(List& list) noexcept;
  void give_back_from_elsewhere(List& list, Message* message) noexcept;

  MessagePools& pools_;
  std::size_t packet_limit_;
  std::uint32_t max_messages_;
  Message* made_ = nullptr;  // every message there is; written by the receiving thread
  std::uint32_t out_ = 0;    // as far as the receiving thread knows
  List small_;
  List large_;
  std::atomic<const ThreadEpoch::Record*> owner_{nullptr};  // the receiving thread, or none: threads take turns
  const ThreadEpoch::Record* candidate_ = nullptr;          // without an owner: the current receiver
  std::uint32_t entered_ = 0;                               // how often it entered, without another thread in between
  std::atomic<std::int64_t> remaining_{0};                  // out after close(); negative before it has counted
};

}  // namespace ripc::internal::core
