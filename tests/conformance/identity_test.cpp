// SPDX-License-Identifier: Apache-2.0
// Identities, trust files, and who a message is from.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "call_ends.hpp"
#include "peer_host.hpp"

namespace conformance {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

ripc_peer peer_of(const Message& message) {
  ripc_peer peer = initialized(ripc_peer_init);
  EXPECT_EQ(ripc_message_peer(message.get(), &peer), RIPC_OK);
  return peer;
}

// Each test has its own identity file and trust file.
class Identities : public TransportTest {
 protected:
  void SetUp() override {
    if (peer_host() != nullptr) GTEST_SKIP() << "the contexts are of one host";
    const char* const network = std::getenv("RIPC_NETWORK");
    if (network != nullptr && std::string(network) == "open") GTEST_SKIP() << "an open network takes no trust file";
    ASSERT_EQ(ripc_identity_create(identity_.c_str(), 0, nullptr, 0, key_.data()), RIPC_OK) << ripc_last_error();
  }
  // Writes a line for the user who runs the test, with these rights.
  void trust(const std::string& rights, const std::string& name = "me") {
    const std::string line = key() + " user=" + std::to_string(::getuid()) + " " + rights;
    ASSERT_EQ(ripc_trust_change(trust_.c_str(), name.c_str(), line.c_str(), nullptr), RIPC_OK) << ripc_last_error();
  }
  std::string key() const { return key_.data(); }
  Context make_trusting_context() const {
    return make_context([&](ripc_context_options& options) {
      options.identity_file = identity_.c_str();
      options.trust_file = trust_.c_str();
    });
  }
  static Service named(const Context& context, const char* name) {
    return make_service(context, [&](ripc_service_options& options) { options.name = name; });
  }

