// SPDX-License-Identifier: Apache-2.0
// Peers that differ: other users and other namespaces. Also the deaths of whole processes.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <set>

#include "peer_host.hpp"
#include "puppet.hpp"

namespace conformance {
namespace {

constexpr ripc_service_id kRefusingId = 77;

class Peers : public TransportTest {
 protected:
  // Exchanges messages of every kind with a puppet, both ways.
  void exchange(Puppet& puppet, const Service& service) {
    ASSERT_EQ(send_text(service, kRefusingId, "hello"), RIPC_OK) << ripc_last_error();
    const std::string_view hello = "hello";
    const auto* bytes = reinterpret_cast<const unsigned char*>(hello.data());
    EXPECT_EQ(puppet.call("receive"), "RIPC_OK " + describe(RIPC_VIEW_SHORT, {bytes, hello.size()}));
    EXPECT_EQ(puppet.call("reply and back"), "RIPC_OK");
    EXPECT_EQ(text_of(receive(service)), "and back");

    const Bytes data = pattern(300'000, 3);
    const Context& owner = context_;
    const auto pooled = lease(owner, data.size());
    fill_pattern(pooled.get(), data.size(), 3);
    for (const void* memory : {static_cast<const void*>(pooled.get()), static_cast<const void*>(data.data())}) {
      ASSERT_EQ(puppet.call("post 300000 1"), "RIPC_OK");
      const Ticket ticket = send_long(service, kRefusingId, {item_at(memory, data.size(), RIPC_ITEM_LONG)});
      EXPECT_EQ(puppet.call("receive"), "RIPC_OK " + describe(RIPC_VIEW_WINDOW, data));
      EXPECT_EQ(final_status(ticket), RIPC_OK);

      const Ticket lent = send_long(service, kRefusingId, {item_at(memory, data.size(), RIPC_ITEM_LONG)});
      EXPECT_EQ(puppet.call("receive lend"), "RIPC_OK " + describe(RIPC_VIEW_LENT, data));
      EXPECT_EQ(puppet.call("release"), "ok");
      EXPECT_EQ(final_status(lent), RIPC_OK);
    }
    const std::string to = std::to_string(id_of(service));
    for (const char* memory : {"pool", "foreign"}) {
      Bytes window(data.size());
      ASSERT_EQ(ripc_window_post(service.get(), window.data(), window.size(), 1), RIPC_OK);
      ASSERT_EQ(puppet.call("send_long " + to + " 300000 3 " + memory + " 0"), "RIPC_OK");
      EXPECT_TRUE(holds(view_of(receive(service), 0), RIPC_VIEW_WINDOW, data)) << memory;
      EXPECT_EQ(puppet.call("wait"), "RIPC_OK");
    }

    Bytes buffer(data.size());
    const ripc_return_buffer offered{buffer.data(), buffer.size()};
    ripc_send_options options = send_options();
    options.return_count = 1;
    options.returns = &offered;
    Bytes window(data.size());  // for a pair of processes that cannot write to each other
    ASSERT_EQ(ripc_window_post(service.get(), window.data(), window.size(), 1), RIPC_OK);
    ASSERT_EQ(ripc_send(service.get(), kRefusingId, nullptr, 0, &options, nullptr), RIPC_OK);
    ASSERT_EQ(puppet.status_of("receive"), "RIPC_OK");
    ASSERT_EQ(puppet.call("reply_return 300000 3"), "RIPC_OK");
    const Message answer = receive(service);
    const ripc_item_view view = view_of(answer, 0);
    EXPECT_TRUE(holds(view, static_cast<ripc_view_kind>(view.kind), data));
    EXPECT_TRUE(view.data == buffer.data() || view.data == window.data());

    const std::string notification = puppet.call("notification");
    ASSERT_EQ(notification.substr(0, 8), "RIPC_OK ");
    ripc_notification bell{};
    bell.service = kRefusingId;
    bell.handle = std::stoull(notification.substr(notification.rfind(' ') + 1));
    ASSERT_EQ(ripc_notify(service.get(), &bell, nullptr, 0), RIPC_OK);
    EXPECT_TRUE(eventually([&] { return puppet.call("notified") == "1"; }));
  }

  Context context_;
};
CONFORMANCE_SUITE(Peers);

TEST_P(Peers, AnotherProcessIsAPeerInEveryWay) {
  context_ = make_context();
  const Service service = make_service(context_);
  Puppet puppet(peer_setup());
  ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
  exchange(puppet, service);
}

// ---- Forbidden system calls --------------------------------------------------------------------------------------

TEST_P(Peers, ForeignMemoryTravelsBetweenProcessesThatMayReadNoMemoryAtAll) {
  PeerSetup setup = peer_setup();
  setup.no_process_memory = true;
  Puppet asker(setup);
  Puppet answerer(setup);
  ASSERT_EQ(asker.register_id(kRefusingId), "RIPC_OK");
  ASSERT_EQ(answerer.register_id(kRefusingId + 1), "RIPC_OK");
  const Bytes data = pattern(1'300'000, 3);

  ASSERT_EQ(answerer.call("post 1300000 1"), "RIPC_OK");
  ASSERT_EQ(asker.call("send_long 78 1300000 3 foreign 0"), "RIPC_OK");
  EXPECT_EQ(answerer.call("receive"), "RIPC_OK " + describe(RIPC_VIEW_WINDOW, data));
  EXPECT_EQ(asker.call("wait"), "RIPC_OK");

  ASSERT_EQ(asker.status_of("request 78 1300000"), "RIPC_OK");
  ASSERT_EQ(answerer.status_of("receive"), "RIPC_OK");
  ASSERT_EQ(answerer.call("reply_return 1300000 3"), "RIPC_OK");
  EXPECT_EQ(asker.call("receive"), "RIPC_OK " + describe(RIPC_VIEW_RETURNED, data));
}

TEST_P(Peers, WithoutMembarrierASenderWaitsForRoomAsLongAsThereIsNone) {
  context_ = make_context();
  const Service small = make_service(context_, [](ripc_service_options& options) { options.queue_messages = 16; });
  PeerSetup setup = peer_setup();
  setup.no_membarrier = true;
  Puppet puppet(setup);
  ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
  const std::string to = std::to_string(id_of(small));
  ASSERT_EQ(puppet.call("fill " + to), "RIPC_AGAIN");
  EXPECT_EQ(puppet.call("wait_room " + to + " 50"), "RIPC_TIMEOUT");
  puppet.tell("wait_room " + to + " " + std::to_string(kLimit / 2 / kMillisecond));
  ripc_message* message = nullptr;
  while (ripc_receive(small.get(), 0, 0, &message) == RIPC_OK) ripc_message_release(message);
  EXPECT_EQ(puppet.answer(), "RIPC_OK");
  EXPECT_EQ(puppet.send_text(id_of(small), "there is room"), "RIPC_OK");
}

// ---- Other users -------------------------------------------------------------------------------------------------

class OtherUsers : public Peers {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_other_user(); !reason.empty()) GTEST_SKIP() << reason;
    ASSERT_EQ(::chmod(runtime_directory().c_str(), 01777), 0);
  }
  void start(std::uint32_t policy) {
    context_ = make_context([policy](ripc_context_options& options) { options.peer_policy = policy; });
    service_ = make_service(context_);
  }
  void TearDown() override { service_.reset(); }
  PeerSetup other_user(std::uint32_t policy) const {
    PeerSetup setup = peer_setup();
    setup.other_user = true;
    setup.settings["peer_policy"] = std::to_string(policy);
    return setup;
  }

