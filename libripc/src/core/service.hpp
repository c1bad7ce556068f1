// SPDX-License-Identifier: Apache-2.0
// A registered service: sends, receives, owns its windows, requests and notifications.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/event_loop.hpp"
#include "base/thread_epoch.hpp"
#include "core/context.hpp"
#include "core/group_table.hpp"
#include "core/message.hpp"
#include "core/notification.hpp"
#include "core/requests.hpp"
#include "core/window_queue.hpp"
#include "spi/resolver.hpp"
#include "spi/transport.hpp"

namespace ripc::core {

struct ServiceOptions {
  ripc_service_id id = 0;
  std::string name;
  bool takeover = false;
  std::uint32_t queue_messages = 128;
  std::uint32_t queue_bytes = 8192;
  std::uint32_t max_senders = 4096;
  std::uint32_t max_messages = 65536;
};

// One send, whatever it is.
struct SendArguments {
  ripc_service_id to = 0;
  std::span<const ripc_item> items;
  std::uint32_t tag = 0;
  std::span<const ripc_return_buffer> returns;
  Nanoseconds timeout = 30'000'000'000;
  ripc_ticket_callback callback = nullptr;
  void* user = nullptr;
  std::uint64_t* request_id = nullptr;
  ripc_group_outcome* outcome = nullptr;
  const Message* reply_to = nullptr;
  bool holds_leases = false;  // the short items that lie in leases stay as they are while somebody holds those
};

// Written by one thread at a time, or by many where fetch_add is used; read by any.
struct Counters {
  std::atomic<std::uint64_t> payload_messages_sent{0}, other_messages_sent{0}, short_bytes_sent{0};
  std::atomic<std::uint64_t> long_items_sent{0}, items_returned{0}, again{0}, wakes_sent{0}, notifications_sent{0};
  std::atomic<std::uint64_t> resolutions{0}, group_packets{0}, send_copies{0};
  // Those with payload only, which cost one copy each; the others.
  alignas(64) std::atomic<std::uint64_t> payload_messages_received{0};
  std::atomic<std::uint64_t> short_bytes_received{0}, other_messages_received{0};
  std::atomic<std::uint64_t> long_items_received{0}, long_bytes_received{0};
  std::atomic<std::uint64_t> items_lent{0}, items_discarded{0}, sleeps{0}, packets_corrupt{0}, receive_copies{0};
};

// One writer: no need for a locked instruction.
inline void increase(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

class Service final : private spi::PacketSink {
 public:
  Service(Context& context, const ServiceOptions& options, EventSet events);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Opens a port on each transport, then makes the service findable.
  Status open(std::vector<std::unique_ptr<spi::Transport>>& transports, spi::Resolver& resolver);
  // Publishes the context's addresses, if others were published. Any thread. The errors of Resolver::update().
  Status publish_addresses();
  // Withdraws it and ends what it has under way.
  void close(spi::Resolver& resolver) noexcept;

  Context& context() noexcept { return context_; }
  ripc_service_id id() const noexcept { return record_.id; }
  const std::string& name() const noexcept { return record_.name; }
  // As it is published now.
  spi::ServiceRecord record() const {
    const std::lock_guard lock(record_mutex_);
    return record_;
  }
  std::uint64_t incarnation() const noexcept { return record_.incarnation; }
  WindowQueue& windows() noexcept { return windows_; }
  NotificationTable& notifications() noexcept { return *notifications_; }

  // ---- Sending: any thread (send.cpp, room.cpp) ----
  // A message of short items with no option but a tag, where the channel is known: no allocation, no lock.
  // RIPC_PENDING: send() has to look at it.
  ripc_status send_short(ripc_service_id to, std::uint32_t tag, std::span<const ripc_item> items) noexcept;
  Status send(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket);
  // Adds to `sent` what was sent; not ok: why the next message was not.
  // `each`: what is the same for all of them. `tickets`: empty, or one for each message.
  Status send_many(const SendArguments& each, std::span<const ripc_outgoing> messages,
                   std::span<std::shared_ptr<Ticket>> tickets, std::size_t& sent);
  Status notify(ripc_service_id to, std::uint64_t handle, std::span<const ripc_item> items);
  Status cancel_request(std::uint64_t id);
  Result<std::size_t> short_limit(ripc_service_id to, std::size_t items);
  Status wait_room(ripc_service_id to, Deadline deadline);
  Status request_room_event(ripc_service_id to);

  // ---- Groups: any thread (group.cpp) ----
  Status join(ripc_service_id group);
  Status leave(ripc_service_id group);

  // ---- Receiving: one thread at a time (receive.cpp) ----
  ripc_status receive(std::uint32_t flags, Nanoseconds timeout, std::span<Message*> messages,
                      std::size_t& count) noexcept;
  void interrupt() noexcept;
  int event_fd() noexcept;

  void fence() noexcept;
  // A peer that had no room has some now, or is gone.
  void room_changed() noexcept;
  void fill_statistics(ripc_service_statistics& statistics) const noexcept;

 private:
  // A message with long items whose bytes are not all here yet.
  struct Assembly;
  struct Outgoing;
  struct Offer;
  struct GroupSend;

  ripc_status usable() const noexcept { return static_cast<ripc_status>(state_.load(std::memory_order_relaxed)); }

  // The thread that sent first counts in a place of its own, without locked instructions; others share one.
  void count_sent(const ThreadEpoch::Record& thread, std::size_t bytes) noexcept {
    if (main_sender_.load(std::memory_order_relaxed) != &thread) [[unlikely]]
      return count_sent_first(thread, bytes);
    if (bytes != 0) [[likely]] {
      increase(main_counters_.payload_messages);
      increase(main_counters_.bytes, bytes);
    } else {
      increase(main_counters_.empty_messages);
    }
  }
  [[gnu::noinline]] void count_sent_first(const ThreadEpoch::Record& thread, std::size_t bytes) noexcept;
  // Those that the thread has made since.
  void count_wakes(const ThreadEpoch::Record& thread, std::uint64_t before) noexcept {
    if (thread.wakes != before) [[unlikely]]
      counters_.wakes_sent.fetch_add(thread.wakes - before, std::memory_order_relaxed);
  }
  // Sends and counts. In the thread's read section, in which the channel was found.
  ripc_status send_by(spi::Channel& channel, const wire::Plain& message, const ThreadEpoch::Record& thread) noexcept {
    const std::uint64_t wakes = thread.wakes;
    const ripc_status status = channel.send_plain(message);
    if (status == RIPC_OK) [[likely]]
      count_sent(thread, message.bytes);
    count_wakes(thread, wakes);
    if (status == RIPC_AGAIN) counters_.again.fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  // The same for items that are given.
  ripc_status send_given_by(spi::Channel& channel, const wire::Plain& message,
                            const ThreadEpoch::Record& thread) noexcept;
  // Whether this makes a plain message; of how many bytes.
  static bool is_plain(std::span<const ripc_item> items, std::size_t& bytes) noexcept {
    if (items.size() > RIPC_MAX_ITEMS) [[unlikely]]
      return false;
    for (const ripc_item& item : items) {
      if (item.kind > RIPC_ITEM_SHORT || (item.data == nullptr && item.size != 0) || item.size > wire::kMaxItemBody)
          [[unlikely]]
        return false;
      bytes += item.size;
    }
    return true;
  }
  // False if this is no plain message.
  bool describe(std::span<const ripc_item> items, std::uint32_t tag, wire::Plain& message) const noexcept {
    std::size_t bytes = 0;
    if (!is_plain(items, bytes)) return false;
    message = {.source = id(), .tag = tag, .items = items, .bytes = bytes};
    return true;
  }
  std::size_t send_batch(ripc_service_id to, std::span<const ripc_outgoing> messages) noexcept;
  template <typename Send>
  Status send_given(const SendArguments& arguments, Send&& send);
  Status send_held(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket);
  Status send_plain(const SendArguments& arguments, bool& fits);
  Status send_planned(const SendArguments& arguments, std::shared_ptr<Ticket>* ticket);
  Result<memory::Hold> memory_of(const ripc_item& item, bool is_told);
  Status send_prepared(const SendArguments& arguments, Outgoing& outgoing, std::shared_ptr<spi::Channel> channel,
                       std::shared_ptr<Ticket>* ticket);
  Status transmit(const SendArguments& arguments, Outgoing& outgoing, const std::shared_ptr<spi::Channel>& channel,
                  std::shared_ptr<Ticket>* ticket);
  ripc_status transmit_packet(const SendArguments& arguments, const Outgoing& outgoing,
                              std::span<const wire::Descriptor> descriptors, const Offer& offer) noexcept;
  enum class Search { no, yes };
  Result<bool> room_at(ripc_service_id to, bool request, Search search);
  void push_returns(const SendArguments& arguments, Outgoing& outgoing, bool may_write);

  Status change_groups(ripc_service_id group, bool join);
  Status send_to_group(const SendArguments& arguments);
  void send_to_members(const GroupList& list, GroupSend& sending);
  void send_together(GroupSend& sending) noexcept;
  ripc_status send_to_member(GroupMember& member, GroupSend& sending, bool alone = true);
  Status connect_and_send(GroupMember& member, GroupSend& sending);
  void lose_member(const GroupMember& member, ripc_service_id group);
  Result<std::size_t> group_short_limit(ripc_service_id group, std::size_t items);
  Result<bool> group_room(ripc_service_id group, bool request);

  spi::Delivery deliver(spi::Source& source, spi::Bytes bytes) noexcept override;
  void source_gone(spi::Source& source) noexcept override;
  [[gnu::noinline]] spi::Delivery deliver_plain(spi::Source& source, spi::Bytes bytes) noexcept;
  spi::Delivery deliver_special(spi::Source& source, spi::Bytes bytes) noexcept;
  spi::Delivery reject() noexcept;
  // There is no memory for this packet now.
  spi::Delivery starve() noexcept {
    starved_ = !pool_->exhausted();
    return spi::Delivery::stop;
  }
  void learn(spi::Source& source, ripc_service_id id) noexcept;
  void learn_address(spi::Source& source, ripc_service_id id) noexcept;
  void emit_plain(Message* message, std::uint64_t source, std::uint32_t tag, std::size_t items,
                  std::size_t bytes) noexcept {
    message->item_count = static_cast<std::uint32_t>(items);
    message->tag = tag;
    message->source = source;
    if (bytes != 0) [[likely]] {
      increase(counters_.payload_messages_received);
      increase(counters_.short_bytes_received, bytes);
    } else {
      increase(counters_.other_messages_received);
    }
    emit(message);
  }
  // To the caller of receive(), or, if there is no room left, to the next one.
  void emit(Message* message) noexcept {
    if (output_count_ < output_.size()) [[likely]] {
      output_[output_count_++] = message;
    } else {
      emit_later(message);
    }
  }
  [[gnu::noinline]] void emit_later(Message* message) noexcept;
  // Messages of one source that are being assembled.
  struct Ahead {
    std::size_t messages = 0;
    std::uint64_t bytes = 0;
    bool planned = true;  // all of them have their windows
  };
  // Of all, or of those that come before one of them.
  Ahead look_ahead_of(const spi::Source& source, const Assembly* until = nullptr) const noexcept;
  bool may_begin(const spi::Source& source, const Ahead& ahead) const noexcept;
  bool windows_are_ahead() const noexcept;
  bool may_plan(const Assembly& assembly, const wire::Packet& packet) const noexcept;
  spi::Delivery assemble(spi::Source& source, Message* message, const wire::Packet& packet);
  void plan(Assembly& assembly, const wire::Packet& packet) noexcept;
  bool progress(Assembly& assembly, const wire::Packet* packet = nullptr) noexcept;
  ripc_status prepare_all(Assembly& assembly) noexcept;
  ripc_status pull_all(Assembly& assembly) noexcept;
  ripc_status finish(Assembly& assembly) noexcept;
  void drop(Assembly& assembly, ripc_status status) noexcept;
  void progress_all() noexcept;
  bool cancel_answer(std::uint64_t request) noexcept;
  ripc_status receive_nothing(std::size_t& count) noexcept;
  ripc_status sleep_for_room(std::uint32_t seen, Deadline deadline);
  void wake_room_waiters() noexcept;
  [[gnu::noinline]] ripc_status receive_later(Nanoseconds timeout, std::size_t& count) noexcept;
  std::size_t poll_ports() noexcept {
    if (pending_) [[unlikely]]
      poll_pending();
    took_ = false;
    starved_ = false;
    for (const auto& port : ports_) {
      if (output_count_ >= output_.size()) break;
      if (port->poll(*this, output_.size() - output_count_) != 0) took_ = true;
    }
    return output_count_;
  }
  void poll_pending() noexcept;
  ripc_status sleep(Deadline deadline) noexcept;
  bool polls_for_bytes(Deadline deadline) noexcept;
  // In the receiving thread. What the clock said when it was read last; 0 in now_: it has to be read again.
  Nanoseconds time() noexcept { return now_ != 0 ? now_ : now_ = monotonic_now(); }
  template <typename Step>
  ripc_status attempt(Assembly& assembly, Nanoseconds timeout, Step&& step) noexcept;
  void close_ports() noexcept;
  void arm() noexcept;
  void disarm() noexcept;

  Context& context_;
  ServiceOptions options_;
  spi::ServiceRecord record_;
  mutable std::mutex record_mutex_;  // the groups and addresses of record_, published_, and what the resolver was told
  EventSet events_;
  std::vector<std::unique_ptr<spi::Port>> ports_;
  std::recursive_mutex ports_mutex_;  // their end; what the loop does meanwhile may end the service too
  bool published_ = false;
  std::atomic<int> state_{RIPC_OK};  // RIPC_FENCED, RIPC_CLOSED: every call says so from then on
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> uses_fd_{false};

  WindowQueue windows_;
  RequestTable requests_;
  std::shared_ptr<NotificationTable> notifications_;

  // The receiving thread's own.
  MessagePool* pool_ = nullptr;
  std::span<Message*> output_;
  std::size_t output_count_ = 0;
  std::uint32_t flags_ = 0;
  bool armed_ = false;
  bool took_ = false;            // the last look at the ports took packets, whether they made messages or not
  bool pending_ = false;         // ready_ or assemblies_ may hold something
  bool starved_ = false;         // a packet stays where it is for want of memory
  Nanoseconds now_ = 0;          // see time(): since the last sleep, or some work
  Nanoseconds bytes_until_ = 0;  // when polling for bytes that are on their way ends; 0: it has not begun
  bool polls_bytes_ = false;     // they were worth it when last looked at
  Message* ready_ = nullptr;     // linked by their `next`, in order
  Message* last_ready_ = nullptr;
  std::list<Assembly> assemblies_;  // written under assemblies_mutex_
  std::mutex assemblies_mutex_;     // taken before any lock of a transport: cancel_answer() comes from other threads

  std::atomic<std::uint32_t> room_changes_{0};  // threads that wait for room sleep on it
  std::atomic<std::uint32_t> room_waiters_{0};

  mutable Counters counters_;
  struct alignas(64) {
    std::atomic<std::uint64_t> payload_messages{0}, empty_messages{0}, bytes{0};
  } main_counters_;  // written by the main sender only
  std::atomic<const ThreadEpoch::Record*> main_sender_{nullptr};
};

[[gnu::always_inline]] inline ripc_status Service::send_short(ripc_service_id to, std::uint32_t tag,
                                                              std::span<const ripc_item> items) noexcept {
  std::size_t bytes = 0;
  if (usable() != RIPC_OK || !is_plain(items, bytes)) [[unlikely]]
    return RIPC_PENDING;
  const wire::Plain message{.source = id(), .tag = tag, .items = items, .bytes = bytes};
  ThreadEpoch::Record& thread = ThreadEpoch::current();
  const ThreadEpoch::Section section(thread);
  const std::shared_ptr<spi::Channel>* channel = context_.routes().find(to);
  if (channel == nullptr) [[unlikely]]
    return RIPC_PENDING;
  const ripc_status status = send_by(**channel, message, thread);
  return status == RIPC_OK || status == RIPC_AGAIN ? status : RIPC_PENDING;
}

[[gnu::always_inline]] inline ripc_status Service::receive(std::uint32_t flags, Nanoseconds timeout,
                                                           std::span<Message*> messages, std::size_t& count) noexcept {
  if (armed_) [[unlikely]]
    disarm();
  output_ = messages;
  output_count_ = 0;
  flags_ = flags;
  now_ = 0;
  pool_->enter(ThreadEpoch::current());
  if (usable() != RIPC_OK || poll_ports() == 0) return receive_later(timeout, count);
  count = output_count_;
  return RIPC_OK;
}

}  // namespace ripc::core
