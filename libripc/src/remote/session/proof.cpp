// SPDX-License-Identifier: Apache-2.0
#include "remote/session/proof.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "security/cipher.hpp"
#include "wire/bytes.hpp"

namespace ripc::internal::remote {

namespace {

using security::Noise;
using security::Secret;
using wire::session_control::Confirm;
using wire::session_control::HandshakeOffer;
using wire::session_control::Hello;
using wire::session_control::HelloReply;
using wire::session_control::kEncrypts;
using wire::session_control::kHasIdentity;
using wire::session_control::kHasKey;
using wire::session_control::kRequiresEncryption;
using wire::session_control::kRequiresIdentity;
using Pattern = Noise::Pattern;

constexpr std::string_view kKeyPurpose = "ripc handshake 1";
constexpr std::string_view kConnectionPurpose = "ripc connection";
constexpr std::string_view kConfirmPurpose = "ripc confirm";

// The bytes that both ends must have seen in the same form.
template <typename T>
std::vector<std::byte> bound(const T& frame) {
  std::vector<std::byte> bytes;
  (void)wire::session_control::encode(frame, bytes);
  return bytes;
}
std::vector<std::byte> bound_hello(Hello hello) {
  hello.offers = {};
  return bound(hello);
}
std::vector<std::byte> bound_reply(HelloReply reply) {
  reply.message = {};
  return bound(reply);
}

// Overwrites what it was given.
Secret secret_of(Secret::Bytes bytes) noexcept {
  Secret secret(bytes);
  sodium_memzero(bytes.data(), bytes.size());
  return secret;
}

Status forged() {
  return Status(RIPC_REFUSED, "The peer's proof does not fit what it says: somebody on the path may have changed it.");
}

}  // namespace

Secret SessionSecret::of_link(bool incoming, bool own, bool sends, std::uint32_t link,
                              std::uint64_t token) const noexcept {
  // Which end has opened the link, and which one sends, as seen by the end that began the session.
  const bool opened_by_beginner = incoming != own;
  const bool sent_by_opener = own == sends;
  std::array<std::byte, 14> bytes;
  bytes[0] = static_cast<std::byte>(opened_by_beginner);
  bytes[1] = static_cast<std::byte>(sent_by_opener);
  wire::store_le<std::uint32_t>(bytes.data() + 2, link);
  wire::store_le<std::uint64_t>(bytes.data() + 6, token);
  return secret.derive("ripc link", {bytes});
}

// ---- What both ends do ---------------------------------------------------------------------------------------

std::uint32_t Proof::abilities() const noexcept {
  std::uint32_t all = security::own_suites();
  if (options_.credentials.keys) all |= kHasKey;
  if (options_.credentials.identity) all |= kHasIdentity;
  if (options_.encryption != Encryption::off && options_.can_prove()) all |= kEncrypts;
  if (options_.encryption == Encryption::required) all |= kRequiresEncryption;
  if (requires_identity()) all |= kRequiresIdentity;
  return all;
}

// Not empty if a proof is needed.
std::vector<Secret> Proof::shared_secrets() const {
  if (session_) return {session_->secret.derive(kConnectionPurpose)};
  std::vector<Secret> all;
  for (std::size_t key = 0; key < options_.credentials.keys->size(); ++key)
    all.push_back(secret_of(options_.credentials.keys->mac(kKeyPurpose, {}, key)));
  return all;
}

Noise Proof::begin(Pattern pattern, bool initiator, const Secret& shared) const {
  Noise::Options options{.pattern = pattern, .initiator = initiator, .prologue = prologue_, .psk = shared};
  if (pattern == Pattern::xx) options.own = secret_of(options_.credentials.identity->exchange_secret());
  return Noise(options);
}

// Best first.
std::vector<Pattern> Proof::patterns() const {
  if (session_) return {Pattern::nn};
  std::vector<Pattern> all;
  if (options_.credentials.identity) all.push_back(Pattern::xx);
  if (!requires_identity()) all.push_back(Pattern::nn);
  return all;
}

// Whether the choice meets the demands of both ends; the ends of a session have agreed already.
bool Proof::suits() const noexcept {
  if (session_) return true;
  const std::uint32_t own = abilities();
  return !((own & kRequiresEncryption) != 0 && (others_ & kEncrypts) == 0) &&
         !((others_ & kRequiresEncryption) != 0 && (own & kEncrypts) == 0) &&
         !((own & kRequiresIdentity) != 0 && (others_ & kHasIdentity) == 0) &&
         !((others_ & kRequiresIdentity) != 0 && (own & kHasIdentity) == 0);
}

Status Proof::refusal() const {
  const std::uint32_t own = abilities();
  const auto lacks = [](std::uint32_t one, std::uint32_t what) { return (one & what) == 0; };
  const char* text =
      "The peer is there, but it has another cluster key than this context: copy the key file of one host to the "
      "other (~/.config/ripc/cluster.key, or RIPC_CLUSTER_KEY_FILE).";
  if (lacks(own, kHasKey) && !lacks(others_, kHasKey)) {
    text =
        "The peer is there, but it has a cluster key, and this context runs without one: unset RIPC_NETWORK, and copy "
        "the peer's key file to ~/.config/ripc/cluster.key (mode 600).";
  } else if (!lacks(own, kHasKey) && lacks(others_, kHasKey)) {
    text =
        "The peer is there, but it runs without a cluster key (RIPC_NETWORK=open), and this context has one: copy this "
        "host's key file to the peer's ~/.config/ripc/cluster.key, and unset RIPC_NETWORK there.";
  } else if (!lacks(own, kRequiresIdentity) && lacks(own, kHasIdentity)) {
    text =
        "This context has a trust file, but no identity to prove to other hosts: make one (`ripc key new --identity`), "
        "and add it to the trust file (`ripc trust add`).";
  } else if (!lacks(others_, kRequiresIdentity) && lacks(others_, kHasIdentity)) {
    text =
        "The peer is there, but it has a trust file, and no identity to prove: make one there (`ripc key new "
        "--identity`), and add it to the trust file (`ripc trust add`).";
  } else if (!lacks(own, kRequiresEncryption) && lacks(others_, kEncrypts)) {
    text =
        "The peer is there, but it does not encrypt, and this context demands it (RIPC_ENCRYPT=required): unset "
        "RIPC_ENCRYPT at the peer.";
  } else if (!lacks(others_, kRequiresEncryption) && lacks(own, kEncrypts)) {
    text =
        "The peer is there, but it demands encryption, and this context does not encrypt (RIPC_ENCRYPT=off): unset "
        "RIPC_ENCRYPT here.";
  } else if (!lacks(own, kRequiresIdentity) && lacks(others_, kHasIdentity)) {
    text =
        "The peer is there, but it has no identity, and this context has a trust file: make an identity there (`ripc "
        "key new --identity`), and add it to the trust file (`ripc trust add`).";
  } else if (!lacks(others_, kRequiresIdentity) && lacks(own, kHasIdentity)) {
    text =
        "The peer is there, but it has a trust file, and this context has no identity: make one (`ripc key new "
        "--identity`), and add it to the peer's trust file (`ripc trust add`).";
  }
  return Status(RIPC_REFUSED, text);
}

Status Proof::note_peer(const Noise& noise) {
  if (!options_.credentials.trust) return {};
  proven_.key = noise.peer();
  const std::shared_ptr<const security::Trust> trust = options_.credentials.trust->current();
  const security::Trust::Member* const member = trust->member_with(*proven_.key);
  if (member == nullptr && !requires_identity()) return {};
  if (member == nullptr)
    return Status(RIPC_REFUSED,
                  "The peer is there, but its identity is not in this context's trust file: add its public key (`ripc "
                  "trust add`).");
  proven_.peer.identity = member->name;
  return {};
}

void Proof::settle() noexcept {
  const Noise::Secrets secrets = chosen_->secrets();
  const std::uint32_t own = abilities();
  if (session_) {
    proven_.session = session_;
  } else {
    proven_.session = SessionSecret{
        .secret = secrets.session,
        .protection = {.suite = security::choose_suite(own, others_), .hides = (own & others_ & kEncrypts) != 0}};
  }
  proven_.to_responder = secrets.to_responder;
  proven_.to_initiator = secrets.to_initiator;
}

// ---- The end that connects ----------------------------------------------------------------------------------

void Proof::offer(Hello& hello) {
  hello.abilities = abilities();
  hello.offers = {};
  attempts_.clear();
  offers_.clear();
  prologue_ = bound_hello(hello);
  if (!is_needed()) return;
  const std::vector<Secret> secrets = shared_secrets();
  for (const Pattern pattern : patterns()) {
    for (const Secret& shared : secrets) {
      attempts_.push_back(begin(pattern, true, shared));
      if (!attempts_.back().write({}, message_)) continue;
      const std::size_t at = offers_.size();
      offers_.resize(at + HandshakeOffer::kSize);
      offers_[at] = static_cast<std::byte>(pattern);
      std::copy(message_.begin(), message_.end(), offers_.begin() + static_cast<std::ptrdiff_t>(at + 1));
    }
  }
  hello.offers = offers_;
}

Status Proof::judge(const HelloReply& reply) {
  others_ = reply.abilities;
  if (!is_needed()) {
    const bool is_bare = (others_ & (kHasKey | kHasIdentity)) == 0 && reply.choice == 0;
    return is_bare && suits() ? Status() : refusal();
  }
  if (reply.choice == 0) {
    // Only an end that knows the session could prove anything.
    if (session_ && reply.status == RIPC_PEER_DEAD) return RIPC_PEER_DEAD;
    return refusal();
  }
  if (reply.choice > attempts_.size()) return forged();
  chosen_.emplace(std::move(attempts_[reply.choice - 1]));
  if (!chosen_->read(reply.message, payload_) || payload_ != bound_reply(reply)) return forged();
  // Nobody could have changed this answer, so the other end did agree to it.
  if (!suits()) return refusal();
  return chosen_->complete() ? Status() : note_peer(*chosen_);
}

Status Proof::confirm(Confirm& confirm) {
  confirm.message = {};
  if (!chosen_) return {};
  const bool is_last = !chosen_->complete();
  if (is_last && !chosen_->write({}, message_)) return forged();
  settle();
  if (!is_last) {
    const Secret proof = proven_.to_responder.derive(kConfirmPurpose);
    message_.assign(proof.bytes().begin(), proof.bytes().end());
  }
  confirm.message = message_;
  return {};
}

// ---- The end that answers -----------------------------------------------------------------------------------

bool SeenOffers::contains_or_takes(std::span<const std::byte> message) {
  const auto offer = wire::load_le<std::uint64_t>(message.data());
  if (std::find(seen_.begin(), seen_.end(), offer) != seen_.end()) return true;
  if (seen_.size() < kKept) {
    seen_.push_back(offer);
  } else {
    seen_[next_] = offer;
    next_ = (next_ + 1) % kKept;
  }
  return false;
}

bool Proof::examine(const Hello& hello, SeenOffers& seen) {
  others_ = hello.abilities;
  prologue_ = bound_hello(hello);
  chosen_.reset();
  if (!is_needed()) return true;
  if (!suits()) return false;
  const std::vector<Secret> secrets = shared_secrets();
  for (const Pattern pattern : patterns()) {
    for (const Secret& shared : secrets) {
      if (choose(hello.offers, pattern, shared, seen)) return true;
    }
  }
  return false;
}

bool Proof::choose(std::span<const std::byte> offers, Pattern pattern, const Secret& shared, SeenOffers& seen) {
  for (std::size_t index = 0; index < offers.size() / HandshakeOffer::kSize; ++index) {
    const auto offer = offers.subspan(index * HandshakeOffer::kSize, HandshakeOffer::kSize);
    if (offer[0] != static_cast<std::byte>(pattern)) continue;
    Noise attempt = begin(pattern, false, shared);
    if (!attempt.read(offer.subspan(1), payload_) || !payload_.empty()) continue;
    if (seen.contains_or_takes(offer.subspan(1))) continue;
    chosen_.emplace(std::move(attempt));
    choice_ = static_cast<std::uint32_t>(index + 1);
    return true;
  }
  return false;
}

bool Proof::answer(HelloReply& reply) {
  reply.abilities = abilities();
  reply.choice = 0;
  reply.message = {};
  if (!chosen_) return true;
  reply.choice = choice_;
  if (!chosen_->write(bound_reply(reply), message_)) return false;
  reply.message = message_;
  return true;
}

Status Proof::judge(const Confirm& confirm) {
  if (!chosen_) return confirm.message.empty() ? Status() : Status(RIPC_CORRUPT);
  if (!chosen_->complete()) {
    if (!chosen_->read(confirm.message, payload_)) return forged();
    settle();
    return note_peer(*chosen_);
  }
  settle();
  const Secret expected = proven_.to_responder.derive(kConfirmPurpose);
  if (confirm.message.size() != Secret::kSize ||
      sodium_memcmp(confirm.message.data(), expected.data(), Secret::kSize) != 0) {
    proven_ = {};
    return forged();
  }
  return {};
}

}  // namespace ripc::internal::remote