  Service service_;
};
CONFORMANCE_SUITE(OtherUsers);

TEST_P(OtherUsers, WithThePolicyAnyAnotherUserIsAPeerInEveryWay) {
  start(RIPC_PEERS_ANY);
  Puppet puppet(other_user(RIPC_PEERS_ANY));
  ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
  exchange(puppet, service_);
}

TEST_P(OtherUsers, AfterItsDeathAnotherUsersIdIsFree) {
  start(RIPC_PEERS_ANY);
  {
    Puppet puppet(other_user(RIPC_PEERS_ANY));
    ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
    ASSERT_EQ(send_text(service_, kRefusingId, "hello"), RIPC_OK);
  }
  EXPECT_TRUE(is_gone(service_, kRefusingId));
  EXPECT_NE(make_service(context_, kRefusingId), nullptr);
  Puppet again(other_user(RIPC_PEERS_ANY));
  EXPECT_EQ(again.register_id(kRefusingId), "RIPC_OK");
  EXPECT_EQ(send_text(service_, kRefusingId, "hello"), RIPC_OK) << ripc_last_error();
}

TEST_P(OtherUsers, ByDefaultOnlyTheSameUserIsAdmitted) {
  context_ = make_context();
  service_ = make_service(context_);
  Puppet stranger(other_user(RIPC_PEERS_ANY));
  ASSERT_EQ(stranger.register_id(kRefusingId), "RIPC_OK");
  const std::string answer = stranger.send_text(id_of(service_), "let me in");
  // Either the puppet may not even read where the service is, or the service refuses it.
  EXPECT_TRUE(answer == "RIPC_REFUSED" || answer == "RIPC_PERMISSION" || answer == "RIPC_NO_SERVICE") << answer;
  ripc_message* message = nullptr;
  EXPECT_EQ(ripc_receive(service_.get(), 0, 50 * kMillisecond, &message), RIPC_TIMEOUT);
}

TEST_P(OtherUsers, NoOneTalksToAServiceOfAUserWhomItDoesNotAdmitThoughItWouldBeAdmittedThere) {
  if (peer_host() != nullptr) GTEST_SKIP() << "between hosts nobody is judged by the user";
  start(RIPC_PEERS_SAME_USER);
  Puppet stranger(other_user(RIPC_PEERS_ANY));
  ASSERT_EQ(stranger.register_id(kRefusingId), "RIPC_OK");
  EXPECT_EQ(send_text(service_, kRefusingId, "a secret"), RIPC_REFUSED) << ripc_last_error();
  EXPECT_THAT(ripc_last_error(), testing::HasSubstr("RIPC_PEERS"));
}

TEST_P(OtherUsers, RootIsAlwaysAdmitted) {
  start(RIPC_PEERS_ANY);
  Puppet puppet(other_user(RIPC_PEERS_SAME_USER));
  ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
  ASSERT_EQ(send_text(service_, kRefusingId, "this is root"), RIPC_OK) << ripc_last_error();
  EXPECT_EQ(puppet.status_of("receive"), "RIPC_OK");
}

TEST_P(OtherUsers, WithThePolicyGroupTheSameGroupIsAdmittedAndNoOneElse) {
  start(RIPC_PEERS_SAME_GROUP);
  PeerSetup setup = other_user(RIPC_PEERS_SAME_GROUP);
  setup.keep_group = true;
  Puppet member(setup);
  ASSERT_EQ(member.register_id(kRefusingId), "RIPC_OK");
  EXPECT_EQ(member.send_text(id_of(service_), "hello"), "RIPC_OK");
  EXPECT_EQ(text_of(receive(service_)), "hello");

  // A socket proves only the user, and the member's user has this group.
  setup = other_user(RIPC_PEERS_ANY);
  setup.user = 65533;
  Puppet stranger(setup);
  ASSERT_EQ(stranger.register_id(kRefusingId + 1), "RIPC_OK");
  EXPECT_NE(stranger.send_text(id_of(service_), "hello"), "RIPC_OK");
  ripc_message* message = nullptr;
  EXPECT_EQ(ripc_receive(service_.get(), 0, 50 * kMillisecond, &message), RIPC_TIMEOUT);
}

TEST_P(OtherUsers, TheEnvironmentSetsThePolicy) {
  ::setenv("RIPC_PEERS", "any", 1);
  start(UINT32_MAX);
  ::unsetenv("RIPC_PEERS");
  Puppet puppet(other_user(RIPC_PEERS_ANY));
  ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
  EXPECT_EQ(puppet.send_text(id_of(service_), "hello"), "RIPC_OK");
}

TEST_P(OtherUsers, ADirectoryWithoutPermissionIsAClearError) {
  ASSERT_EQ(::chmod(runtime_directory().c_str(), 0700), 0);
  Puppet puppet(other_user(RIPC_PEERS_ANY));
  EXPECT_EQ(puppet.register_id(kRefusingId), "RIPC_PERMISSION");
}

// A privileged process could, but the other process may have become a program that its user may not touch.
TEST_P(OtherUsers, NoOneReachesIntoTheProcessOfAnotherUser) {
  if (GetParam() != "shm") GTEST_SKIP() << "with this transport no process reaches into another";
  start(RIPC_PEERS_ANY);
  Puppet puppet(other_user(RIPC_PEERS_ANY));
  ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
  const std::string to = std::to_string(id_of(service_));
  const Bytes data = pattern(100'000, 3);
  ASSERT_EQ(puppet.status_of("request " + to + " 100000"), "RIPC_OK");
  const Message question = receive(service_);
  ASSERT_EQ(send_text(service_, kRefusingId, "the way back"), RIPC_OK);  // needs the puppet's responder
  ASSERT_EQ(puppet.status_of("receive"), "RIPC_OK");
  Bytes window(data.size());
  ASSERT_EQ(ripc_window_post(service_.get(), window.data(), window.size(), 1), RIPC_OK);
  ASSERT_EQ(puppet.call("send_long " + to + " 100000 3 foreign 0"), "RIPC_OK");

  puppet.signal(SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(puppet.pid(), &status, WUNTRACED), puppet.pid());
  ripc_message* message = nullptr;
  EXPECT_EQ(ripc_receive(service_.get(), 0, 50 * kMillisecond, &message), RIPC_TIMEOUT) << "its memory was read";
  const ripc_item one = item(data, RIPC_ITEM_RETURN);
  ripc_ticket* ticket = nullptr;
  ASSERT_EQ(ripc_reply(service_.get(), question.get(), &one, 1, nullptr, &ticket), RIPC_OK) << ripc_last_error();
  const Ticket pulled(ticket);
  EXPECT_EQ(statistics_of(service_).items_returned, 0u) << "its memory was written";

  puppet.signal(SIGCONT);
  EXPECT_TRUE(holds(view_of(receive(service_), 0), RIPC_VIEW_WINDOW, data));
  EXPECT_EQ(puppet.call("receive"), "RIPC_OK " + describe(RIPC_VIEW_RETURNED, data));
  EXPECT_EQ(final_status(pulled), RIPC_OK);
}

TEST_P(OtherUsers, UsersInOtherNamespacesExchangeMessages) {
  if (const std::string reason = why_no_other_namespaces(); !reason.empty()) GTEST_SKIP() << reason;
  start(RIPC_PEERS_ANY);
  PeerSetup setup = other_user(RIPC_PEERS_ANY);
  setup.other_namespaces = true;
  Puppet puppet(setup);
  ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
  exchange(puppet, service_);
}

// ---- Other namespaces --------------------------------------------------------------------------------------------

class OtherNamespaces : public Peers {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_other_namespaces(); !reason.empty()) GTEST_SKIP() << reason;
    context_ = make_context();
    service_ = make_service(context_);
  }
  void TearDown() override { service_.reset(); }
  PeerSetup other_namespaces() const {
    PeerSetup setup = peer_setup();
    setup.other_namespaces = true;
    return setup;
  }

