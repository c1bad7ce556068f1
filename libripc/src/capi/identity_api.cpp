// SPDX-License-Identifier: Apache-2.0
// Identities and trust files, of the C interface.
#include <sodium.h>

#include <cstring>
#include <string>

#include "base/key_file.hpp"
#include "capi/credentials.hpp"
#include "capi/error.hpp"
#include "capi/handles.hpp"
#include "ripc/identity.h"

using namespace ripc::internal;            // NOLINT: the C functions stand outside of any namespace
using namespace ripc::internal::capi;      // NOLINT
using namespace ripc::internal::security;  // NOLINT

namespace {

constexpr mode_t kOnlyOwner = 0600;
constexpr mode_t kReadable = 0644;
constexpr std::string_view kOtherIdentity =
    "make the folder writable for this user, or name another file: ripc key new --identity -o FILE";
constexpr std::string_view kOtherTrust =
    "make the folder writable for this user, or name another file with RIPC_TRUST_FILE";

struct Place {
  std::string path;
  bool is_default = false;
};

Result<Place> find_place(const char* file, const char* variable, std::string_view name) {
  if (Status status = check_file(file); !status.ok()) return status;
  bool is_named = false;
  Place place{.path = read_place(variable, file, name, is_named), .is_default = !is_named};
  if (place.path.empty())
    return Status(RIPC_SYSTEM,
                  "This user has no home for the file: name one, and set " + std::string(variable) + " to it.");
  return place;
}

Status give(const std::string& text, char* to, std::size_t size) {
  if (to == nullptr) return {};
  if (text.size() >= size)
    return Status(RIPC_INVALID_ARGUMENT, "There is no room for the path of the file: pass 4096 bytes.");
  std::memcpy(to, text.c_str(), text.size() + 1);
  return {};
}

Status give_key(const Identity& identity, char* to) {
  return give(public_key_text(identity.public_key()), to, RIPC_PUBLIC_KEY_SIZE);
}

// The way in which contexts of this user that talk to other hosts read it, even if this program does not. The file is
// for all of them.
Result<Trust::Reading> default_reading() {
  ripc_context_options options;
  ripc_context_options_init(&options);
  options.network = RIPC_NETWORK_KEY;
  Result<NetworkAccess> access = read_network_access(options);
  if (!access.ok()) return access.status();
  return trust_reading(access->keys.get());
}

// The signer's identity; null: nobody signs. RIPC_REFUSED: another identity must sign.
Result<std::shared_ptr<const Identity>> read_signer(const char* file, const std::optional<PublicKey>& wanted) {
  if (file == nullptr && !wanted) return std::shared_ptr<const Identity>();
  if (file == nullptr)
    return Status(RIPC_REFUSED,
                  "The cluster key file names a signer, so a changed trust file must be signed: say --signer FILE "
                  "here, with the identity of " +
                      public_key_text(*wanted) + ". `ripc trust sign` signs a file as it is.");
  if (*file == '\0')
    return Status(RIPC_INVALID_ARGUMENT, "The name of the signer's file is empty: name one, or pass NULL for none.");
  const Result<GuardedText> text = read_guarded_file(file, {.what = "identity file",
                                                            .setting = "--signer FILE",
                                                            .remedy = "`ripc key new --identity -o FILE` makes one",
                                                            .most = 4096});
  if (!text.ok()) return text.status();
  Result<std::shared_ptr<const Identity>> identity = Identity::parse(text->view(), file);
  if (identity.ok() && wanted && (*identity)->public_key() != *wanted)
    return Status(RIPC_REFUSED, "The cluster key file names the signer " + public_key_text(*wanted) + ", but " +
                                    std::string(file) + " is the identity " +
                                    public_key_text((*identity)->public_key()) +
                                    ": say --signer FILE with the file of the former.");
  return identity;
}

// A line of a trust file, unchecked.
struct Line {
  std::string_view name, key, rights;

  explicit Line(std::string_view line) noexcept {
    line = trimmed(line.substr(0, line.find('\n')));
    if (line.empty() || line.front() == '#') return;
    name = take_word(line);
    key = take_word(line);
    rights = trimmed(line);
  }
};

// Every line, with its '\n'.
template <typename Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n') + 1);
    visit(line.empty() ? text : line);
    text.remove_prefix(line.empty() ? text.size() : line.size());
  }
}

enum class Change { any, add };

Result<std::string> changed_text(std::string_view text, std::string_view name, const char* line, Change change,
                                 const std::string& path) {
  std::string changed;
  bool is_found = false;
  for_each_line(text, [&](std::string_view old) {
    if (Line(old).name != name) {
      changed += old;
      return;
    }
    is_found = true;
    if (line != nullptr) changed.append(name).append(" ").append(line).append("\n");
  });
  if (change == Change::add && is_found)
    return Status(RIPC_ID_IN_USE, "'" + std::string(name) + "' is a member already, in the trust file " + path +
                                      ": `ripc trust list` shows it. `ripc trust add --force` replaces its line.");
  if (line == nullptr && !is_found)
    return Status(RIPC_INVALID_ARGUMENT, "The trust file " + path + " has no member '" + std::string(name) +
                                             "': `ripc trust list` shows them.");
  if (line != nullptr && !is_found) changed.append(name).append(" ").append(line).append("\n");
  return changed;
}

