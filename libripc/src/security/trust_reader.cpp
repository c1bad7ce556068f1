// SPDX-License-Identifier: Apache-2.0
// Parses the text of a trust file into a Trust.
#include <algorithm>
#include <utility>

#include "base/group_id.hpp"
#include "base/guarded_file.hpp"
#include "base/hexadecimal.hpp"
#include "base/parse_number.hpp"
#include "base/plain_text.hpp"
#include "base/sodium_calls.hpp"
#include "security/trust.hpp"

namespace ripc::internal::security {
namespace {

constexpr std::string_view kPurpose = "ripc trust 1";
constexpr std::string_view kSignature = "signature ed25519:";
constexpr std::size_t kMaxName = 200;  // bytes of a service's or a group's

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

bool is_member_name(std::string_view name) noexcept {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-' || c == '@';
  };
  return !name.empty() && name.size() <= Trust::kMaxMemberName && name != "signature" &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

// Decodes the escapes of a name; false: one is wrong.
bool read_name(std::string_view text, std::string& name) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      name.push_back(text[i]);
      continue;
    }
    std::byte value{};
    if (!read_hexadecimal(text.substr(i + 1, 2), std::span(&value, 1))) return false;
    name.push_back(static_cast<char>(value));
    i += 2;
  }
  return !name.empty() && name.size() <= kMaxName;
}

// Quotes text for a message, because a file may contain anything.
std::string shown(std::string_view text) {
  return is_plain_text(text.substr(0, kMaxName)) ? "'" + std::string(text.substr(0, kMaxName)) + "'"
                                                 : std::string("what is there");
}

}  // namespace

class TrustReader {
 public:
  TrustReader(std::string_view origin, const Trust::Reading& reading) : origin_(origin), reading_(reading) {}

  Status check_name(std::string_view name) const {
    if (is_member_name(name)) return {};
    return error(shown(name) + " is no member's name: write 1 to 64 letters, digits, '.', '_', '-' or '@'" +
                 (name == "signature" ? "; a signature is the last line" : ""));
  }

  Status check_member(std::string_view name, std::string_view rest) {
    if (Status status = check_name(name); !status.ok()) return status;
    return read_member(std::string(name) + " " + std::string(rest));
  }

  Status check_end(std::string_view text) {
    if (text.empty() || text.back() == '\n') return {};
    line_ = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
    return error("the last line has no end, so the file may be cut off. End it with a newline");
  }

  Result<std::shared_ptr<const Trust>> read(std::string_view text) {
    if (text.size() > Trust::kMaxFileSize) return error("it is larger than 1 MiB");
    if (Status status = check_end(text); !status.ok()) return status;
    const std::string_view members = Trust::unsigned_part(text);
    if (Status status = check_signature(members, text.substr(members.size())); !status.ok()) return status;
    for (std::string_view rest = members; !rest.empty();) {
      ++line_;
      const std::string_view line = trimmed(take_line(rest));
      if (line.empty() || line.front() == '#') continue;
      if (Status status = read_member(line); !status.ok()) return status;
    }
    make_indexes();
    return std::shared_ptr<const Trust>(std::move(trust_));
  }

 private:
  Status error(const std::string& what) const {
    if (origin_.empty()) return Status(RIPC_INVALID_ARGUMENT, "The member cannot be written: " + what + ".");
    return Status(RIPC_INVALID_ARGUMENT, "The trust file " + std::string(origin_) +
                                             (line_ == 0 ? std::string() : ", line " + std::to_string(line_)) + ": " +
                                             what + ".");
  }

  Status check_signature(std::string_view members, std::string_view signature_line) {
    if (signature_line.empty() && !reading_.signer) return {};
    Signature signature{};
    if (!signature_line.empty()) {
      const std::string_view line = trimmed(signature_line.substr(0, signature_line.size() - 1));
      if (!line.starts_with(kSignature) || !read_hexadecimal(line.substr(kSignature.size()), signature)) {
        line_ = static_cast<std::size_t>(std::count(members.begin(), members.end(), '\n')) + 1;
        return error("after 'signature' comes ed25519: and 128 hexadecimal digits: `ripc trust sign` writes it");
      }
      trust_->is_signed_ = true;
    }
    if (!reading_.signer) return {};
    const std::string file = "The trust file " + std::string(origin_);
    const std::string remedy = public_key_text(*reading_.signer) + " signs it: ripc trust sign.";
    if (signature_line.empty())
      return Status(RIPC_REFUSED,
                    file + " is not signed, but the cluster key file names a signer: the owner of " + remedy);
    if (!Identity::verify(*reading_.signer, kPurpose, {bytes_of(members)}, signature))
      return Status(RIPC_REFUSED, file +
                                      " has been changed since it was signed, or another identity signed it. Check "
                                      "it; then the owner of " +
                                      remedy);
    return {};
  }