  Service service_;
};
CONFORMANCE_SUITE(OtherNamespaces);

TEST_P(OtherNamespaces, APeerInOtherPidAndMountNamespacesIsAPeerInEveryWay) {
  Puppet puppet(other_namespaces());
  ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
  exchange(puppet, service_);
}

TEST_P(OtherNamespaces, ThePathSaysWhyForeignMemoryIsNotReadDirectly) {
  if (GetParam() != "shm") GTEST_SKIP() << "with this transport it never is";
  Puppet puppet(other_namespaces());
  ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
  ripc_service_info info = initialized(ripc_service_info_init);
  ASSERT_EQ(ripc_find_path(context_.get(), kRefusingId, &info), RIPC_OK) << ripc_last_error();
  EXPECT_NE(std::string_view(info.reason).find("another PID namespace"), std::string_view::npos) << info.reason;
}

TEST_P(OtherNamespaces, APathToAProcessWithoutANumberHereNamesNone) {
  Puppet puppet(other_namespaces());
  const std::string path = puppet.call("path " + std::to_string(id_of(service_)));
  EXPECT_EQ(path.substr(0, 8), "RIPC_OK ");
  EXPECT_EQ(path.find("process 0"), std::string::npos) << path;
}

TEST_P(OtherNamespaces, APeerThatSeesTheRuntimeDirectoryElsewhereExchangesMessages) {
  TemporaryDirectory place;
  PeerSetup setup = other_namespaces();
  setup.bind_directory = place.path();
  Puppet puppet(setup);
  ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
  exchange(puppet, service_);
}

