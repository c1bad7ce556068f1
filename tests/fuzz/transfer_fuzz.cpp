// SPDX-License-Identifier: Apache-2.0
// Fuzzes the words of transfers and grants: a peer may write anything into them, and name any key. Even then,
// both ends stay within their tables, and the owner hands out only what it exposed. A transfer or grant that the owner
// has ended stays ended.
//
// The input consists of steps of ten bytes. The first byte picks what is done, the second picks the slot. The other
// eight are a word that the peer writes, or a key that it sends.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "require.hpp"
#include "transport/shm/transfer_table.hpp"

namespace {

using fuzz::require;
using ripc::internal::shm::Control;
using ripc::internal::shm::ExposedItem;
using ripc::internal::shm::GrantOwner;
using ripc::internal::shm::Key;
using ripc::internal::shm::kGrantSlots;
using ripc::internal::shm::kTransferSlots;
using ripc::internal::shm::TransferOwner;
using ripc::internal::shm::TransferTaker;

constexpr std::size_t kStep = 10;
constexpr std::array<std::byte, 64> kMemory{};
constexpr std::array<ExposedItem, 2> kItems = {{{kMemory.data(), 40, 0}, {kMemory.data() + 40, 24, 7}}};

bool is_exposed(const ExposedItem& item) {
  return std::any_of(kItems.begin(), kItems.end(), [&](const ExposedItem& one) {
    return one.data == item.data && one.size == item.size && one.arena == item.arena;
  });
}

// Both ends of one link, in a page of exactly its size.
class Link {
 public:
  void step(unsigned what, unsigned slot, std::uint64_t value) {
    bool tell = false;
    switch (what % 15) {
      case 0:
        control_->transfers[slot % kTransferSlots].store(value);
        break;
      case 1:
        control_->grants[slot % kGrantSlots].store(value);
        break;
      case 2:
        control_->sender.transfers_watched.store(static_cast<std::uint32_t>(value));
        break;
      case 3:
        expose();
        break;
      case 4:
        find(Key::from(value));
        break;
      case 5:
        if (!exposed_.empty()) revoke(slot);
        break;
      case 6:
        if (!exposed_.empty()) end_if(slot, owner_.status(exposed_key(slot)));
        break;
      case 7:
        check(owner_.collect_finished());
        break;
      case 8:
        if (!exposed_.empty()) owner_.watch(exposed_key(slot));
        break;
      case 9:
        grant();
        break;
      case 10:
        if (!granted_.empty()) end_grant(slot);
        break;
      case 11:
        if (taker_.begin(Key::from(value)) == RIPC_OK) (void)taker_.mark_lent(Key::from(value));
        break;
      case 12:
        (void)taker_.finish(Key::from(value), static_cast<ripc_status>(slot), tell);
        break;
      case 13:
        std::erase_if(draining_, [this](const Key& key) { return owner_.status(key) != RIPC_PENDING; });
        break;
      default:
        if (taker_.begin_write(Key::from(value))) taker_.end_write(Key::from(value), slot % 2 == 0);
    }
  }
  // Once the peer is gone, nothing is open any more.
  void end() {
    owner_.peer_died();
    credit_.peer_died();
    for (const Key& key : exposed_) {
      ExposedItem item{};
      require(!owner_.find(key, item));
      require(owner_.status(key) != RIPC_PENDING);
    }
  }

 private:
  void expose() {
    Key key{};
    if (owner_.expose(kItems, key) == RIPC_OK) {
      require(key.slot < kTransferSlots && key.item == 0);
      exposed_.push_back(key);
    } else {
      require(!owner_.has_room());
    }
  }
  void find(Key key) {
    ExposedItem item{};
    if (owner_.find(key, item)) require(is_exposed(item));
  }
  void revoke(unsigned slot) {
    const Key key = exposed_key(slot);
    bool is_read = false;
    const ripc_status status = owner_.revoke(key, is_read);
    if (status == RIPC_REVOKED && is_read) draining_.push_back(key);
    end_if(slot, status);
  }
  // Once the owner has seen a transfer end, it never hands the transfer out again.
  void end_if(unsigned slot, ripc_status status) {
    if (status == RIPC_PENDING) return;
    const Key key = exposed_key(slot);
    exposed_.erase(exposed_.begin() + static_cast<std::ptrdiff_t>(slot % exposed_.size()));
    ExposedItem item{};
    require(!owner_.find(key, item));
  }
  void end_grant(unsigned slot) {
    const std::size_t index = slot % granted_.size();
    if (credit_.end(granted_[index]) == RIPC_PENDING) return;
    require(!taker_.begin_write(granted_[index]));
    granted_.erase(granted_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  static void check(const TransferOwner::Finished& finished) {
    require(finished.count <= kTransferSlots);
    for (std::size_t index = 0; index < finished.count; ++index)
      require(finished.transfers[index].key.slot < kTransferSlots);
  }
  void grant() {
    Key key{};
    if (credit_.grant(key) == RIPC_OK) {
      require(key.slot < kGrantSlots);
      granted_.push_back(key);
    } else {
      require(!credit_.has_room(1));
    }
  }
  Key exposed_key(unsigned slot) const { return exposed_[slot % exposed_.size()]; }

  std::unique_ptr<Control> control_ = std::make_unique<Control>();
  std::byte* base_ = reinterpret_cast<std::byte*>(control_.get());
  TransferOwner owner_{base_};
  GrantOwner credit_{base_};
  TransferTaker taker_{base_};
  std::vector<Key> exposed_;
  std::vector<Key> draining_;
  std::vector<Key> granted_;
};

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Link link;
  for (std::span<const std::uint8_t> input(data, size); input.size() >= kStep; input = input.subspan(kStep)) {
    std::uint64_t value = 0;
    for (std::size_t index = 0; index < 8; ++index) value |= std::uint64_t{input[2 + index]} << (8 * index);
    link.step(input[0], input[1], value);
  }
  link.end();
  return 0;
}