  Status read_member(std::string_view line) {
    Trust::Member member;
    member.line = line_;
    const std::string_view name = take_word(line);
    if (Status status = check_name(name); !status.ok()) return status;
    member.name = name;
    const std::string_view key = take_word(line);
    if (!read_public_key(key, member.key))
      return error("after the name comes ed25519: and the 64 hexadecimal digits of the member's public key, and not " +
                   shown(key) + ". `ripc key show` prints it on the member's host");
    if (!Identity::exchange_key(member.key, member.exchange))
      return error("the key of " + member.name + " is no public key. `ripc key show` prints it on the member's host");
    bool has_holds = false;
    bool has_joins = false;
    bool has_calls = false;
    while (!trimmed(line).empty()) {
      const std::string_view word = take_word(line);
      const std::size_t equals = word.find('=');
      const std::string_view what = word.substr(0, equals);
      const std::string_view value = equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
      Status status;
      bool is_second = false;
      if (equals == std::string_view::npos) {
        status =
            error(shown(word) + " is not understood: write holds=, joins=, calls= or user=, without blanks in a list");
      } else if (what == "holds") {
        is_second = std::exchange(has_holds, true);
        status = read_grants(value, false, member.holds);
      } else if (what == "joins") {
        is_second = std::exchange(has_joins, true);
        status = read_grants(value, true, member.joins);
      } else if (what == "calls") {
        is_second = std::exchange(has_calls, true);
        status = read_grants(value, false, member.calls);
      } else if (what == "user") {
        is_second = member.user.has_value();
        status = read_user(value, member);
      } else {
        status = error(shown(what) + "= is not known: write holds=, joins=, calls= or user=");
      }
      if (!status.ok()) return status;
      if (is_second) return error(std::string(what) + "= is there twice: join the two");
    }
    member.calls.all = member.calls.all || !has_calls;
    return add(std::move(member));
  }

  Status read_user(std::string_view text, Trust::Member& member) const {
    uid_t user = 0;
    if (!parse_number(text, user) || user == static_cast<uid_t>(-1))
      return error(shown(text) + " is no user's number: `id -u NAME` prints it");
    member.user = user;
    return {};
  }

  Status read_grants(std::string_view list, bool are_groups, Trust::Grants& grants) const {
    while (!list.empty()) {
      const std::size_t comma = list.find(',');
      const std::string_view entry = list.substr(0, comma);
      list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
      if (comma != std::string_view::npos && list.empty())
        return error("a list ends with a comma: an entry is missing");
      if (Status status = read_grant(entry, are_groups, grants); !status.ok()) return status;
    }
    return {};
  }

  Status read_grant(std::string_view entry, bool are_groups, Trust::Grants& grants) const {
    if (entry == "*") {
      grants.all = true;
      grants.prefixes.emplace_back();
      return {};
    }
    if (entry.starts_with("0x")) return read_id(entry, are_groups, grants);
    const bool is_prefix = entry.ends_with('*');
    if (is_prefix) entry.remove_suffix(1);
    std::string name;
    if (entry.find('*') != std::string_view::npos || !read_name(entry, name))
      return error(shown(entry) + " is no name: 1 to 200 bytes, '*' only at its end, other special characters as %HH");
    if (name.find('/') != std::string::npos || (!is_prefix && !is_plain_text(name)))
      return error(shown(entry) + " is no name: names are UTF-8 text without '/' and control characters");
    if (!are_groups) {
      if (is_prefix) {
        grants.prefixes.push_back(std::move(name));
      } else {
        grants.names.insert(std::move(name));
      }
      return {};
    }
    if (is_prefix)
      return error(shown(entry) +
                   "* is a prefix, but a record has only the IDs of groups: write each group's whole "
                   "name, or * for every group");
    const Result<ripc_service_id> id = reading_.group_id(name);
    if (!id.ok()) return error(shown(entry) + " is not the name of a group");
    grants.ids.insert(*id);
    return {};
  }

