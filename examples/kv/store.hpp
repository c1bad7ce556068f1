// SPDX-License-Identifier: Apache-2.0
// The objects of one server, and the transactions on them. This file knows nothing of calls.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "objects.hpp"

namespace kv {

// Identifies a transaction.
struct Name {
  ripc::ServiceId client = 0;
  std::uint64_t number = 0;
  bool operator==(const Name&) const = default;
};

class Store {
 public:
  // Creates the `count` objects of server `index`; there are `servers` servers.
  Store(std::size_t index, std::size_t servers, std::uint64_t count) {
    objects_.reserve(count);
    for (ObjectKey key = index; key < count * servers; key += servers) objects_[key].value = {key, kOpeningBalance, {}};
  }

  Code execute(const Name& name, const Few<Want>& wants, Few<Found>& found) {
    bool is_written = false;
    for (const Want& want : wants) {
      const auto at = objects_.find(want.key);
      if (at == objects_.end()) return kRefused;
      if (at->second.lock.client != 0) return kConflict;
      found.add({at->second.version, at->second.value});
      is_written = is_written || want.is_written != 0;
    }
    if (!is_written) return kDone;
    auto& locked = transactions_[name].locked;
    for (const Want& want : wants) {
      if (want.is_written == 0) continue;
      objects_.find(want.key)->second.lock = name;
      locked.add(want.key);
    }
    return kDone;
  }
  Code validate(const Name& name, const Few<Seen>& seen) const {
    for (const Seen& each : seen) {
      const auto at = objects_.find(each.key);
      if (at == objects_.end()) return kRefused;
      const Object& object = at->second;
      if (object.version != each.version || (object.lock.client != 0 && object.lock != name)) return kConflict;
    }
    return kDone;
  }
  Code log(const Name& name, std::uint64_t participants, const Few<ObjectValue>& writes) {
    const auto at = transactions_.find(name);
    if (at == transactions_.end()) return kRefused;
    for (const ObjectValue& write : writes) {
      const auto object = objects_.find(write.key);
      if (object == objects_.end() || object->second.lock != name) return kRefused;
    }
    at->second.writes = writes;
    at->second.participants = participants;
    at->second.state = Fate::kLogged;
    return kDone;
  }
  Code commit(const Name& name) {
    const auto at = transactions_.find(name);
    if (at == transactions_.end() || at->second.state != Fate::kLogged) return kRefused;
    for (const ObjectValue& write : at->second.writes) {
      Object& object = objects_.find(write.key)->second;
      object.value = write;
      ++object.version;
    }
    unlock(at->second);
    at->second.state = Fate::kCommitted;
    return kDone;
  }
  void abort(const Name& name) {
    const auto at = transactions_.find(name);
    if (at == transactions_.end()) return;
    unlock(at->second);
    transactions_.erase(at);
  }
  // The store remembers a committed transaction until no server can ask about it any more.
  void forget_before(ripc::ServiceId client, std::uint64_t oldest) {
    std::uint64_t& from = forgotten_[client];
    for (; from < oldest; ++from) transactions_.erase({client, from});
  }

  Fate fate(const Name& name) const {
    const auto at = transactions_.find(name);
    return at == transactions_.end() ? Fate::kNothing : at->second.state;
  }
  std::uint64_t participants(const Name& name) const {
    const auto at = transactions_.find(name);
    return at == transactions_.end() ? 0 : at->second.participants;
  }
  std::vector<Name> transactions_of(ripc::ServiceId client) const {
    std::vector<Name> names;
    for (const auto& [name, transaction] : transactions_)
      if (name.client == client) names.push_back(name);
    return names;
  }
  Audit audit() const {
    Audit audit{};
    for (const auto& [key, object] : objects_) {
      ++audit.objects;
      audit.sum += object.value.balance;
      audit.locked += object.lock.client != 0 ? 1 : 0;
      audit.damaged += object.value.key != key ? 1 : 0;
    }
    return audit;
  }

 private:
  struct Object {
    std::uint64_t version = 0;
    Name lock;  // free if it has no client
    ObjectValue value{};
  };
  struct Transaction {
    Fate state = Fate::kNothing;
    Few<ObjectKey> locked;
    Few<ObjectValue> writes;
    std::uint64_t participants = 0;
  };
  struct Hash {
    std::size_t operator()(const Name& name) const { return absl::HashOf(name.client, name.number); }
  };

  void unlock(Transaction& transaction) {
    for (const ObjectKey key : transaction.locked) objects_.find(key)->second.lock = {};
    transaction.locked = {};
  }

  absl::flat_hash_map<ObjectKey, Object> objects_;
  absl::flat_hash_map<Name, Transaction, Hash> transactions_;  // those that hold locks, and those that were committed
  absl::flat_hash_map<ripc::ServiceId, std::uint64_t> forgotten_;
};

}  // namespace kv