TEST_P(OtherNamespaces, ItsDeathIsNoticedAndItsIdIsFree) {
  Puppet puppet(other_namespaces());
  ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
  ASSERT_EQ(send_text(service_, kRefusingId, "hello"), RIPC_OK);
  puppet.kill();
  EXPECT_TRUE(is_gone(service_, kRefusingId));
  EXPECT_NE(make_service(context_, kRefusingId), nullptr);
}

TEST_P(OtherNamespaces, AProcessThereDoesNotTakeThisOneForDead) {
  const Service held = make_service(context_, kRefusingId);
  Puppet puppet(other_namespaces());
  EXPECT_EQ(puppet.register_id(kRefusingId), "RIPC_ID_IN_USE");
  ripc_service_info info = initialized(ripc_service_info_init);
  EXPECT_EQ(ripc_resolve(context_.get(), kRefusingId, &info), RIPC_OK);
}

// ---- What the dead leave -----------------------------------------------------------------------------------------

std::set<std::string> files_in(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    names.insert(entry.path().lexically_relative(directory).string());
  }
  return names;
}

TEST_P(Peers, TheNextStartClearsWhatDeadProcessesLeft) {
  make_context().reset();
  const std::set<std::string> clean = files_in(runtime_directory());
  for (int round = 0; round < 5; ++round) {
    Puppet puppet(peer_setup());
    ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
  }
  make_context().reset();
  EXPECT_EQ(files_in(runtime_directory()), clean);
}

