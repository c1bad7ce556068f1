// SPDX-License-Identifier: Apache-2.0
// The messages between clients and servers of the object store. The objects are those of FaSST (A. Kalia, M. Kaminsky,
// D. Andersen: FaSST: Fast, Scalable and Simple Distributed Transactions, OSDI 2016): keys of 8 bytes, values of 40.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "ripc/rpc.hpp"

namespace kv {

constexpr std::size_t kMaxServers = 8;
constexpr std::int64_t kOpeningBalance = 1000;

using ObjectKey = std::uint64_t;

// An account. Transactions only move money between accounts, so the sum over all objects stays the same.
struct ObjectValue {
  ObjectKey key;
  std::int64_t balance;
  std::array<std::uint64_t, 3> rest;
};
static_assert(sizeof(ObjectValue) == 40);

inline std::size_t server_of(ObjectKey key, std::size_t servers) { return key % servers; }
inline std::string server_name(std::size_t index) { return "objects." + std::to_string(index); }

// Each method except Open, Audit and Fate is a phase of a transaction. Its first item is a Header; its second is an
// array of the type that its comment names first.
enum Method : std::uint32_t {
  kOpen = 1,  // answered once the server watches the client; until then, the server locks nothing for it
  kExecute,   // Want: reads all objects, locks those to be written; all or nothing. The answer is a Found for each.
  kValidate,  // Seen: is every object unchanged, and not locked by another transaction?
  kLog,       // ObjectValue: kept until the transaction ends; the header names all servers that get this call
  kCommit,    // no array: writes what was logged, and releases the locks
  kAbort,     // no array: releases the locks
  kAudit,     // the answer is an Audit
  kFate,      // from another server: a Question about a transaction whose client has died; the answer is a Fate
};

enum Code : std::uint32_t {
  kDone = 0,
  kConflict,  // another transaction was faster: try again
  kRefused,   // the client is not open, or the server considers it dead
};

struct Header {
  std::uint64_t number;        // of the transaction, counted by its client
  std::uint64_t oldest;        // all transactions with smaller numbers have ended
  std::uint64_t participants;  // kLog: a bit for each server that takes part
};
struct Want {
  ObjectKey key;
  std::uint64_t is_written;
};
struct Found {
  std::uint64_t version;
  ObjectValue value;
};
struct Seen {
  ObjectKey key;
  std::uint64_t version;
};
struct Question {
  ripc::ServiceId client;
  std::uint64_t number;
};
enum class Fate : std::uint32_t { kNothing, kLogged, kCommitted };

struct Audit {
  std::uint64_t objects;
  std::int64_t sum;
  std::uint64_t locked;
  std::uint64_t damaged;       // values that belong to another key
  std::uint64_t dead;          // clients that have ended
  std::uint64_t given_up;      // transactions of dead clients that were aborted
  std::uint64_t brought_home;  // transactions of dead clients that the servers committed
};

// Up to kMost plain values, without allocation.
template <typename T>
class Few {
 public:
  static constexpr std::size_t kMost = 8;
  static std::optional<Few> from(const ripc::ItemView& view) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::size_t size = view.bytes().size();
    if (!view.ok() || size % sizeof(T) != 0 || size > sizeof(values_)) return std::nullopt;
    std::optional<Few> result(std::in_place);
    std::memcpy(static_cast<void*>(&result->values_), view.bytes().data(), size);
    result->size_ = size / sizeof(T);
    return result;
  }

  void add(const T& value) { values_.at(size_++) = value; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return values_.data(); }
  const T* end() const { return begin() + size_; }
  const T& operator[](std::size_t index) const { return values_[index]; }
  ripc::Item item() const { return ripc::item(std::as_bytes(std::span(begin(), size_))); }

 private:
  std::array<T, kMost> values_;
  std::size_t size_ = 0;
};

}  // namespace kv
