// SPDX-License-Identifier: Apache-2.0
// What the two ends of a connection prove to each other, and what an attacker on the path cannot make of it.
#include "remote/session/proof.hpp"

#include <gtest/gtest.h>
#include <sodium.h>

#include <functional>

#include "unit/security/trust_helpers.hpp"

namespace ripc::internal::remote {
namespace {

thread_local unsigned exponentiations = 0;

using wire::session_control::Confirm;
using wire::session_control::Frame;
using wire::session_control::Hello;
using wire::session_control::HelloReply;

ProofOptions with_key(std::string_view digit = "1", Encryption encryption = Encryption::automatic) {
  ProofOptions options;
  options.credentials.keys = security::keys_of(digit);
  options.encryption = encryption;
  return options;
}

// Member `number` of a trust file with the members 1 and 2.
ProofOptions member(unsigned number) {
  ProofOptions options = with_key();
  options.credentials.identity = security::identity_of(number);
  options.credentials.trust = std::make_shared<security::TrustFile>(
      security::trust_of("alice " + security::key_of(1) + "\nbob " + security::key_of(2) + "\n"));
  return options;
}

// A frame as the bytes that travel, where an attacker may change them.
template <typename T>
struct Sent {
  explicit Sent(const T& frame, const std::function<void(T&)>& change = {}) {
    T changed = frame;
    if (change) change(changed);
    EXPECT_EQ(wire::session_control::encode(changed, bytes), RIPC_OK);
    decoded.emplace(wire::session_control::decode(bytes).value());
  }
  const T& get() const { return std::get<T>(*decoded); }
  std::vector<std::byte> bytes;
  std::optional<Frame> decoded;
};

struct Path {
  std::function<void(Hello&)> hello;
  std::function<void(HelloReply&)> reply;
  std::function<void(Confirm&)> confirm;
};

struct Outcome {
  Status initiator = RIPC_PENDING, responder = RIPC_PENDING;  // pending: it came to nothing before
  Proven to, from;                                            // of the initiator and of the responder
  bool ok() const { return initiator.ok() && responder.ok(); }
};

constexpr Hello kHello{.context = 1, .session = 2, .number = 0, .time = 4, .role = 1, .port = 5};

Outcome meet(const ProofOptions& one, const ProofOptions& other, bool is_local = false, const Path& path = {},
             const std::optional<SessionSecret>& mine = {}, const std::optional<SessionSecret>& theirs = {}) {
  Outcome outcome;
  Proof initiator(one, mine, is_local);
  Proof responder(other, theirs, is_local);
  Hello hello = kHello;
  initiator.offer(hello);
  const Sent<Hello> offered(hello, path.hello);
  HelloReply reply{.context = 7, .received = 8};
  SeenOffers seen;
  if (!responder.examine(offered.get(), seen)) {
    outcome.responder = RIPC_REFUSED;
    reply = {.context = 1, .status = RIPC_REFUSED};
  }
  EXPECT_TRUE(responder.answer(reply));
  const Sent<HelloReply> answered(reply, path.reply);
  outcome.initiator = initiator.judge(answered.get());
  if (!outcome.initiator.ok() || answered.get().status != RIPC_OK) return outcome;
  Confirm confirm;
  outcome.initiator = initiator.confirm(confirm);
  if (!outcome.initiator.ok()) return outcome;
  outcome.to = initiator.take();
  const Sent<Confirm> confirmed(confirm, path.confirm);
  outcome.responder = responder.judge(confirmed.get());
  if (outcome.responder.ok()) outcome.from = responder.take();
  return outcome;
}

bool has(const Status& status, std::string_view words) { return status.text().find(words) != std::string_view::npos; }

TEST(Proof, WithTheSameKeyBothEndsHaveTheSameSecretsAndEachTimeOthers) {
  const Outcome first = meet(with_key(), with_key());
  ASSERT_TRUE(first.ok()) << first.initiator.text() << first.responder.text();
  ASSERT_TRUE(first.to.session && first.from.session);
  EXPECT_EQ(first.to.session->secret.bytes(), first.from.session->secret.bytes());
  EXPECT_EQ(first.to.to_responder.bytes(), first.from.to_responder.bytes());
  EXPECT_EQ(first.to.to_initiator.bytes(), first.from.to_initiator.bytes());
  EXPECT_NE(first.to.to_responder.bytes(), first.to.to_initiator.bytes());
  EXPECT_TRUE(first.to.session->protection.hides);
  const Outcome second = meet(with_key(), with_key());
  EXPECT_NE(first.to.session->secret.bytes(), second.to.session->secret.bytes());
}

TEST(Proof, ARecordedOfferIsGoodOnceWhateverElseIsSaid) {
  const ProofOptions options = member(1);
  Proof initiator(options, {}, true);
  Hello hello = kHello;
  initiator.offer(hello);
  const Sent<Hello> recorded(hello);
  SeenOffers seen;
  const auto is_good = [&](const Hello& said) {
    Proof responder(options, {}, true);
    const bool is_chosen = responder.examine(said, seen);
    HelloReply reply{.context = 7, .received = 8};
    EXPECT_TRUE(responder.answer(reply));
    EXPECT_EQ(reply.choice != 0, is_chosen);
    return is_chosen;
  };
  EXPECT_TRUE(is_good(recorded.get()));
  // The Hello has another offer, for the pattern that was not chosen.
  EXPECT_TRUE(is_good(recorded.get()));
  for (int count = 0; count < 3; ++count) EXPECT_FALSE(is_good(recorded.get()));
  initiator.offer(hello);
  EXPECT_TRUE(is_good(Sent<Hello>(hello).get()));
}

TEST(Proof, AHelloCostsNoExponentiationUntilItIsKnownToComeFromAHolderOfTheKey) {
  SeenOffers seen;
  // Of the examination and of the answer.
  const auto cost = [&](const ProofOptions& options, const Hello& hello) {
    Proof responder(options, {}, false);
    exponentiations = 0;
    const bool is_good = responder.examine(hello, seen);
    EXPECT_EQ(exponentiations, 0u);
    HelloReply reply{.context = 7, .received = 8};
    EXPECT_TRUE(responder.answer(reply));
    EXPECT_EQ(exponentiations != 0, is_good);
    return exponentiations;
  };
  const auto offered = [](const ProofOptions& options) {
    Proof initiator(options, {}, false);
    Hello hello = kHello;
    initiator.offer(hello);
    return Sent<Hello>(hello, {});
  };
  EXPECT_EQ(cost(with_key(), offered(with_key("2")).get()), 0u) << "a stranger's";
  EXPECT_EQ(cost(member(1), offered(with_key("2")).get()), 0u) << "a stranger's";
  EXPECT_EQ(cost(with_key(), offered(ProofOptions()).get()), 0u) << "without an offer";
  const Sent<Hello> once = offered(with_key());
  EXPECT_EQ(cost(with_key(), once.get()), 2u);
  EXPECT_EQ(cost(with_key(), once.get()), 0u) << "recorded";
  // The fifth follows the third message.
  EXPECT_EQ(cost(member(1), offered(member(2)).get()), 4u);
}

TEST(Proof, TheLastOffersAreRemembered) {
  SeenOffers seen;
  const auto contains = [&](std::uint64_t number) {
    return seen.contains_or_takes(std::as_bytes(std::span(&number, 1)));
  };
  for (std::uint64_t number = 0; number <= SeenOffers::kKept; ++number) EXPECT_FALSE(contains(number));
  for (std::uint64_t number = 1; number <= SeenOffers::kKept; ++number) EXPECT_TRUE(contains(number));
  EXPECT_FALSE(contains(0));
}

TEST(Proof, WithAnotherKeyOrNoneThereIsNoSessionAndASentenceSaysWhoLacksWhat) {
  const ProofOptions none;
  EXPECT_TRUE(has(meet(with_key("1"), with_key("2")).initiator, "another cluster key"));
  EXPECT_TRUE(has(meet(none, with_key()).initiator, "this context runs without one"));
  EXPECT_TRUE(has(meet(with_key(), none).initiator, "it runs without a cluster key"));
  const Outcome open = meet(none, none);
  EXPECT_TRUE(open.ok());
  EXPECT_FALSE(open.to.session || open.from.session) << "nobody has proven anything";
}

TEST(Proof, BothEndsAgreeWhetherToEncrypt) {
  const auto hides = [](Encryption one, Encryption other) {
    const Outcome outcome = meet(with_key("1", one), with_key("1", other));
    EXPECT_TRUE(outcome.ok());
    EXPECT_EQ(outcome.to.session->protection.hides, outcome.from.session->protection.hides);
    return outcome.to.session->protection.hides;
  };
  EXPECT_TRUE(hides(Encryption::automatic, Encryption::automatic));
  EXPECT_TRUE(hides(Encryption::required, Encryption::automatic));
  EXPECT_FALSE(hides(Encryption::off, Encryption::automatic));
  EXPECT_FALSE(hides(Encryption::automatic, Encryption::off));
  const auto text = [](Encryption one, Encryption other) {
    const Outcome outcome = meet(with_key("1", one), with_key("1", other));
    EXPECT_FALSE(outcome.ok());
    return outcome.initiator;
  };
  EXPECT_TRUE(has(text(Encryption::required, Encryption::off), "it does not encrypt"));
  EXPECT_TRUE(has(text(Encryption::off, Encryption::required), "it demands encryption"));
}

TEST(Proof, MembersKnowEachOther) {
  const Outcome outcome = meet(member(1), member(2));
  ASSERT_TRUE(outcome.ok()) << outcome.initiator.text() << outcome.responder.text();
  EXPECT_EQ(outcome.to.peer.identity, "bob");
  EXPECT_EQ(outcome.from.peer.identity, "alice");
}

TEST(Proof, BetweenHostsATrustFileAdmitsMembersOnly) {
  const Outcome stranger = meet(member(3), member(1));
  EXPECT_TRUE(has(stranger.responder, "its identity is not in this context's trust file")) << stranger.responder.text();
  EXPECT_TRUE(has(meet(with_key(), member(1)).initiator, "this context has no identity"));
  EXPECT_TRUE(has(meet(member(1), with_key()).initiator, "it has no identity"));
  ProofOptions nameless = member(1);
  nameless.credentials.identity.reset();
  EXPECT_TRUE(has(meet(nameless, member(2)).initiator, "but no identity to prove to other hosts"));
  ProofOptions trusting_all = member(2);
  trusting_all.credentials.trust.reset();
  EXPECT_TRUE(has(meet(trusting_all, nameless).initiator, "no identity to prove"));
}

TEST(Proof, OnOneHostTheKernelIsTheProofAndAnIdentityCountsWhereThereIsOne) {
  const Outcome without = meet(with_key(), member(1), true);
  ASSERT_TRUE(without.ok()) << without.initiator.text();
  EXPECT_EQ(without.from.peer.identity, "");
  const Outcome unknown = meet(member(3), member(1), true);
  ASSERT_TRUE(unknown.ok()) << unknown.responder.text();
  EXPECT_EQ(unknown.from.peer.identity, "");
  EXPECT_EQ(meet(member(2), member(1), true).from.peer.identity, "bob");
}

TEST(Proof, NothingOnTheWayCanBeChangedSoThereIsNoDowngrade) {
  const auto fails = [](const ProofOptions& one, const ProofOptions& other, const Path& path) {
    const Outcome outcome = meet(one, other, false, path);
    EXPECT_FALSE(outcome.ok());
    // One end may think that it has secrets, but the other end does not have the same ones.
    if (outcome.to.session && outcome.from.session) {
      EXPECT_NE(outcome.to.session->secret.bytes(), outcome.from.session->secret.bytes());
    }
  };
  for (const auto& [one, other] : {std::pair{with_key(), with_key()}, std::pair{member(1), member(2)}}) {
    for (std::uint32_t bit = 1; bit <= wire::session_control::kAllAbilities; bit <<= 1) {
      fails(one, other, {.hello = [bit](Hello& hello) { hello.abilities ^= bit; }, .reply = {}, .confirm = {}});
      fails(one, other, {.hello = {}, .reply = [bit](HelloReply& reply) { reply.abilities ^= bit; }, .confirm = {}});
    }
    fails(one, other, {.hello = [](Hello& hello) { hello.context = 9; }, .reply = {}, .confirm = {}});
    fails(one, other, {.hello = [](Hello& hello) { hello.role = 3; }, .reply = {}, .confirm = {}});
    fails(one, other, {.hello = [](Hello& hello) { hello.time = 9; }, .reply = {}, .confirm = {}});
    fails(one, other, {.hello = [](Hello& hello) { hello.offers = {}; }, .reply = {}, .confirm = {}});
    fails(one, other, {.hello = {}, .reply = [](HelloReply& reply) { reply.context = 9; }, .confirm = {}});
    fails(one, other, {.hello = {}, .reply = [](HelloReply& reply) { reply.received = 9; }, .confirm = {}});
    fails(one, other, {.hello = {}, .reply = [](HelloReply& reply) { reply.choice = 2; }, .confirm = {}});
    fails(one, other, {.hello = {}, .reply = {}, .confirm = [](Confirm& confirm) { confirm.message = {}; }});
  }
}

TEST(Proof, AMessageThatIsReflectedProvesNothing) {
  ProofOptions options = with_key();
  Proof initiator(options, {}, false);
  Hello hello = kHello;
  initiator.offer(hello);
  const HelloReply reflected{
      .context = 7, .abilities = hello.abilities, .choice = 1, .message = hello.offers.subspan(1, 48)};
  EXPECT_EQ(initiator.judge(reflected), RIPC_REFUSED);
}

TEST(Proof, AFurtherConnectionTakesTheSecretOfTheSessionAndNotTheClusterKey) {
  const Outcome first = meet(member(1), member(2));
  ASSERT_TRUE(first.ok());
  const Outcome further = meet(member(1), member(2), false, {}, first.to.session, first.from.session);
  ASSERT_TRUE(further.ok()) << further.initiator.text() << further.responder.text();
  EXPECT_EQ(further.to.session->secret.bytes(), first.to.session->secret.bytes());
  EXPECT_NE(further.to.to_responder.bytes(), first.to.to_responder.bytes());
  // A member knows the number of a session between other members.
  const Outcome other = meet(member(1), member(2));
  EXPECT_FALSE(meet(member(1), member(2), false, {}, {}, first.from.session).ok());
  EXPECT_FALSE(meet(member(1), member(2), false, {}, other.to.session, first.from.session).ok());
}

TEST(Proof, LinksAndTheirDirectionsHaveKeysOfTheirOwn) {
  const SessionSecret session{.secret = security::Secret::random(), .protection = {}};
  const auto key_of = [&](bool incoming, bool own, bool sends, std::uint32_t link, std::uint64_t token) {
    return session.of_link(incoming, own, sends, link, token).bytes();
  };
  // One end sends with the key that the other receives with.
  EXPECT_EQ(key_of(false, true, true, 1, 2), key_of(true, false, false, 1, 2));
  EXPECT_EQ(key_of(false, true, false, 1, 2), key_of(true, false, true, 1, 2));
  EXPECT_NE(key_of(false, true, true, 1, 2), key_of(false, true, false, 1, 2)) << "reflected";
  EXPECT_NE(key_of(false, true, true, 1, 2), key_of(false, false, true, 1, 2)) << "a link of the other end";
  EXPECT_NE(key_of(false, true, true, 1, 2), key_of(false, true, true, 3, 2));
  EXPECT_NE(key_of(false, true, true, 1, 2), key_of(false, true, true, 1, 3)) << "the link was opened again";
}

}  // namespace
}  // namespace ripc::internal::remote

// These replace the functions of libsodium, to count them.
extern "C" int crypto_scalarmult(unsigned char* result, const unsigned char* secret, const unsigned char* point) {
  ++ripc::internal::remote::exponentiations;
  return crypto_scalarmult_curve25519(result, secret, point);
}

extern "C" int crypto_scalarmult_base(unsigned char* result, const unsigned char* secret) {
  ++ripc::internal::remote::exponentiations;
  return crypto_scalarmult_curve25519_base(result, secret);
}