TEST_P(Peers, NothingIsLeftInDevShm) {
  const std::set<std::string> before = files_in("/dev/shm");
  {
    Puppet puppet(peer_setup());
    ASSERT_EQ(puppet.register_id(kRefusingId), "RIPC_OK");
    context_ = make_context();
    const Service service = make_service(context_);
    ASSERT_EQ(puppet.call("send_long " + std::to_string(id_of(service)) + " 100000 1 pool 0"), "RIPC_OK");
  }
  EXPECT_EQ(files_in("/dev/shm"), before);
}

TEST_P(Peers, ManyProcessesTalkToOneService) {
  context_ = make_context();
  const Service service = make_service(context_, kRefusingId);
  std::vector<std::unique_ptr<Puppet>> puppets;
  for (ripc_service_id index = 0; index < 10; ++index) {
    PeerSetup setup = peer_setup();
    // They all connect at once, perhaps on one processor.
    setup.settings["resolve_timeout"] = std::to_string(kLimit);
    puppets.push_back(std::make_unique<Puppet>(setup));
    ASSERT_EQ(puppets.back()->register_id(1000 + index), "RIPC_OK");
  }
  for (const auto& puppet : puppets) puppet->tell("stream 77 100");
  int received = 0;
  while (received < 1000 && receive(service) != nullptr) ++received;
  EXPECT_EQ(received, 1000);
  for (const auto& puppet : puppets) EXPECT_EQ(puppet->answer(), "RIPC_OK");
  EXPECT_EQ(statistics_of(service).senders, 10u);
}

}  // namespace
}  // namespace conformance