  const TemporaryDirectory files_;
  const std::string identity_ = files_.path() + "/identity";
  const std::string trust_ = files_.path() + "/trust";
  std::array<char, RIPC_PUBLIC_KEY_SIZE> key_{};
};
CONFORMANCE_SUITE(Identities);

TEST_P(Identities, AMessageSaysWhichUserOfThisHostItIsFrom) {
  const Context context = make_context();
  const Service server = make_service(context);
  const Context other = make_context();
  const Service client = make_service(other);
  ASSERT_EQ(send_text(client, id_of(server), "hello"), RIPC_OK);
  const ripc_peer peer = peer_of(receive(server));
  EXPECT_EQ(peer.is_on_this_host, 1U);
  EXPECT_EQ(peer.user, ::getuid());
  EXPECT_STREQ(peer.identity, "");
}

TEST_P(Identities, TheUserThatATrustFileNamesIsThatMember) {
  trust("holds=*");
  const Context context = make_trusting_context();
  const Service server = make_service(context);
  const Context other = make_context();
  const Service client = make_service(other);
  ASSERT_EQ(send_text(client, id_of(server), "hello"), RIPC_OK);
  EXPECT_STREQ(peer_of(receive(server)).identity, "me");
}

TEST_P(Identities, ALongMessageNamesItsSender) {
  trust("holds=*");
  const Context context = make_trusting_context();
  const Service server = make_service(context);
  const Context other = make_context();
  const Service client = make_service(other);
  const Bytes bytes = pattern(1 << 20, 5);
  const Ticket ticket = send_long(client, id_of(server), {item(bytes, RIPC_ITEM_LONG)});
  const Message message = receive(server, RIPC_RECEIVE_LEND);
  ASSERT_NE(message.get(), nullptr);
  EXPECT_STREQ(peer_of(message).identity, "me");
}

TEST_P(Identities, APeerNeedsAMessageAndASizedStructure) {
  ripc_peer peer = initialized(ripc_peer_init);
  EXPECT_EQ(peer.user, UINT32_MAX);
  EXPECT_EQ(ripc_message_peer(nullptr, &peer), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_request_peer(nullptr, &peer), RIPC_INVALID_ARGUMENT);
  const Context context = make_context();
  const Service service = make_service(context);
  ASSERT_EQ(send_text(service, id_of(service), "hello"), RIPC_OK);
  const Message message = receive(service);
  EXPECT_EQ(ripc_message_peer(message.get(), nullptr), RIPC_INVALID_ARGUMENT);
  peer.size = 0;
  EXPECT_EQ(ripc_message_peer(message.get(), &peer), RIPC_INVALID_ARGUMENT);
}

// A program of another version has a structure of another size.
TEST_P(Identities, APeerIsWrittenAsFarAsTheCallersSize) {
  const std::string longest(64, 'n');
  trust("holds=*", longest);
  EXPECT_EQ(ripc_trust_change(trust_.c_str(), (longest + "n").c_str(), key().c_str(), nullptr), RIPC_INVALID_ARGUMENT);
  const Context context = make_trusting_context();
  const Service server = make_service(context);
  const Context other = make_context();
  const Service client = make_service(other);
  ASSERT_EQ(send_text(client, id_of(server), "hello"), RIPC_OK);
  const Message message = receive(server);
  EXPECT_EQ(peer_of(message).identity, longest);

  ripc_peer older = initialized(ripc_peer_init);
  older.size = offsetof(ripc_peer, identity);
  older.identity[0] = '?';
  EXPECT_EQ(ripc_message_peer(message.get(), &older), RIPC_OK);
  EXPECT_EQ(older.user, ::getuid());
  EXPECT_EQ(older.identity[0], '?') << "beyond its size";

  struct {
    ripc_peer known;
    char unknown[16];
  } newer{initialized(ripc_peer_init), "unknown"};
  newer.known.size = sizeof newer;
  EXPECT_EQ(ripc_message_peer(message.get(), &newer.known), RIPC_OK);
  EXPECT_EQ(newer.known.size, sizeof newer);
  EXPECT_EQ(newer.known.identity, longest);
  EXPECT_STREQ(newer.unknown, "unknown");
}

TEST_P(Identities, TheNameInARecordOutlivesItsPeerAndItsMembership) {
  trust("holds=*");
  const Context context = make_trusting_context();
  const Service server = make_service(context);
  ripc_record record{};
  {
    const Context other = make_context();
    const Service client = make_service(other);
    ASSERT_EQ(send_text(client, id_of(server), "hello"), RIPC_OK);
    alignas(8) std::array<unsigned char, RIPC_MAX_RECORD + 64> memory{};
    std::size_t count = 0;
    ASSERT_EQ(ripc_receive_records(server.get(), 0, kLimit, memory.data(), memory.size(), 1, &count), RIPC_OK);
    ASSERT_EQ(count, 1u);
    std::memcpy(&record, memory.data(), sizeof record);
  }
  EXPECT_EQ(record.message, nullptr);
  EXPECT_EQ(record.peer_is_on_this_host, 1u);
  EXPECT_EQ(record.peer_user, ::getuid());
  EXPECT_TRUE(eventually([&] {
    ripc_message* none = nullptr;
    EXPECT_EQ(ripc_receive(server.get(), 0, 0, &none), RIPC_EMPTY);  // notices that the sender is gone
    return statistics_of(server).senders == 0;
  }));
  ASSERT_EQ(ripc_trust_change(trust_.c_str(), "me", nullptr, nullptr), RIPC_OK) << ripc_last_error();
  trust("holds=*", "somebody");
  EXPECT_EQ(ripc_trust_status(context.get()), RIPC_OK) << ripc_last_error();
  EXPECT_STREQ(record.peer_identity, "me");
}

TEST_P(Identities, AMemberReachesOnlyTheServicesThatItMayCall) {
  trust("holds=* calls=bank,open.*");
  const Context context = make_trusting_context();
  const Service bank = named(context, "bank");
  const Service open = named(context, "open.door");
  const Service till = named(context, "till");
  const Service unnamed = make_service(context);
  const Context other = make_context();
  const Service client = make_service(other);
  for (const Service* service : {&bank, &open, &unnamed}) {
    EXPECT_EQ(send_text(client, id_of(*service), "hello"), RIPC_OK) << ripc_last_error();
    EXPECT_NE(receive(*service).get(), nullptr);
  }
  EXPECT_EQ(send_text(client, id_of(till), "hello"), RIPC_REFUSED);
  EXPECT_THAT(ripc_last_error(), HasSubstr("calls="));
  ripc_security_statistics refused = initialized(ripc_security_statistics_init);
  ASSERT_EQ(ripc_security_get_statistics(context.get(), &refused), RIPC_OK);
  EXPECT_GE(refused.links_refused, 1U);
  EXPECT_EQ(refused.handshakes_refused + refused.records_refused + refused.trust_reloads + refused.trust_failures, 0U);
}

TEST_P(Identities, ACallThatIsNotAdmittedSaysSo) {
  trust("holds=* calls=");
  const Context context = make_trusting_context();
  const Service bank = named(context, "bank");
  const Context other = make_context();
  const Service client = make_service(other);
  const Rpc rpc = make_rpc(client);
  const Outcome refused = call(rpc, id_of(bank), 0);
  EXPECT_EQ(refused.outcome, RIPC_CALL_DID_NOT_RUN);
  EXPECT_EQ(refused.status, RIPC_REFUSED) << ripc_status_name(refused.status);
}

TEST_P(Identities, AMemberThatMayNotCallAnyMoreLosesItsOpenLink) {
  trust("holds=* calls=bank");
  const Context context = make_trusting_context();
  const Service bank = named(context, "bank");
  const Context other = make_context();
  const Service client = make_service(other);
  ASSERT_EQ(send_text(client, id_of(bank), "hello"), RIPC_OK) << ripc_last_error();
  trust("holds=* calls=");
  EXPECT_TRUE(eventually([&] { return send_text(client, id_of(bank), "hello") == RIPC_REFUSED; })) << ripc_last_error();
}

TEST_P(Identities, AMemberKeepsItsLinkThoughItMayNotCallAServiceToWhichItHadOneBefore) {
  trust("holds=* calls=bank,till,open.*");
  const Context context = make_trusting_context();
  Service bank = named(context, "bank");
  const Service open = named(context, "open.door");
  const Service till = named(context, "till");
  const Context first = make_context();
  const Service client = make_service(first);
  const Context second = make_context();
  const Service refused = make_service(second);
  for (const Service* service : std::initializer_list<const Service*>{&bank, &open}) {
    ASSERT_EQ(send_text(client, id_of(*service), "hello"), RIPC_OK) << ripc_last_error();
    (void)receive(*service);
  }
  ASSERT_EQ(send_text(refused, id_of(till), "hello"), RIPC_OK) << ripc_last_error();
  bank.reset();
  bank = named(context, "bank");
  trust("holds=* calls=open.*");
  ASSERT_TRUE(eventually([&] { return send_text(refused, id_of(till), "hello") == RIPC_REFUSED; }));
  ripc_message* message = nullptr;
  EXPECT_EQ(ripc_receive(open.get(), 0, 0, &message), RIPC_EMPTY);
  EXPECT_EQ(statistics_of(open).senders, 1U);
}

TEST_P(Identities, AMemberThatIsRemovedLosesItsNameOnOpenLinks) {
  trust("holds=*");
  const Context context = make_trusting_context();
  const Service bank = named(context, "bank");
  const Context other = make_context();
  const Service client = make_service(other);
  const auto is_now = [&](const std::string& name) {
    // A message over a link that ends at this moment is dropped.
    (void)send_text(client, id_of(bank), "hello");
    ripc_message* message = nullptr;
    if (ripc_receive(bank.get(), 0, kLimit / 100, &message) != RIPC_OK) return false;
    return name == peer_of(Message(message)).identity;
  };
  ASSERT_TRUE(is_now("me"));
  ASSERT_EQ(ripc_trust_change(trust_.c_str(), "me", nullptr, nullptr), RIPC_OK) << ripc_last_error();
  EXPECT_TRUE(eventually([&] { return is_now(""); }));
  trust("holds=*", "somebody");
  EXPECT_TRUE(eventually([&] { return is_now("somebody"); }));
}

TEST_P(Identities, AChangedTrustFileIsInForceWithoutARestart) {
  trust("holds=* calls=");
  const Context context = make_trusting_context();
  const Service bank = named(context, "bank");
  const Context other = make_context();
  const Service client = make_service(other);
  EXPECT_EQ(send_text(client, id_of(bank), "hello"), RIPC_REFUSED);
  trust("holds=* calls=bank");
  EXPECT_TRUE(eventually([&] { return send_text(client, id_of(bank), "hello") == RIPC_OK; })) << ripc_last_error();
  EXPECT_NE(receive(bank).get(), nullptr);
}

TEST_P(Identities, ABrokenTrustFileLeavesTheOldOneInForce) {
  trust("holds=* calls=");
  const Context context = make_trusting_context();
  const Service bank = named(context, "bank");
  const Context other = make_context();
  const Service client = make_service(other);
  std::ofstream(trust_) << "nonsense\n";
  EXPECT_EQ(ripc_trust_read(trust_.c_str(), nullptr, nullptr), RIPC_INVALID_ARGUMENT);
  const std::uint64_t end = now() + kSecond;
  while (now() < end) EXPECT_EQ(send_text(client, id_of(bank), "hello"), RIPC_REFUSED);
  EXPECT_EQ(ripc_trust_status(context.get()), RIPC_INVALID_ARGUMENT);
  EXPECT_THAT(ripc_last_error(), HasSubstr("line 1"));
  ripc_security_statistics statistics = initialized(ripc_security_statistics_init);
  ASSERT_EQ(ripc_security_get_statistics(context.get(), &statistics), RIPC_OK);
  EXPECT_EQ(statistics.trust_failures, 1U);
  std::filesystem::remove(trust_);
  trust("holds=*");
  EXPECT_EQ(ripc_trust_status(context.get()), RIPC_OK);
  EXPECT_EQ(ripc_trust_status(nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_security_get_statistics(context.get(), nullptr), RIPC_INVALID_ARGUMENT);
}

TEST_P(Identities, FilesThatAreNamedAndCannotBeUsedAreErrors) {
  const auto create = [&](const char* identity, const char* trust) {
    ripc_context_options options = context_options();
    options.identity_file = identity;
    options.trust_file = trust;
    ripc_context* context = nullptr;
    const ripc_status status = ripc_context_create(&options, &context);
    ripc_context_destroy(context);
    return status;
  };
  const std::string missing = files_.path() + "/missing";
  EXPECT_EQ(create(missing.c_str(), nullptr), RIPC_SYSTEM);
  EXPECT_EQ(create(nullptr, missing.c_str()), RIPC_SYSTEM);
  EXPECT_EQ(create("", nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(create(nullptr, ""), RIPC_INVALID_ARGUMENT);
  ASSERT_EQ(::chmod(identity_.c_str(), 0644), 0);
  EXPECT_EQ(create(identity_.c_str(), nullptr), RIPC_PERMISSION);
  std::ofstream(trust_) << "me nonsense\n";
  EXPECT_EQ(create(nullptr, trust_.c_str()), RIPC_INVALID_ARGUMENT);
  EXPECT_THAT(ripc_last_error(), HasSubstr("line 1"));
  ASSERT_EQ(::chmod(trust_.c_str(), 0666), 0);
  EXPECT_EQ(create(nullptr, trust_.c_str()), RIPC_PERMISSION);
}

TEST_P(Identities, AnIdentityIsMadeOnceAndReadAgain) {
  EXPECT_THAT(key(), StartsWith("ed25519:"));
  std::array<char, RIPC_PUBLIC_KEY_SIZE> again{};
  std::array<char, 4096> path{};
  ASSERT_EQ(ripc_identity_read(identity_.c_str(), path.data(), path.size(), again.data()), RIPC_OK);
  EXPECT_EQ(key(), again.data());
  EXPECT_EQ(identity_, path.data());
  struct stat info {};
  ASSERT_EQ(::stat(identity_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(ripc_identity_create(identity_.c_str(), 0, nullptr, 0, nullptr), RIPC_INVALID_ARGUMENT);
  ASSERT_EQ(ripc_identity_create(identity_.c_str(), 1, nullptr, 0, again.data()), RIPC_OK);
  EXPECT_NE(key(), again.data());
  EXPECT_EQ(ripc_identity_read("", nullptr, 0, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_identity_read(identity_.c_str(), path.data(), 1, nullptr), RIPC_INVALID_ARGUMENT);
}

TEST_P(Identities, WithoutRoomForItsPathNoFileIsMade) {
  const std::string file = runtime_directory() + "/new.key";
  std::array<char, 4096> path{};
  const std::size_t exact = file.size() + 1;
  struct stat info {};
  EXPECT_EQ(ripc_identity_create(file.c_str(), 0, path.data(), exact - 1, nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_cluster_key_create(file.c_str(), 0, path.data(), exact - 1), RIPC_INVALID_ARGUMENT);
  EXPECT_NE(::stat(file.c_str(), &info), 0);
  ASSERT_EQ(ripc_identity_create(file.c_str(), 0, path.data(), exact, nullptr), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(path.data(), file);
  ASSERT_EQ(::unlink(file.c_str()), 0);
  ASSERT_EQ(ripc_cluster_key_create(file.c_str(), 0, path.data(), exact), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(path.data(), file);
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(ripc_cluster_key_create(file.c_str(), 0, nullptr, 0), RIPC_INVALID_ARGUMENT) << "it is there";
  const auto content = [&] {
    std::ifstream stream(file);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  const std::string first = content();
  EXPECT_EQ(ripc_cluster_key_create(file.c_str(), 1, nullptr, 0), RIPC_OK) << ripc_last_error();
  EXPECT_NE(content(), first) << "a random one";
}

TEST_P(Identities, ATrustFileIsChangedLineByLine) {
  std::ofstream(trust_) << "# kept\n";
  trust("holds=bank", "alice");
  std::string seen;
  const auto list = [&] {
    seen.clear();
    return ripc_trust_read(
        trust_.c_str(),
        [](void* user, const ripc_trust_member* member) {
          *static_cast<std::string*>(user) +=
              std::to_string(member->line) + " " + member->name + " " + member->rights + "\n";
        },
        &seen);
  };
  const std::string user = "user=" + std::to_string(::getuid());
  ASSERT_EQ(list(), RIPC_OK);
  EXPECT_EQ(seen, "2 alice " + user + " holds=bank\n");
  // The new line takes the place of the old one.
  trust("holds=bank calls=", "alice");
  ASSERT_EQ(list(), RIPC_OK);
  EXPECT_EQ(seen, "2 alice " + user + " holds=bank calls=\n");
  // A line that could not be read back is not written.
  EXPECT_EQ(ripc_trust_change(trust_.c_str(), "bob", key().c_str(), nullptr), RIPC_INVALID_ARGUMENT) << "the same key";
  EXPECT_EQ(ripc_trust_change(trust_.c_str(), "bob", "x", nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_trust_change(trust_.c_str(), "bob", "x\ny", nullptr), RIPC_INVALID_ARGUMENT);
  EXPECT_EQ(ripc_trust_change(trust_.c_str(), "bob", nullptr, nullptr), RIPC_INVALID_ARGUMENT) << "not there";
  EXPECT_EQ(ripc_trust_change(trust_.c_str(), nullptr, key().c_str(), nullptr), RIPC_INVALID_ARGUMENT);
  ASSERT_EQ(list(), RIPC_OK);
  EXPECT_EQ(seen, "2 alice " + user + " holds=bank calls=\n");
  ASSERT_EQ(ripc_trust_change(trust_.c_str(), "alice", nullptr, nullptr), RIPC_OK);
  ASSERT_EQ(list(), RIPC_OK);
  EXPECT_EQ(seen, "");
  std::string text;
  std::getline(std::ifstream(trust_), text);
  EXPECT_EQ(text, "# kept");
}

TEST_P(Identities, ASignerThatTheClusterKeyFileNamesMustHaveSigned) {
  trust("holds=bank");
  const std::string cluster = files_.path() + "/cluster.key";
  std::ofstream(cluster) << std::string(32, '0') + std::string(32, '1') + "\nsigner " + key() + "\n";
  ASSERT_EQ(::chmod(cluster.c_str(), 0600), 0);
  const auto create = [&] {
    ripc_context_options options = context_options();
    options.cluster_key_file = cluster.c_str();
    options.trust_file = trust_.c_str();
    ripc_context* context = nullptr;
    const ripc_status status = ripc_context_create(&options, &context);
    ripc_context_destroy(context);
    return status;
  };
  EXPECT_EQ(create(), RIPC_REFUSED);
  EXPECT_THAT(ripc_last_error(), HasSubstr("ripc trust sign"));
  ASSERT_EQ(ripc_trust_change(trust_.c_str(), nullptr, nullptr, identity_.c_str()), RIPC_OK);
  EXPECT_EQ(create(), RIPC_OK) << ripc_last_error();
  std::ofstream(trust_, std::ios::app) << "# changed\n";
  EXPECT_NE(create(), RIPC_OK);
}

TEST_P(Identities, ACallSaysWhoCalls) {
  trust("holds=*");
  const Context context = make_trusting_context();
  const Service server = make_service(context);
  const Context other = make_context();
  const Service client = make_service(other);
  ripc_rpc* answering = nullptr;
  ripc_rpc* calling = nullptr;
  ASSERT_EQ(ripc_rpc_create(server.get(), nullptr, &answering), RIPC_OK);
  ASSERT_EQ(ripc_rpc_create(client.get(), nullptr, &calling), RIPC_OK);
  std::string identity;
  ASSERT_EQ(ripc_rpc_handle(
                answering, 1, 0,
                [](void* user, ripc_request* request) {
                  ripc_peer peer = initialized(ripc_peer_init);
                  if (ripc_request_peer(request, &peer) == RIPC_OK) *static_cast<std::string*>(user) = peer.identity;
                  EXPECT_EQ(ripc_request_reply(request, 0, nullptr, 0, nullptr), RIPC_OK);
                  EXPECT_EQ(ripc_request_peer(request, &peer), RIPC_INVALID_ARGUMENT) << "it is answered";
                },
                &identity),
            RIPC_OK);
  bool ended = false;
  ASSERT_EQ(ripc_rpc_call(
                calling, id_of(server), 1, nullptr, 0, nullptr,
                [](void* user, const ripc_call_result* result) {
                  EXPECT_EQ(result->status, static_cast<std::uint32_t>(RIPC_OK));
                  *static_cast<bool*>(user) = true;
                },
                &ended, nullptr),
            RIPC_OK);
  EXPECT_TRUE(eventually([&] {
    (void)ripc_rpc_run(answering, 0, nullptr);
    (void)ripc_rpc_run(calling, 0, nullptr);
    return ended;
  }));
  EXPECT_EQ(identity, "me");
  ripc_rpc_destroy(calling);
  ripc_rpc_destroy(answering);
}

}  // namespace
}  // namespace conformance
