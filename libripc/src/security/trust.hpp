// SPDX-License-Identifier: Apache-2.0
// The trust file: who the members of a cluster are, and what each may be. docs/security.md describes its lines. A last
// line `signature ed25519:<128 hex digits>` signs everything above it. A record has the IDs of groups, not their names,
// so `joins` has no prefixes. In a name, control characters are written as '%' and two hexadecimal digits, too.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/guarded_file.hpp"
#include "base/status.hpp"
#include "ripc/ripc.h"
#include "security/identity.hpp"

namespace ripc::internal::security {

// A parsed trust file. Immutable; any thread.
class Trust {
 public:
  static constexpr std::size_t kMaxFileSize = std::size_t{1} << 20;
  static constexpr std::size_t kMaxMemberName = 64;

  // Names or IDs; `all`: every one.
  struct Grants {
    bool all = false;
    std::unordered_set<std::string> names;
    std::vector<std::string> prefixes;
    std::unordered_set<ripc_service_id> ids;
  };
  struct Member {
    std::string name;
    PublicKey key{};
    ExchangeKey exchange{};  // derived from `key`
    std::optional<uid_t> user;
    Grants holds, joins, calls;
    std::size_t line = 0;
    std::size_t number = 0;  // among the members
  };
  // What the parser needs from its caller: functions that give the ID of a name, or an error, because core defines
  // names.
  struct Reading {
    std::function<Result<ripc_service_id>(std::string_view)> service_id;
    std::function<Result<ripc_service_id>(std::string_view)> group_id;
    std::optional<PublicKey> signer;  // who must have signed it; nullopt: no one
  };

  // RIPC_INVALID_ARGUMENT: its text names `origin`, the line, and what to write. RIPC_REFUSED: the signature is missing
  // or wrong.
  static Result<std::shared_ptr<const Trust>> parse(std::string_view text, const std::string& origin,
                                                    const Reading& reading);
  static Result<std::shared_ptr<const Trust>> load(const std::string& path, const Reading& reading);
  // Whether a member can have this name. RIPC_INVALID_ARGUMENT.
  static Status check_name(std::string_view name);
  // Whether the last line of the text has a line end; if it does not, lines may be missing. RIPC_INVALID_ARGUMENT.
  static Status check_end(std::string_view text, const std::string& origin);
  // Checks a line that is to be added to a file: a name, and what follows it. RIPC_INVALID_ARGUMENT.
  static Status check_member(std::string_view name, std::string_view rest, const Reading& reading);
  // The text of a trust file: a plain file of this user or of root that nobody else may write. RIPC_PERMISSION,
  // RIPC_INVALID_ARGUMENT (it is too large), RIPC_NO_DESCRIPTORS, RIPC_SYSTEM (for example, the file is missing).
  static Result<GuardedText> read(const std::string& path);

  // These return the text without its signature line, and with a new one.
  static std::string_view unsigned_part(std::string_view text) noexcept;
  static std::string signed_text(std::string_view text, const Identity& signer);

  // These return nullptr if the member is not in the file.
  const Member* member(const PublicKey& key) const noexcept;
  const Member* member_with(const ExchangeKey& key) const noexcept;
  const Member* member_named(std::string_view name) const noexcept;
  const Member* member_of(uid_t user) const noexcept;
  const std::vector<Member>& members() const noexcept { return members_; }
  bool is_signed() const noexcept { return is_signed_; }

  // Whether the member may have a record of this service. `name`: empty if the service has none.
  bool may_hold(const Member& member, std::string_view name, ripc_service_id id) const;
  // Whether the file gives the ID to this member; then the member may take it over from any other. Otherwise only the
  // holder itself may take it again.
  bool is_given(const Member& member, std::string_view name, ripc_service_id id) const;
  bool may_join(const Member& member, ripc_service_id group) const noexcept;
  bool may_call(const Member& member, std::string_view name, ripc_service_id id) const;
  // Whether a peer may claim to have this ID, when the name is not known. nullptr: the peer is not in the file.
  bool may_claim(const Member* member, ripc_service_id id) const;

 private:
  friend class TrustReader;
  struct Text {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard library's
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
  };
  using Holders = std::vector<std::size_t>;  // members, by their numbers
  template <typename Key, typename Hash = std::hash<Key>>
  using Index = std::unordered_map<Key, Holders, Hash, std::equal_to<>>;
  struct KeyHash {
    std::size_t operator()(const std::array<std::byte, 32>& key) const noexcept {
      return Text()({reinterpret_cast<const char*>(key.data()), key.size()});
    }
  };
  // Who may hold the name, by the most exact entry; nullptr: nobody.
  const Holders* holders_of(std::string_view name) const;

  std::vector<Member> members_;
  std::unordered_map<PublicKey, std::size_t, KeyHash> by_key_;
  std::unordered_map<ExchangeKey, std::size_t, KeyHash> by_exchange_;
  std::unordered_map<std::string, std::size_t, Text, std::equal_to<>> by_name_;
  std::unordered_map<uid_t, std::size_t> by_user_;
  Index<std::string, Text> names_;         // entries of `holds`
  Index<std::string, Text> prefixes_;      // without the '*'
  Index<ripc_service_id> ids_;             // including the IDs of names_
  std::vector<std::size_t> prefix_sizes_;  // longest first
  bool is_signed_ = false;
};

}  // namespace ripc::internal::security
