// SPDX-License-Identifier: Apache-2.0
#include "core/state/message.hpp"

#include <algorithm>
#include <new>

namespace ripc::internal::core {

namespace {

// A thread that receives this often in a row does not take turns with others.
constexpr std::uint32_t kCallsToOwn = 256;

}  // namespace

void Message::attach(std::size_t grants, std::size_t lent_items) {
  if (!attachments) attachments = std::make_unique<Attachments>();
  attachments->grants.reserve(grants);
  if (lent_items != 0) attachments->lent.reserve(1);
  attachments->views.reserve(attachments->views.size() + lent_items);
  attachments->leases.reserve(lent_items);
}

void Message::keep(spi::Bytes packet, const std::shared_ptr<const void>& memory) {
  attach(0, 0);
  attachments->views.push_back(memory);
  // Nobody writes to this memory.
  storage = const_cast<std::byte*>(packet.data());
  storage_size = packet.size();
}

MessagePools::~MessagePools() {
  for (MessagePool* pool : std::exchange(pools_, {})) delete pool;
}

MessagePool::MessagePool(MessagePools& pools, std::size_t packet_limit, std::uint32_t max_messages)
    : pools_(pools), packet_limit_(packet_limit), max_messages_(max_messages) {
  const std::lock_guard lock(pools_.mutex_);
  pools_.pools_.insert(this);
}

MessagePool::~MessagePool() {
  while (made_ != nullptr) {
    Message* message = std::exchange(made_, made_->made_before);
    message->~Message();
    ::operator delete(message);
  }
  const std::lock_guard lock(pools_.mutex_);
  pools_.pools_.erase(this);
}

Message* MessagePool::make(bool large) noexcept {
  const std::size_t items = large ? RIPC_MAX_ITEMS : kSmallItems;
  const std::size_t storage = large ? packet_limit_ : kSmallStorage;
  const std::size_t items_offset = (sizeof(Message) + 15) & ~std::size_t{15};
  const std::size_t storage_offset = items_offset + items * sizeof(ripc_item_view);
  void* memory = ::operator new(storage_offset + storage, std::nothrow);
  if (memory == nullptr) return nullptr;
  auto* message = new (memory) Message;
  message->large = large;
  message->item_capacity = static_cast<std::uint32_t>(items);
  message->items = reinterpret_cast<ripc_item_view*>(static_cast<std::byte*>(memory) + items_offset);
  message->storage = message->own_storage();
  message->storage_size = storage;
  message->owner = this;
  message->made_before = std::exchange(made_, message);
  return message;
}

// Taking over from an owner costs a barrier, which interrupts every processor that runs a thread of this process.
void MessagePool::change_owner(const ThreadEpoch::Record& thread) noexcept {
  if (const ThreadEpoch::Record* former = owner_.exchange(nullptr, std::memory_order_seq_cst)) {
    // The former owner may still be giving a message back as if it were the owner.
    ThreadEpoch::synchronize(*former);
    candidate_ = &thread;
    entered_ = 0;
    return;
  }
  const bool is_first = candidate_ == nullptr;
  if (candidate_ != &thread) entered_ = 0;
  candidate_ = &thread;
  if (is_first || ++entered_ >= kCallsToOwn) owner_.store(&thread, std::memory_order_seq_cst);
}

void MessagePool::collect(List& list) noexcept {
  Message* message = list.returned.exchange(nullptr, std::memory_order_acquire);
  while (message != nullptr) {
    Message* next = message->next;
    message->next = list.own;
    list.own = message;
    --out_;
    message = next;
  }
}

bool MessagePool::exhausted() noexcept {
  if (out_ < max_messages_) [[likely]]
    return false;
  collect(small_);
  collect(large_);
  return out_ >= max_messages_;
}

// Makes sure that the list has a message to take. False: max_messages are out, or there is no memory.
bool MessagePool::provide(List& list) noexcept {
  if (exhausted()) return false;
  if (list.own == nullptr && list.returned.load(std::memory_order_relaxed) != nullptr) collect(list);
  if (list.own == nullptr) list.own = make(&list == &large_);
  return list.own != nullptr;
}

void MessagePool::end_attachments(Message& message) noexcept {
  Message::Attachments& attachments = *message.attachments;
  for (const wire::Descriptor& descriptor : attachments.lent)
    (void)attachments.source->finish(descriptor, attachments.lent_status);
  for (std::byte* lease : attachments.leases) (void)attachments.pool->release(lease);
  message.attachments.reset();
  if (message.storage == message.own_storage()) return;
  message.storage = message.own_storage();
  message.storage_size = message.large ? message.owner->packet_limit_ : kSmallStorage;
}

// Separate from release(), which then calls nothing and has no registers to save.
void MessagePool::release_prepared(Message* message) noexcept {
  if (!message->owner->pools_.usable()) return;
  if (message->attachments) end_attachments(*message);
  (void)ThreadEpoch::current();
  release(message);
}

Result<std::unique_ptr<ViewHold>> hold_views(const Message& message) {
  if (!message.owner->pools_.usable()) return RIPC_FORKED;
  const auto is_lent = [](const ripc_item_view& item) { return item.kind == RIPC_VIEW_LENT; };
  if (std::none_of(message.items, message.items + message.item_count, is_lent)) return RIPC_EMPTY;
  const Message::Attachments* attachments = message.attachments.get();
  auto hold = std::make_unique<ViewHold>();
  hold->views = attachments->views;
  for (const std::byte* lease : attachments->leases) {
    Result<memory::Hold> held = attachments->pool->hold(lease, 0);
    if (!held.ok()) return held.status();
    hold->leases.push_back(std::move(*held));
  }
  return hold;
}

void MessagePool::give_back_from_elsewhere(List& list, Message* message) noexcept {
  Message* first = list.returned.load(std::memory_order_acquire);
  while (first != closed_mark()) {
    message->next = first;
    if (list.returned.compare_exchange_weak(first, message, std::memory_order_release, std::memory_order_acquire))
      return;
  }
  message_returned();
}

void MessagePool::close() noexcept {
  if (const ThreadEpoch::Record* former = owner_.exchange(nullptr, std::memory_order_seq_cst))
    ThreadEpoch::synchronize(*former);
  for (List* list : {&small_, &large_}) {
    Message* returned = list->returned.exchange(closed_mark(), std::memory_order_acq_rel);
    for (const Message* message = returned; message != nullptr; message = message->next) --out_;
  }
  const std::int64_t out = out_;
  // Messages that came back since the lists were closed have been counted down already.
  if (remaining_.fetch_add(out, std::memory_order_acq_rel) + out == 0) delete this;
}

void MessagePool::message_returned() noexcept {
  if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

}  // namespace ripc::internal::core