  Status read_id(std::string_view entry, bool are_groups, Trust::Grants& grants) const {
    ripc_service_id id = 0;
    if (!parse_number(entry.substr(2), id, 16) || id == 0)
      return error(shown(entry) +
                   " is no ID: write 0x and 1 to 16 hexadecimal digits; a name that begins so, as %30x...");
    if (is_group(id) != are_groups)
      return error(shown(entry) +
                   (are_groups ? " is not the ID of a group" : " is the ID of a group: it goes to joins="));
    if (is_named(id)) return error(shown(entry) + " is the ID of a name: write the name");
    grants.ids.insert(id);
    return {};
  }

  Status add(Trust::Member member) {
    const auto twice = [&](const std::string& what, std::size_t other) {
      return error(what + " is that of line " + std::to_string(trust_->members_[other].line) + " too: remove one");
    };
    member.number = trust_->members_.size();
    const auto name = trust_->by_name_.emplace(member.name, member.number);
    if (!name.second) return twice("the name " + member.name, name.first->second);
    const auto key = trust_->by_key_.emplace(member.key, member.number);
    if (!key.second) return twice("the key of " + member.name, key.first->second);
    // Two Ed25519 keys may differ in a sign only, and then share their X25519 key.
    const auto exchange = trust_->by_exchange_.emplace(member.exchange, member.number);
    if (!exchange.second) return twice("the exchange key of " + member.name, exchange.first->second);
    if (member.user) {
      const auto user = trust_->by_user_.emplace(*member.user, member.number);
      if (!user.second) return twice("the user of " + member.name, user.first->second);
    }
    trust_->members_.push_back(std::move(member));
    return {};
  }

  void make_indexes() {
    for (const Trust::Member& member : trust_->members_) {
      for (const std::string& name : member.holds.names) {
        trust_->names_[name].push_back(member.number);
        if (const Result<ripc_service_id> id = reading_.service_id(name); id.ok())
          trust_->ids_[*id].push_back(member.number);
      }
      for (const std::string& prefix : member.holds.prefixes) trust_->prefixes_[prefix].push_back(member.number);
      for (const ripc_service_id id : member.holds.ids) trust_->ids_[id].push_back(member.number);
    }
    std::vector<std::size_t>& sizes = trust_->prefix_sizes_;
    for (const auto& [prefix, holders] : trust_->prefixes_) sizes.push_back(prefix.size());
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  }

  const std::string_view origin_;
  const Trust::Reading& reading_;
  std::size_t line_ = 0;
  std::shared_ptr<Trust> trust_ = std::make_shared<Trust>();
};

Result<std::shared_ptr<const Trust>> Trust::parse(std::string_view text, const std::string& origin,
                                                  const Reading& reading) {
  if (Status status = start_sodium(); !status.ok()) return status;
  return TrustReader(origin, reading).read(text);
}

Status Trust::check_name(std::string_view name) { return TrustReader({}, {}).check_name(name); }

Status Trust::check_member(std::string_view name, std::string_view rest, const Reading& reading) {
  if (Status status = start_sodium(); !status.ok()) return status;
  return TrustReader({}, reading).check_member(name, rest);
}

Status Trust::check_end(std::string_view text, const std::string& origin) {
  return TrustReader(origin, {}).check_end(text);
}

Result<GuardedText> Trust::read(const std::string& path) {
  return read_guarded_file(path, {.what = "trust file",
                                  .setting = "RIPC_TRUST_FILE",
                                  .remedy = "`ripc trust add` makes one",
                                  .most = kMaxFileSize,
                                  .is_secret = false});
}

Result<std::shared_ptr<const Trust>> Trust::load(const std::string& path, const Reading& reading) {
  const Result<GuardedText> text = read(path);
  if (!text.ok()) return text.status();
  return parse(text->view(), path, reading);
}

std::string Trust::signed_text(std::string_view text, const Identity& signer) {
  const std::string_view members = unsigned_part(text);
  return std::string(members) + std::string(kSignature) + hexadecimal(signer.sign(kPurpose, {bytes_of(members)})) +
         "\n";
}

}  // namespace ripc::internal::security
