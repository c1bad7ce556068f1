// SPDX-License-Identifier: Apache-2.0
// What clients and servers of the object store say to each other. Objects are those of FaSST (A. Kalia, M. Kaminsky,
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

// An account: what transactions write moves money, so that the sum over all objects stays.
struct ObjectValue {
  ObjectKey key;
  std::int64_t balance;
  std::array<std::uint64_t, 3> rest;
};
static_assert(sizeof(ObjectValue) == 40);

inline std::size_t server_of(ObjectKey key, std::size_t servers) { return key % servers; }
inline std::string server_name(std::size_t index) { return "objects." + std::to_string(index); }

// Each method but Open, Audit and Fate is a phase of a transaction. Its first item is a Header, its second the array
// that stands behind it here.
enum Method : std::uint32_t {
  kOpen = 1,  // answered once the server watches the client; before that it locks nothing for it
  kExecute,   // Want: reads all, and locks what will be written; all or nothing. The answer is a Found for each.
  kValidate,  // Seen: is every object as it was, and free?
  kLog,       // Write: kept until the transaction ends; the header names all servers that get such a call
  kCommit,    // -: what was logged is written, and the locks are free
  kAbort,     // -: the locks are free
  kAudit,     // the answer is an Audit
  kFate,      // from another server: a Question about a transaction whose client has died; the answer is a Fate
};

enum Code : std::uint32_t {
  kDone = 0,
  kConflict,  // another transaction was faster: try again
  kRefused,   // the client is not open, or thought dead
};

struct Header {
  std::uint64_t number;        // of the transaction, in its client
  std::uint64_t oldest;        // all smaller numbers have ended
  std::uint64_t participants;  // kLog: a bit for each server
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
  std::uint64_t damaged;       // values that are not of their key
  std::uint64_t dead;          // clients that have ended
  std::uint64_t given_up;      // transactions of theirs that wrote nothing
  std::uint64_t brought_home;  // and those that were committed for them
};

// Some plain values, without allocation.
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
