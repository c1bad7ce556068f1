// SPDX-License-Identifier: Apache-2.0
// Fuzzes both ends of the handshake's proof with well-formed frames, once with only a cluster key and once for a member
// of a trust file. Without the cluster key, nobody proves anything, and no answer convinces the side that connects.
// With the cluster key and an identity made from the input, nobody passes for a member of the trust file.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/service_id.hpp"
#include "remote/session/proof.hpp"
#include "require.hpp"

namespace {

using fuzz::require;
using namespace ripc::internal::remote;  // NOLINT(google-build-using-namespace): a test of it
using ripc::internal::Status;
namespace core = ripc::internal::core;
namespace security = ripc::internal::security;
namespace session = ripc::internal::wire::session_control;

constexpr session::Hello kAsked{.context = 1, .session = 2, .role = 1, .port = 3, .offers = {}};

ProofOptions with_key() {
  static const auto kKeys = [] {
    std::string text(63, '1');
    text.append("2\n");
    return *ripc::internal::ClusterKeys::parse(text, "fuzz");
  }();
  ProofOptions options;
  options.credentials.keys = kKeys;
  return options;
}

// The identity with this secret; nullptr if these bytes make none.
std::shared_ptr<const security::Identity> identity_of(std::span<const std::byte, 32> seed) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "secret ed25519:";
  for (const std::byte byte : seed) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  const auto identity = security::Identity::parse(text + "\n", "fuzz");
  return identity.ok() ? *identity : nullptr;
}

// The member alice, whose trust file names only her.
const ProofOptions& member() {
  static const ProofOptions kMember = [] {
    std::array<std::byte, 32> seed{};
    seed[0] = std::byte{1};
    ProofOptions options = with_key();
    options.credentials.identity = identity_of(seed);
    const std::string text =
        "alice " + security::public_key_text(options.credentials.identity->public_key()) + " holds=*\n";
    options.credentials.trust = std::make_shared<security::TrustFile>(*security::Trust::parse(
        text, "fuzz", {.service_id = core::id_of_name, .group_id = core::id_of_group, .signer = {}}));
    return options;
  }();
  return kMember;
}

// Runs a handshake with alice up to its last message, which is then in `confirm`.
void begin(Proof& theirs, Proof& own, session::Confirm& confirm) {
  SeenOffers seen;
  session::Hello asked = kAsked;
  theirs.offer(asked);
  require(own.examine(asked, seen));
  session::HelloReply answer{.context = 4, .message = {}};
  require(own.answer(answer));
  require(theirs.judge(answer).ok());
  require(theirs.confirm(confirm).ok());
}

// Lets a stranger connect who has the cluster key and an identity made from the first bytes. The rest of the bytes
// change the last message.
void meet_stranger(std::span<const std::byte> bytes) {
  ProofOptions stranger = with_key();
  stranger.credentials.identity = identity_of(bytes.first<32>());
  if (!stranger.credentials.identity) return;
  const bool is_alice = stranger.credentials.identity->public_key() == member().credentials.identity->public_key();
  Proof theirs(stranger, {}, false);
  Proof own(member(), {}, false);
  session::Confirm confirm{.message = {}};
  begin(theirs, own, confirm);
  std::vector<std::byte> message(confirm.message.begin(), confirm.message.end());
  bytes = bytes.subspan(32);
  for (std::size_t index = 0; index < std::min(message.size(), bytes.size()); ++index) message[index] ^= bytes[index];
  const bool is_changed = !std::ranges::equal(message, confirm.message);
  confirm.message = message;
  const Status status = own.judge(confirm);
  require(status.ok() == (is_alice && !is_changed));
  require(status.ok() || status == RIPC_REFUSED);
  const Proven proven = own.take();
  require(proven.session.has_value() == !is_changed);
  require(proven.peer.identity == (status.ok() ? "alice" : ""));
}

void take(const ProofOptions& options, const session::Frame& frame) {
  Proof proof(options, {}, false);
  SeenOffers seen;
  if (const auto* const hello = std::get_if<session::Hello>(&frame)) {
    require(!proof.examine(*hello, seen));
  } else if (const auto* const reply = std::get_if<session::HelloReply>(&frame)) {
    session::Hello asked = kAsked;
    proof.offer(asked);
    require(!proof.judge(*reply).ok());
  } else if (const auto* const confirm = std::get_if<session::Confirm>(&frame)) {
    session::Hello asked = kAsked;
    Proof other(options, {}, false);
    other.offer(asked);
    require(proof.examine(asked, seen));
    session::HelloReply answer{.context = 4, .message = {}};
    require(proof.answer(answer));
    require(!proof.judge(*confirm).ok());
  }
  require(!proof.take().session);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ProofOptions kWithKey = with_key();
  const auto frame = session::decode(std::as_bytes(std::span(data, size)));
  if (!frame.ok()) return 0;
  take(kWithKey, *frame);
  take(member(), *frame);
  const auto* const confirm = std::get_if<session::Confirm>(&*frame);
  if (confirm != nullptr && confirm->message.size() >= 32) meet_stranger(confirm->message);
  return 0;
}