Status change_trust(const char* file, const char* name, const char* line, const char* signer, Change change) {
  if (name == nullptr && line != nullptr)
    return Status(RIPC_INVALID_ARGUMENT, "There is a line, but no one's: name the member that it is for.");
  for (const char* given : {name, line}) {
    if (given != nullptr && std::strpbrk(given, "\r\n") != nullptr)
      return Status(RIPC_INVALID_ARGUMENT, "A member has one line: leave out the line break.");
  }
  const Result<Place> place = find_place(file, "RIPC_TRUST_FILE", "trust");
  if (!place.ok()) return place.status();
  const std::string& path = place->path;
  if (name != nullptr) {
    if (Status status = Trust::check_name(name); !status.ok()) return status;
  }
  const Result<Trust::Reading> reading = default_reading();
  if (!reading.ok()) return reading.status();
  if (line != nullptr) {
    if (Status status = Trust::check_member(name, line, *reading); !status.ok()) return status;
  }
  std::shared_ptr<const Identity> signing;
  if (Status status = read_signer(signer, reading->signer).move_to(signing); !status.ok()) return status;
  const bool is_new = !is_there(path);
  if (is_new && line != nullptr && place->is_default) {
    if (Status made = make_key_folders(path, "trust file", kOtherTrust); !made.ok()) return made;
  }
  // Locks nothing if there is nothing to remove or sign.
  UniqueFd lock;
  if (!is_new || line != nullptr) {
    if (Status status = lock_for_change(path, "trust file", kOtherTrust).move_to(lock); !status.ok()) return status;
  }
  std::string text;
  if (is_there(path) || line == nullptr) {
    const Result<GuardedText> old = Trust::read(path);
    if (!old.ok()) return old.status();
    if (Status status = Trust::check_end(old->view(), path); !status.ok()) return status;
    text = Trust::unsigned_part(old->view());
    // A new signature would make true what someone has changed unseen. Whoever signs a file as it is has looked at it.
    if (name != nullptr && reading->signer && text.size() != old->view().size()) {
      if (const auto trust = Trust::parse(old->view(), path, *reading); !trust.ok()) return trust.status();
    }
  }
  if (name != nullptr) {
    if (Status status = changed_text(text, name, line, change, path).move_to(text); !status.ok()) return status;
  }
  if (signing) text = Trust::signed_text(text, *signing);
  if (const auto trust = Trust::parse(text, path, *reading); !trust.ok()) return trust.status();
  return write_whole_file(path, text, kReadable, true, "trust file", kOtherTrust);
}

}  // namespace

extern "C" {

ripc_status ripc_identity_create(const char* file, uint32_t replace, char* path, size_t path_size, char* public_key) {
  return guarded([&]() -> Status {
    if (Status status = check_file(file); !status.ok()) return status;
    const std::string place = file != nullptr ? std::string(file) : default_path("identity.key");
    if (place.empty())
      return Status(RIPC_SYSTEM,
                    "This user has no home for the identity: name a file, and set RIPC_IDENTITY_FILE to it.");
    if (Status status = give(place, path, path_size); !status.ok()) return status;
    if (file == nullptr) {
      if (Status made = make_key_folders(place, "identity", kOtherIdentity); !made.ok()) return made;
    }
    const Result<std::shared_ptr<const Identity>> identity = Identity::generate();
    if (!identity.ok()) return identity.status();
    auto text = (*identity)->secret_text();
    Status status =
        write_whole_file(place, {text.data(), text.size()}, kOnlyOwner, replace != 0, "identity file", kOtherIdentity);
    sodium_memzero(text.data(), text.size());
    if (status.code() == RIPC_EMPTY)
      return Status(RIPC_INVALID_ARGUMENT, "The file " + place +
                                               " is there already: `ripc key show` prints its public key. A new "
                                               "identity in its place (--force) is another member.");
    if (!status.ok()) return status;
    return give_key(**identity, public_key);
  });
}

ripc_status ripc_identity_read(const char* file, char* path, size_t path_size, char* public_key) {
  return guarded([&]() -> Status {
    const Result<Place> place = find_place(file, "RIPC_IDENTITY_FILE", "identity.key");
    if (!place.ok()) return place.status();
    if (Status status = give(place->path, path, path_size); !status.ok()) return status;
    const Result<std::shared_ptr<const Identity>> identity = Identity::load(place->path);
    if (!identity.ok()) return identity.status();
    return give_key(**identity, public_key);
  });
}

ripc_status ripc_trust_read(const char* file, ripc_trust_visitor visitor, void* user) {
  return guarded([&]() -> Status {
    const Result<Place> place = find_place(file, "RIPC_TRUST_FILE", "trust");
    if (!place.ok()) return place.status();
    const Result<GuardedText> text = Trust::read(place->path);
    if (!text.ok()) return text.status();
    const Result<Trust::Reading> reading = default_reading();
    if (!reading.ok()) return reading.status();
    if (const auto trust = Trust::parse(text->view(), place->path, *reading); !trust.ok()) return trust.status();
    if (visitor == nullptr) return {};
    std::uint32_t number = 0;
    for_each_line(Trust::unsigned_part(text->view()), [&](std::string_view whole) {
      ++number;
      const Line line(whole);
      if (line.name.empty()) return;
      const std::string name(line.name);
      const std::string key(line.key);
      const std::string rights(line.rights);
      auto member = blank<ripc_trust_member>();
      member.line = number;
      member.name = name.c_str();
      member.public_key = key.c_str();
      member.rights = rights.c_str();
      visitor(user, &member);
    });
    return {};
  });
}

ripc_status ripc_trust_change(const char* file, const char* name, const char* line, const char* signer) {
  return guarded([&] { return change_trust(file, name, line, signer, Change::any); });
}

ripc_status ripc_trust_add(const char* file, const char* name, const char* line, const char* signer) {
  return guarded([&]() -> Status {
    if (name == nullptr || line == nullptr)
      return Status(RIPC_INVALID_ARGUMENT, "A new member needs a name and a line: pass both.");
    return change_trust(file, name, line, signer, Change::add);
  });
}

}  // extern "C"
